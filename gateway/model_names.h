// The names that a model is served under.
//
// Pure.  Thread: any.
#pragma once

#include <algorithm>
#include <string_view>

#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

// Whether a request may ask for the model by that name.
inline bool IsServedUnder(const v1::GetModelResponse& model, std::string_view name) {
  const auto& others = model.other_names();
  return name == model.name() || std::find(others.begin(), others.end(), name) != others.end();
}

}  // namespace tutti::gateway
