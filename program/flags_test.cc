#include "program/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "program/limits.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;

class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() {
    set_.Add({
        {.names = "--count", .variable = &count_, .check = IntegerIn(1, 8)},
        {.names = "--kind", .variable = &kind_, .check = OneOf("cpu,gpu")},
        {.names = "--room", .variable = &room_, .check = IsByteCount()},
        {.names = "--wait", .variable = &wait_, .check = AnySeconds()},
        {.names = "--lease", .variable = &lease_, .check = MillisecondsIn(200, 5000)},
        {.names = "--rows", .variable = &rows_, .list = FlagList::kCommas},
        {.names = "--stop", .variable = &stop_, .list = FlagList::kRepeated},
        {.names = "--on,!--off", .variable = &on_},
        {.names = "--other", .excludes = {"--count"}},
    });
  }

  int32_t count_ = 3;
  std::string kind_;
  int64_t room_ = 7;
  Duration wait_ = std::chrono::seconds(60);
  Duration lease_ = std::chrono::milliseconds(1500);
  std::vector<int32_t> rows_;
  std::vector<std::string> stop_;
  bool on_ = true;
  FlagSet set_{"program", "For a test."};
};

TEST_F(FlagsTest, SetTheirVariables) {
  ASSERT_TRUE(set_.ParseArguments({"--count", "5", "--kind=gpu", "--room", "2GiB", "--rows", "1,2",
                                   "--wait", "0.25", "--lease", "300", "--stop", "a", "--stop",
                                   "b,c", "--off"})
                  .ok());
  EXPECT_EQ(count_, 5);
  EXPECT_EQ(kind_, "gpu");
  EXPECT_EQ(room_, int64_t{2} << 30);
  EXPECT_EQ(wait_, std::chrono::milliseconds(250));
  EXPECT_EQ(lease_, std::chrono::milliseconds(300));
  EXPECT_THAT(rows_, ElementsAre(1, 2));
  EXPECT_THAT(stop_, ElementsAre("a", "b,c"));
  EXPECT_FALSE(on_);
}

TEST_F(FlagsTest, KeepTheirDefaultsAndTellWhichWereGiven) {
  ASSERT_TRUE(set_.ParseArguments({"--other", "text"}).ok());
  EXPECT_EQ(count_, 3);
  EXPECT_TRUE(on_);
  EXPECT_FALSE(set_.Given("--count"));
  ASSERT_TRUE(set_.Given("--other"));
  EXPECT_EQ(set_.Text("--other"), "text");
}

TEST_F(FlagsTest, RefuseOtherValues) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--count", "9"},
                                             {"--count", "many"},
                                             {"--kind", "tpu"},
                                             {"--room", "2parsec"},
                                             {"--wait", "-1"},
                                             {"--wait", "nan"},
                                             {"--lease", "0.5"},
                                             {"--lease", "100"},
                                             {"--rows", "1,x"},
                                             {"--nosuch"},
                                             {"--count", "2", "--other", "x"}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(set_.ParseArguments(arguments))) << arguments.front();
  }
}

TEST_F(FlagsTest, ADurationWithoutEndIsALongOne) {
  ASSERT_TRUE(set_.ParseArguments({"--wait", "1e300"}).ok());
  EXPECT_EQ(wait_, kLongestFlag);
}

TEST_F(FlagsTest, ShowTheirDefaultsAsTheyAreGiven) {
  FlagSet set("program", "");
  set.Add({
      {.names = "--room", .variable = &room_, .check = IsByteCount(), .show_default = true},
      {.names = "--wait", .variable = &wait_, .check = AnySeconds(), .show_default = true},
      {.names = "--lease",
       .variable = &lease_,
       .check = MillisecondsIn(1, 9),
       .show_default = true},
      {.names = "--kept", .variable = &room_, .check = IsByteCount()},
  });
  ASSERT_TRUE(set.ParseArguments({"--kept", "2GiB"}).ok());
  EXPECT_EQ(set.Settings({"--kept", "2GiB"}),
            "# room = 7  # the default\n# wait = 60  # the default\n# lease = 1500  # the default\n"
            "kept = \"2GiB\"  # the command line\n");
}

