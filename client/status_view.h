// The service's status as people read it.
#pragma once

#include <string>

#include "client/terminal.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::client {

// One line per pipeline and one table row per stage: worker, layers, weights and KV cache as
// predicted and as held, share of time computing and waiting, bytes per token on the link to the
// next stage; then idle workers and counters.
std::string RenderStatus(const v1::GetStatusResponse& status, const Style& style);

// The stages of one pipeline: the layers and memory of each worker and, with `activity`, how busy
// it is.
std::string RenderDeviceMap(const v1::PipelineStatus& pipeline, bool activity);

// The part of a prompt that each worker holds: one table row per worker.
std::string RenderHoldings(const v1::LookupPrefixResponse& response);

// "refused ipv4:10.0.0.7 as w7: another build": without times and ports.
std::string RefusedText(const v1::RefusedPeer& peer);

// "loading: w0 45 % of 596.0 MiB, w1 done", or the event that the service is waiting for; one line.
std::string RenderProgress(const v1::GetStatusResponse& status);
// The same in coarse steps, for logs: changes a handful of times while a model loads.
std::string RenderMilestone(const v1::GetStatusResponse& status);

}  // namespace tutti::client
