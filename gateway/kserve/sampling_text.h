// The JSON text of the tensor `sampling_parameters`, as Triton's vLLM backend takes it.
//
// Pure.  Thread: any.
#pragma once

#include <string_view>

#include "base/status.h"
#include "gateway/json_text.h"

namespace tutti::gateway {

// The object; numbers and booleans that are written as texts are made to be what they are, because
// load generators write them so. INVALID_ARGUMENT names the tensor.
absl::StatusOr<ParsedJson> ReadSamplingText(std::string_view text);

}  // namespace tutti::gateway
