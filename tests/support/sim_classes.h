// The numerics classes of simulated workers: where they are of two kinds, all compute in "oracle",
// and every other one, which would rather, in "quick" too.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "proto/peer_messages.h"
#include "tests/support/sim_options.h"

namespace tutti::tests {

// The classes of worker "w1", "w2", ..., the best first.
inline std::vector<std::string> SimClasses(const SimOptions& options, const std::string& id) {
  const bool quick = options.two_classes && (id.back() - '0') % 2 == 1;
  return quick ? std::vector<std::string>{"quick", "oracle"} : std::vector<std::string>{"oracle"};
}

inline void OfferSimClasses(const SimOptions& options, v1::Hello* hello) {
  const std::vector<std::string> classes = SimClasses(options, hello->worker_id());
  hello->set_numerics_class(classes.front());
  for (const std::string& one : classes) hello->add_numerics()->set_numerics_class(one);
}

inline bool SimComputes(const SimOptions& options, const std::string& id,
                        const std::string& numerics_class) {
  const std::vector<std::string> classes = SimClasses(options, id);
  return std::find(classes.begin(), classes.end(), numerics_class) != classes.end();
}

}  // namespace tutti::tests
