// The metrics of another process, told with ours, so that one port is scraped for both.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace tutti::metrics {

// Both texts are of Prometheus (see exposition.h). A family that both have is there once, and
// `process` is a label of the other's samples in it: process="coordinator".
std::string JoinExpositions(std::string_view own, std::string_view others,
                            std::string_view process);

}  // namespace tutti::metrics
