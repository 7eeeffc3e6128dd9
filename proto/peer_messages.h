// The messages between our processes, under the name of the public ones: v1::StepPlan is
// tutti::peer::v1::StepPlan. Their package keeps them away from the public API on the wire; in C++
// no name is in both.
#pragma once

#include "tutti/peer/v1/peer.pb.h"  // IWYU pragma: export

namespace tutti::v1 {
using namespace tutti::peer::v1;  // NOLINT(google-build-using-namespace)
}  // namespace tutti::v1
