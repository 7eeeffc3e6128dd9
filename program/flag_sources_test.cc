// The sources of values, and what --show-settings prints of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "program/flags.h"
#include "program/scoped_variable_testing.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

// A program with two commands that have a flag of the same name.
class FlagSourcesTest : public ::testing::Test {
 protected:
  // The settings, or the refusal.
  std::string Parse(const std::string& file, std::vector<std::string> line) {
    std::ofstream(path_, std::ios::binary) << file;
    FlagSet program("program", "");
    program.ReadEnvironment("SOURCES_");
    program.AddFile("");
    program.Add({{.names = "--level", .variable = &level_, .show_default = true}});
    FlagSet* const run = program.AddCommand("run", "");
    run->Add({{.names = "-s,--seed", .variable = &seed_},
              {.names = "--stop", .variable = &stop_, .list = FlagList::kRepeated},
              {.names = "--on,!--off", .variable = &on_},
              {.names = "--text", .variable = &text_}});
    FlagSet* const walk = program.AddCommand("walk", "");
    walk->Add({{.names = "--seed", .variable = &other_seed_}});
    line.insert(line.begin(), {"--config", path_});
    const absl::Status parsed = program.ParseArguments(line);
    return parsed.ok() ? program.Settings(line) : std::string(parsed.message());
  }

  const std::string path_ = ::testing::TempDir() + "flag_sources_test.toml";
  int32_t level_ = 3, seed_ = 0, other_seed_ = 0;
  std::vector<std::string> stop_;
  std::string text_;
  bool on_ = true;
};

TEST_F(FlagSourcesTest, SettingsNameTheSourceOfEachValue) {
  const ScopedVariable seed("SOURCES_SEED", "7");
  EXPECT_EQ(Parse("[run]\nstop = [\"a\\\"b\", \"\\n\"]\nseed = 6\n", {"run", "--off"}),
            "# level = 3  # the default\n"
            "[run]\n"
            "seed = 7  # the environment's SOURCES_SEED\n"
            "stop = [\"a\\\"b\", \"\\u000A\"]  # " +
                path_ +
                ":2\n"
                "on = false  # the command line\n"
                "# text\n");
  EXPECT_THAT(Parse("", {"run", "-s5"}), HasSubstr("seed = 5  # the command line\n"));
  EXPECT_THAT(Parse("", {"run", "--text", "05"}), HasSubstr("text = \"05\"  # the command line\n"));
}

TEST_F(FlagSourcesTest, SettingsAreAFileThatSetsTheSame) {
  const std::string settings =
      Parse("", {"run", "--seed", "5", "--stop", "x", "--stop", "y", "--off", "--text", "a b"});
  on_ = true;
  stop_.clear();
  seed_ = 0;
  text_.clear();
  EXPECT_THAT(Parse(settings, {"run"}), HasSubstr("seed = 5  # " + path_ + ":3\n"));
  EXPECT_EQ(seed_, 5);
  EXPECT_EQ(stop_, (std::vector<std::string>{"x", "y"}));
  EXPECT_FALSE(on_);
  EXPECT_EQ(text_, "a b");
}

TEST_F(FlagSourcesTest, AWrongValueIsPlacedInItsOwnSection) {
  EXPECT_EQ(Parse("[run]\nseed = \"x\"\n\n[walk]\nseed = 1\n", {"run"}),
            "--seed: \"x\" is no whole number (from " + path_ + ":2)");
}

TEST_F(FlagSourcesTest, ValuesOfOtherCommandsAreNothingToThisOne) {
  EXPECT_THAT(Parse("[run]\nseed = \"x\"\n", {"walk", "--seed", "4"}), HasSubstr("seed = 4"));
  const ScopedVariable text("SOURCES_STOP", "x"), on("SOURCES_ON", "perhaps");
  EXPECT_THAT(Parse("", {"walk"}), HasSubstr("[walk]\n# seed\n"));
  EXPECT_EQ(Parse("", {"run"}),
            "--on is a switch: give it without a value, or =true or =false (from the environment's "
            "SOURCES_ON)");
  EXPECT_THAT(Parse("[run]\nsede = 1\n", {"walk"}), HasSubstr(":2: run has no option \"sede\""))
      << "but names are looked at";
}

}  // namespace
}  // namespace tutti
