// Rows of a matrix by several threads.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "base/status.h"

namespace tutti::quant {

// Calls of_rows(begin, end) for all of `rows`, in parts of whole kRowsAtOnce, on `threads` threads:
// on fewer where rows are few or the system refuses some. Returns the error of the first part that
// has one.  Thread: any; of_rows runs on several at once
absl::Status InParts(int64_t rows, int threads,
                     absl::FunctionRef<absl::Status(int64_t begin, int64_t end)> of_rows);

// Rows that are worth a thread: to start one takes as long as some thousand weights.
inline constexpr int64_t kRowsAtOnce = 64;

}  // namespace tutti::quant
