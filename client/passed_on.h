// What `tutti up` is told that it has no flag of its own for: options and variables of the programs
// that it starts. By one rule, and not by a list: what the gateway has is the gateway's, or else
// what the coordinator has is the coordinator's, or else it is the workers'. "--coordinator.NAME"
// and the like name the program.
//
// The programs say themselves what they have (--show-settings).
//
// Thread: one.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/status.h"
#include "client/local_cluster.h"

namespace tutti::client {

// Those that start together, in the order in which an option is theirs.
inline constexpr absl::string_view kProgramsOfUp[] = {"gateway", "coordinator", "worker"};

struct ProgramOptions {
  std::string program;          // of kProgramsOfUp
  std::set<std::string> names;  // without dashes
};

struct PassedOn {
  ProgramExtras gateway, coordinator, workers;
  std::vector<std::string> notices;  // of variables that nobody gets
};

// Asks the programs beside this one; a gateway that is not to be started (`with_gateway`) may be
// missing. UNAVAILABLE names the one that does not say.
absl::StatusOr<std::vector<ProgramOptions>> AskForOptions(bool with_gateway);

// `others`: arguments of the command line; INVALID_ARGUMENT names one that no program has, or that
// ties the programs together; of one that no program has the text is the caller's to make, and it
// stands in `unknown`. `environment`: NAME=value, those alone that may be meant for the programs;
// those of no option go to all.
absl::StatusOr<PassedOn> PassOn(const std::vector<std::string>& others,
                                const std::vector<std::string>& environment,
                                const std::vector<ProgramOptions>& programs, std::string* unknown);

// Our variables of the environment ("TUTTI_..."), but for those of `own`, which are read already.
std::vector<std::string> VariablesForPrograms(const std::vector<std::string>& own);

}  // namespace tutti::client
