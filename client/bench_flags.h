// The flags of `tutti bench`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "client/command.h"
#include "client/grammar_flags.h"
#include "client/load/chats.h"
#include "client/load/trace.h"
#include "client/sampling_flags.h"
#include "program/flags.h"

namespace tutti::client {

// Share of right answers of the demo model to questions it was not trained on, less a margin.
inline constexpr double kRightShareDefault = 0.9;

struct BenchFlags {
  ServiceFlags service;
  SamplingFlags sampling;
  GrammarFlags grammar;
  AskerFlags asker;
  double rate = 0;
  int32_t concurrency = 0;
  std::string trace;
  double trace_speed = 1;
  int32_t trace_block = kTraceBlockTokens;
  int64_t chats = 0;
  double duration_s = 0;
  double think_time_s = 0;
  ChatOptions chat;
  std::string questions;
  double slo_ttft_ms = 0;
  double slo_itl_ms = 0;
  bool verify = false;
  double right_share = kRightShareDefault;
  std::string record;
  std::string compare;
  bool json = false;
  bool as_vllm = false;
  std::optional<float> ready_within_s;
  double back_off_s = 60;
};

void AddBenchFlags(FlagSet* set, BenchFlags* flags);

// INVALID_ARGUMENT where the flags contradict each other or leave something open.
absl::Status CheckBenchFlags(const BenchFlags& flags);

}  // namespace tutti::client
