// Fail points: named places in the product where a test can make it fail, so that the tests can be
// seen to notice and recovery can be seen to work.
//
//   if (TUTTI_FAIL_POINT("coordinator.forget_finished")) return;       a place in the product
//   if (TUTTI_FAIL_POINT_AT("worker.die_at_token", token)) _exit(1);   one with an argument
//
//   const ScopedFailPoint armed("coordinator.forget_finished");        a test arms it for a scope
//   const ScopedFailPoint armed("worker.die_at_token", {.argument = 17});
//
// They exist only where TUTTI_FAILPOINTS is defined. Elsewhere both macros are the constant false:
// no branch and no name is left in the object code. Sources with fail points are compiled once more
// with the definition for the tests that arm them (tutti_fail_points in cmake/tutti.cmake); CMake's
// option TUTTI_FAILPOINTS compiles the programs with it too.
//
// Names are "folder.what_goes_wrong", and literals. All points of a program are known when main
// begins, whether or not their places have been reached.
//
// Thread: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#ifdef TUTTI_FAILPOINTS
#define TUTTI_FAIL_POINT(name) (::tutti::internal::fail_point<name>.Hit(std::nullopt))
#define TUTTI_FAIL_POINT_AT(name, argument) (::tutti::internal::fail_point<name>.Hit(argument))
#else
#define TUTTI_FAIL_POINT(name) false
#define TUTTI_FAIL_POINT_AT(name, argument) false
#endif

namespace tutti {

// When an armed point fails. A hit is one evaluation of the macro.
struct FailPointTrigger {
  // Only hits of TUTTI_FAIL_POINT_AT with this argument count; nothing: every hit counts.
  std::optional<int64_t> argument;
  // So many of the hits that count pass first,
  int64_t passes = 0;
  // and so many then fail; the rest pass.
  int64_t failures = std::numeric_limits<int64_t>::max();
};

// Arms a point for the life of the object.
class ScopedFailPoint {
 public:
  // CHECKs that the program has a point of that name, and that it is not armed.
  explicit ScopedFailPoint(std::string_view name, const FailPointTrigger& trigger = {});
  ~ScopedFailPoint();
  ScopedFailPoint(const ScopedFailPoint&) = delete;
  ScopedFailPoint& operator=(const ScopedFailPoint&) = delete;

  // The number of times that it has failed since it was armed.
  int64_t failed() const;

 private:
  const std::string name_;
};

// The points of this program, by name; empty without TUTTI_FAILPOINTS.
std::vector<std::string> FailPointNames();

namespace internal {

class FailPoint {
 public:
  // REQUIRES: `name` is never freed, and no other point has it
  explicit FailPoint(const char* name);
  // Whether the place fails now.
  bool Hit(std::optional<int64_t> argument) {
    return armed_.load(std::memory_order_relaxed) && HitArmed(argument);
  }

 private:
  friend class tutti::ScopedFailPoint;
  bool HitArmed(std::optional<int64_t> argument);

  const char* const name_;
  std::atomic<bool> armed_{false};
  // Guarded by the registry's mutex.
  FailPointTrigger trigger_;
  int64_t failed_ = 0;
};

// A literal as a template argument.
template <size_t kSize>
struct FailPointName {
  consteval FailPointName(const char (&literal)[kSize]) { std::copy_n(literal, kSize, text); }
  char text[kSize];
};

// One point for each name, constructed before main: every place that names it instantiates it.
template <FailPointName kName>
inline FailPoint fail_point{kName.text};

}  // namespace internal
}  // namespace tutti
