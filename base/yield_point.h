// Places in long work at which its thread may do other work first: whoever runs the work says what
// (YieldScope), the work says how far it has come (YieldScope::Pass). Neither knows the other.
//
// Thread: any; each has a scope of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

namespace tutti {

class YieldScope {
 public:
  // Until its end `others` is called whenever `step` more of the work inside is done. What `others`
  // does is in no scope.
  YieldScope(int64_t step, std::function<void()> others)
      : step_(step), others_(std::move(others)), outer_(std::exchange(current_, this)) {}
  ~YieldScope() { current_ = outer_; }
  YieldScope(const YieldScope&) = delete;
  YieldScope& operator=(const YieldScope&) = delete;

  // So much more of the work is done, in the measure of the scope's step.
  static void Pass(int64_t work) {
    YieldScope* const scope = current_;
    if (scope == nullptr || (scope->done_ += work) < scope->step_) return;
    scope->done_ = 0;
    current_ = nullptr;
    scope->others_();
    current_ = scope;
  }

 private:
  static inline thread_local YieldScope* current_ = nullptr;

  const int64_t step_;
  const std::function<void()> others_;
  YieldScope* const outer_;
  int64_t done_ = 0;
};

}  // namespace tutti