TEST_F(FlagsTest, ARefusalQuotesTheValueAndSaysWhatWouldBeRight) {
  const auto refusal = [this](const std::vector<std::string>& line) {
    return std::string(set_.ParseArguments(line).message());
  };
  EXPECT_EQ(refusal({"--count", "9"}), "--count: \"9\" is no whole number from 1 to 8");
  EXPECT_EQ(refusal({"--count", "many"}), "--count: \"many\" is no whole number from 1 to 8");
  EXPECT_EQ(refusal({"--kind", "cup"}),
            "--kind: \"cup\" is not one of cpu, gpu; did you mean cpu?");
  EXPECT_EQ(refusal({"--rows", "1,x"}), "--rows: \"1,x\" is no whole number");
  EXPECT_EQ(refusal({"--count"}), "--count needs a value behind it");
  EXPECT_EQ(refusal({"--count", "1", "--count", "2"}), "--count is given 2 times; give it once");
  EXPECT_EQ(refusal({"--count", "2", "--other", "x"}),
            "--count and --other exclude each other; give one of them");
}

TEST_F(FlagsTest, AMisspeltOneIsNamedWithWhatWasMeant) {
  const auto refusal = [this](const std::vector<std::string>& line) {
    return std::string(set_.ParseArguments(line).message());
  };
  EXPECT_EQ(refusal({"--coutn", "3"}), "there is no option --coutn; did you mean --count?");
  EXPECT_EQ(refusal({"--coutn=3"}), "there is no option --coutn; did you mean --count?");
  EXPECT_EQ(refusal({"--gpu-memory", "3"}), "there is no option --gpu-memory");
  EXPECT_EQ(refusal({"stray"}), "\"stray\" is one argument too many");
}

TEST(Flags, WhatIsRequiredMayBeThereUnderAnotherName) {
  FlagSet program("program", "");
  std::string model;
  program.Add({{.names = "--model", .variable = &model, .required = true}});
  EXPECT_EQ(program.ParseArguments({"--modle", "x"}).message(),
            "there is no option --modle; did you mean --model?");
  EXPECT_EQ(program.ParseArguments({}).message(), "--model is required");
}

TEST(Flags, AMisspeltCommandIsNamedWithWhatWasMeant) {
  FlagSet program("program", "");
  program.AddCommand("generate", "");
  program.AddCommand("status", "");
  EXPECT_EQ(program.ParseArguments({"genrate"}).message(),
            "there is no command \"genrate\"; did you mean generate?");
  EXPECT_EQ(program.ParseArguments({"generate", "--gpu"}).message(), "there is no option --gpu");
}

TEST(Flags, AnOptionOfTheProgramBehindACommandIsToldItsPlace) {
  FlagSet program("program", "");
  int count = 0;
  program.Add({{.names = "--count", .variable = &count}});
  program.AddCommand("generate", "");
  for (const char* argument : {"--count", "--count=3"}) {
    EXPECT_EQ(program.ParseArguments({"generate", argument}).message(),
              "--count stands before the name of the command, not behind it");
  }
}

TEST(Flags, OfACommandAreItsOwn) {
  FlagSet program("program", "");
  int32_t size = 0;
  FlagSet* run = program.AddCommand("run", "");
  FlagSet* stop = program.AddCommand("stop", "");
  run->Add({{.names = "--size", .variable = &size}});
  ASSERT_TRUE(program.ParseArguments({"run", "--size", "4"}).ok());
  EXPECT_TRUE(run->chosen());
  EXPECT_FALSE(stop->chosen());
  EXPECT_EQ(size, 4);
  EXPECT_FALSE(program.ParseArguments({"stop", "--size", "4"}).ok());
}

}  // namespace
}  // namespace tutti
