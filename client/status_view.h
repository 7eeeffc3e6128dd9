// The service's status as people read it.
#pragma once

#include <optional>
#include <string>

#include "client/terminal.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::client {

// Tokens that were generated between two looks, for a second; nothing where they tell of different
// coordinators, or of the same moment.
std::optional<double> TokensPerSecond(const v1::GetStatusResponse& before,
                                      const v1::GetStatusResponse& after);

// Sequences that run, over all pipelines.
int64_t RunningIn(const v1::GetStatusResponse& status);

// What it does now; then one line per pipeline and one table row per stage: worker, layers, weights
// and KV cache as predicted and as held, share of time computing and waiting, bytes per token on
// the link to the next stage; then workers and counters, and what seldom changes at the end.
std::string RenderStatus(const v1::GetStatusResponse& status, const Style& style,
                         std::optional<double> tokens_per_second = std::nullopt);

// Of a stage's worker; "-" where there is none.
std::string WorkerName(const v1::StageStatus& stage);

// The stages of one pipeline: the layers and memory of each worker and, with `activity`, how busy
// it is.
std::string RenderDeviceMap(const v1::PipelineStatus& pipeline, bool activity);

// The part of a prompt that each worker holds: one table row per worker.
std::string RenderHoldings(const v1::LookupPrefixResponse& response);

// "refused ipv4:10.0.0.7 as w7: another build": without times and ports.
std::string RefusedText(const v1::RefusedPeer& peer);

}  // namespace tutti::client
