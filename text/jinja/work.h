// The namespaces that one rendering owns, and the steps that it may still take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "text/jinja/value.h"
#include "text/limits.h"

namespace tutti::text::jinja {

// Counts down while a template is evaluated. Everything that loops or makes strings charges here
// first.
class Work {
 public:
  explicit Work(std::optional<absl::Time> now) : now_(now) {}

  // The time that strftime_now returns; nothing when templates are not told the time.
  const std::optional<absl::Time>& now() const { return now_; }

  // Errors: ResourceExhausted when kTemplateStepsMax steps are used up.
  absl::Status Charge(int64_t steps) {
    left_ -= steps;
    if (left_ >= 0) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("rendering takes more than ", kTemplateStepsMax, " steps"));
  }

  // One more call of the evaluator inside another, as long as it lives.
  class Level {
   public:
    explicit Level(Work* work) : depth_(&work->depth_) { ++*depth_; }
    ~Level() { --*depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int* const depth_;
  };
  // Errors: InvalidArgument when more than kTemplateLevelsMax of them live.
  absl::Status CheckDepth() const {
    if (depth_ <= kTemplateLevelsMax) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("macros and blocks are nested more than ", kTemplateLevelsMax, " deep"));
  }

  // A charge for `count` values of a list, or strings that are made one by one: their memory
  // besides their bytes (32 bytes; about 160 with the string's own bookkeeping), at
  // kTemplateBytesPerStep.
  absl::Status ChargeValues(size_t count) { return Charge(2 * static_cast<int64_t>(count)); }
  absl::Status ChargeStrings(size_t count) { return Charge(12 * static_cast<int64_t>(count)); }

  // A charge for a string of `bytes` that is made or looked through. Errors: also ResourceExhausted
  // when it is longer than kTemplateOutputBytesMax.
  absl::Status ChargeBytes(size_t bytes) {
    if (bytes > kTemplateOutputBytesMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a string has more than ", kTemplateOutputBytesMax, " bytes"));
    }
    return Charge(1 + static_cast<int64_t>(bytes) / kTemplateBytesPerStep);
  }

  // A namespace that lives as long as this.
  Namespace* NewNamespace() {
    namespaces_.push_back(std::make_unique<Namespace>());
    return namespaces_.back().get();
  }

 private:
  const std::optional<absl::Time> now_;
  int64_t left_ = kTemplateStepsMax;
  int depth_ = 0;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
};

}  // namespace tutti::text::jinja
