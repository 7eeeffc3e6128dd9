// The engine's actions as text, one line each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coordinator/events.h"

namespace tutti::tests {

// The actions of an engine in one turn. Frames sent to several workers one after the other make one
// line.
// `worker_name` gives the name behind a link.
std::string ActionText(const std::vector<coordinator::Action>& actions,
                       const std::function<std::string(coordinator::LinkKey)>& worker_name);

}  // namespace tutti::tests
