// The way of errors: absl::Status, with context added on the way up.
//
// A Status names the attempt, its object, and why it failed. No exception crosses a function of
// ours.
#pragma once

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tutti {

// `status` with "context: " before its message; OK stays OK.
absl::Status Annotate(const absl::Status& status, std::string_view context);

}  // namespace tutti

#define TUTTI_CONCAT_INNER(a, b) a##b
#define TUTTI_CONCAT(a, b) TUTTI_CONCAT_INNER(a, b)

// Returns from the calling function when `expr` (an absl::Status) is not OK.
#define TUTTI_RETURN_IF_ERROR(expr)              \
  do {                                           \
    absl::Status tutti_status = (expr);          \
    if (!tutti_status.ok()) return tutti_status; \
  } while (false)

// Assigns the value of `expr` (an absl::StatusOr) to `lhs`, which may declare a variable, or
// returns its error.
#define TUTTI_ASSIGN_OR_RETURN(lhs, expr) \
  TUTTI_ASSIGN_OR_RETURN_IMPL(TUTTI_CONCAT(tutti_status_or_, __LINE__), lhs, expr)
#define TUTTI_ASSIGN_OR_RETURN_IMPL(temporary, lhs, expr) \
  auto temporary = (expr);                                \
  if (!temporary.ok()) return temporary.status();         \
  lhs = std::move(temporary).value()
