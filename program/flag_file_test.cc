#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "program/flags.h"
#include "program/scoped_variable_testing.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program with flags of every kind and a command.
class FlagFileTest : public ::testing::Test {
 protected:
  absl::Status Parse(const std::string& file, std::vector<std::string> line = {}) {
    std::ofstream(path_, std::ios::binary) << file;
    FlagSet program("program", "");
    program.ReadEnvironment("FLAGTEST_");
    program.AddFile("Read flags from this file (TOML)");
    program.Add({
        {.names = "-c,--max-count", .variable = &count_, .check = IntegerIn(1, 8)},
        {.names = "--text", .variable = &text_},
        {.names = "--share", .variable = &share_},
        {.names = "--rows", .variable = &rows_, .list = FlagList::kCommas},
        {.names = "--stop", .variable = &stop_, .list = FlagList::kRepeated},
        {.names = "--on,!--off", .variable = &on_},
        {.names = "--odd", .variable = &odd_, .environment = "ODD_ONE"},
    });
    FlagSet* const run = program.AddCommand("run", "");
    run->Add({{.names = "--seed", .variable = &seed_}});
    line.insert(line.begin(), {"--config", path_});
    line.push_back("run");
    return program.ParseArguments(line);
  }
  std::string Refusal(const std::string& file) { return std::string(Parse(file).message()); }

  const std::string path_ = ::testing::TempDir() + "flag_file_test.toml";
  int32_t count_ = 3;
  std::string text_, odd_;
  double share_ = 0;
  std::vector<int32_t> rows_;
  std::vector<std::string> stop_;
  bool on_ = true;
  std::optional<uint64_t> seed_;
};

TEST_F(FlagFileTest, ValuesOfEveryKind) {
  const absl::Status parsed = Parse(R"(
# A comment
max-count = 5
text = "a # b, c"
share = 0.1
rows = [1, 2]
stop = ["x,y", "z"]
on = false

[run]
seed = 18446744073709551
)");
  ASSERT_TRUE(parsed.ok()) << parsed;
  EXPECT_EQ(count_, 5);
  EXPECT_EQ(text_, "a # b, c");
  EXPECT_EQ(share_, 0.1);
  EXPECT_THAT(rows_, ElementsAre(1, 2));
  EXPECT_THAT(stop_, ElementsAre("x,y", "z"));
  EXPECT_FALSE(on_);
  EXPECT_EQ(seed_, 18446744073709551u);
}

TEST_F(FlagFileTest, TheLineWinsOverTheEnvironmentWinsOverTheFile) {
  const std::string file = "max-count = 4\ntext = \"file\"\nodd = \"file\"\n";
  ASSERT_TRUE(Parse(file).ok());
  EXPECT_EQ(count_, 4);
  const ScopedVariable count("FLAGTEST_MAX_COUNT", "5");
  const ScopedVariable odd("ODD_ONE", "environment");
  const ScopedVariable empty("FLAGTEST_TEXT", "");
  ASSERT_TRUE(Parse(file).ok());
  EXPECT_EQ(count_, 5);
  EXPECT_EQ(odd_, "environment");
  EXPECT_EQ(text_, "file") << "an empty variable is none";
  ASSERT_TRUE(Parse(file, {"--max-count", "6"}).ok());
  EXPECT_EQ(count_, 6);
  const ScopedVariable seed("FLAGTEST_SEED", "9");
  ASSERT_TRUE(Parse("[run]\nseed = 8\n").ok());
  EXPECT_EQ(seed_, 9u) << "of a command too";
}

TEST_F(FlagFileTest, ErrorsNameFileAndLine) {
  EXPECT_EQ(Refusal("text = \"x\"\nmaxcount = 4\n"),
            path_ + ":2: program has no option \"maxcount\"; did you mean max-count?");
  EXPECT_EQ(Refusal("\n[rum]\nseed = 1\n"),
            path_ + ":2: program has no command \"rum\"; did you mean run?");
  EXPECT_THAT(Refusal("[run]\nsede = 1\n"), HasSubstr(":2: run has no option \"sede\""));
  EXPECT_THAT(Refusal("[run.more]\nx = 1\n"), HasSubstr("run has no command \"more\""));
  EXPECT_THAT(Refusal("text = \n"), HasSubstr(path_ + ":1: "));
  EXPECT_THAT(Refusal("text = bare\n"), HasSubstr(path_ + ":1: "));
  EXPECT_THAT(Refusal("text = \"a\"\ntext = \"b\"\n"), HasSubstr(path_ + ":2: "));
  EXPECT_THAT(Refusal("text = 2020-01-01\n"), HasSubstr(":1: the value of text is neither"));
  EXPECT_THAT(Refusal("text = [[1]]\n"), HasSubstr(":1: the value of text is neither"));
  EXPECT_THAT(Refusal(std::string("text = \"a\0b\"\n", 13)), HasSubstr(path_ + ":1: "));
  EXPECT_THAT(Refusal(std::string(2 << 20, '#')), HasSubstr("more than 1048576 bytes"));
}

TEST_F(FlagFileTest, AWrongValueIsNamedWithItsPlace) {
  EXPECT_THAT(Refusal("text = \"x\"\nmax-count = 9\n"),
              ::testing::AllOf(HasSubstr("--max-count"), HasSubstr("(from " + path_ + ":2)")));
  {
    const ScopedVariable count("FLAGTEST_MAX_COUNT", "many");
    EXPECT_THAT(Refusal(""), HasSubstr("(from the environment's FLAGTEST_MAX_COUNT)"));
  }
  EXPECT_THAT(std::string(Parse("max-count = 4\n", {"--max-count", "9"}).message()),
              ::testing::Not(HasSubstr("(from")));
}

TEST_F(FlagFileTest, AFileThatIsNotThereIsNamed) {
  FlagSet program("program", "");
  program.AddFile("");
  EXPECT_THAT(std::string(program.ParseArguments({"--config", "/nowhere.toml"}).message()),
              HasSubstr("/nowhere.toml"));
}

}  // namespace
}  // namespace tutti
