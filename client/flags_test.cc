// Flags as they reach the messages: sampling flags, and where a flag may come from.
#include "program/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "client/command.h"
#include "client/sampling_flags.h"

namespace tutti::client {
namespace {

using testing::Contains;
using testing::Not;

// Parses `arguments` as the flags of a subcommand "generate", with a config file if `config` is
// given.
absl::Status Parse(const std::vector<std::string>& arguments, SamplingFlags* flags,
                   const std::string& config = "") {
  FlagSet program("tutti", "");
  program.ReadEnvironment("TUTTI_");
  program.AddFile("");
  AddSamplingFlags(program.AddCommand("generate", ""), flags);
  std::vector<std::string> all;
  if (!config.empty()) {
    const std::string path = ::testing::TempDir() + "flags_test.toml";
    std::ofstream(path) << config;
    all = {"--config", path};
  }
  all.push_back("generate");
  all.insert(all.end(), arguments.begin(), arguments.end());
  return program.ParseArguments(std::move(all));
}

TEST(SamplingFlags, WhatIsNotGivenStaysUnset) {
  SamplingFlags flags;
  ASSERT_TRUE(Parse({}, &flags).ok());
  v1::SamplingParams params;
  ASSERT_TRUE(FillSampling(flags, &params).ok());
  EXPECT_EQ(params.ByteSizeLong(), 0u) << params.DebugString();
}

TEST(SamplingFlags, ReachTheMessage) {
  SamplingFlags flags;
  const absl::Status parsed = Parse({"--max-tokens",
                                     "5",
                                     "--temperature",
                                     "0",
                                     "--top-k",
                                     "40",
                                     "--top-p",
                                     "0.5",
                                     "--min-p",
                                     "0.1",
                                     "--seed",
                                     "18446744073709551615",
                                     "--stop",
                                     "\n",
                                     "--stop",
                                     "END",
                                     "--logit-bias",
                                     "3=-100",
                                     "--logit-bias",
                                     "4=1.5",
                                     "--ignore-eos",
                                     "--presence-penalty",
                                     "-2",
                                     "--stop-token-ids",
                                     "7,8",
                                     "--min-tokens",
                                     "2",
                                     "--bad-word",
                                     "so, so",
                                     "--bad-word",
                                     "no",
                                     "--allowed-token",
                                     "9,8",
                                     "--top-logprobs",
                                     "3",
                                     "--keep-special-tokens"},
                                    &flags);
  ASSERT_TRUE(parsed.ok()) << parsed;
  v1::SamplingParams params;
  ASSERT_TRUE(FillSampling(flags, &params).ok());
  EXPECT_EQ(params.max_tokens(), 5u);
  EXPECT_TRUE(params.has_temperature());
  EXPECT_EQ(params.temperature(), 0);
  EXPECT_EQ(params.top_k(), 40);
  EXPECT_EQ(params.seed(), 18446744073709551615u);
  EXPECT_EQ(params.presence_penalty(), -2);
  ASSERT_EQ(params.stop_size(), 2);
  EXPECT_EQ(params.stop(1), "END");
  EXPECT_EQ(params.stop_token_ids_size(), 2);
  EXPECT_EQ(params.min_tokens(), 2u);
  ASSERT_EQ(params.bad_words_size(), 2);
  EXPECT_EQ(params.bad_words(0), "so, so");
  ASSERT_EQ(params.allowed_token_ids_size(), 2);
  EXPECT_EQ(params.allowed_token_ids(0), 9);
  EXPECT_EQ(params.logit_bias().at(3), -100);
  EXPECT_EQ(params.logit_bias().at(4), 1.5);
  EXPECT_TRUE(params.ignore_eos());
  EXPECT_TRUE(params.logprobs());
  EXPECT_EQ(params.top_logprobs(), 3u);
  EXPECT_TRUE(params.has_skip_special_tokens());
  EXPECT_FALSE(params.skip_special_tokens());
}

TEST(SamplingFlags, RefuseWhatIsNoNumber) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"--temperature", "warm"}, {"--max-tokens", "-1"}, {"--top-k", "1.5"}, {"--unknown"}}) {
    SamplingFlags flags;
    EXPECT_FALSE(Parse(arguments, &flags).ok()) << arguments[0];
  }
  v1::SamplingParams params;
  for (const char* bias : {"3", "=1", "x=1", "3=", "3=y"}) {
    SamplingFlags flags;
    flags.logit_bias = {bias};
    EXPECT_FALSE(FillSampling(flags, &params).ok()) << bias;
  }
  SamplingFlags flags;
  flags.logit_bias = {"300=1", "300=2"};
  EXPECT_FALSE(FillSampling(flags, &params).ok());
}

TEST(ConfigFile, CommandLineWinsOverEnvironmentWinsOverFile) {
  const std::string config = "[generate]\ntemperature = 0.25\nseed = 3\n";
  SamplingFlags from_file;
  ASSERT_TRUE(Parse({}, &from_file, config).ok());
  EXPECT_EQ(from_file.temperature, 0.25f);
  EXPECT_EQ(from_file.seed, 3u);

  setenv("TUTTI_TEMPERATURE", "0.5", 1);
  SamplingFlags from_environment;
  ASSERT_TRUE(Parse({}, &from_environment, config).ok());
  EXPECT_EQ(from_environment.temperature, 0.5f);
  EXPECT_EQ(from_environment.seed, 3u);

  SamplingFlags from_line;
  ASSERT_TRUE(Parse({"--temperature", "0.75"}, &from_line, config).ok());
  unsetenv("TUTTI_TEMPERATURE");
  EXPECT_EQ(from_line.temperature, 0.75f);
}

TEST(ConfigFile, UnknownKeysAreRefused) {
  SamplingFlags flags;
  EXPECT_FALSE(Parse({}, &flags, "[generate]\ntemprature = 0.25\n").ok());
}

// What an operator has set for a service is no wish of a request.
TEST(RequestFlags, HaveNoVariableOfADaemon) {
  FlagSet program("tutti", "");
  program.ReadEnvironment(kEnvironmentPrefix);
  for (const Command& command : {MakeGenerateCommand(&program), MakeChatCommand(&program)}) {
    const std::vector<std::string> variables = command.flags->Variables();
    EXPECT_THAT(variables, Not(Contains("TUTTI_SPECULATION")));
    EXPECT_THAT(variables, Not(Contains("TUTTI_MODEL")));
    EXPECT_THAT(variables, Contains("TUTTI_TEMPERATURE"));
  }
}

}  // namespace
}  // namespace tutti::client
