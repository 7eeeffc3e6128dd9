// How far a service is that starts, as people read it.
#pragma once

#include <string>

#include "tutti/v1/cluster.pb.h"

namespace tutti::client {

// "loading: w0 45 % of 596.0 MiB, w1 done", or the event that the service is waiting for; one line.
std::string RenderProgress(const v1::GetStatusResponse& status);
// The same in coarse steps, for logs: changes a handful of times while a model loads.
std::string RenderMilestone(const v1::GetStatusResponse& status);

}  // namespace tutti::client
