#include "program/processor.h"

#include <cpuid.h>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

struct Feature {
  const char* name;
  uint32_t ProcessorWords::*word;
  int bit;
};
// The features that the psABI has in x86-64-v3 beyond x86-64-v2.
constexpr Feature kFeatures[] = {
    {"FMA", &ProcessorWords::features_c, 12},   {"MOVBE", &ProcessorWords::features_c, 22},
    {"XSAVE", &ProcessorWords::features_c, 27}, {"AVX", &ProcessorWords::features_c, 28},
    {"F16C", &ProcessorWords::features_c, 29},  {"BMI1", &ProcessorWords::features_7b, 3},
    {"AVX2", &ProcessorWords::features_7b, 5},  {"BMI2", &ProcessorWords::features_7b, 8},
    {"LZCNT", &ProcessorWords::extended_c, 5},
};

// XCR0: XMM and YMM.
constexpr uint32_t kSavedByThem = 0x6;

ProcessorWords ReadWords() {
  ProcessorWords words;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) words.features_c = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) words.features_7b = b;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d) != 0) words.extended_c = c;
  if ((words.features_c >> 27 & 1) != 0) {
    uint32_t high = 0;
    __asm__("xgetbv" : "=a"(words.saved_registers), "=d"(high) : "c"(0));
  }
  return words;
}

}  // namespace

std::string MissingFeatures(const ProcessorWords& words) {
  std::string missing;
  for (const Feature& feature : kFeatures) {
    if ((words.*feature.word >> feature.bit & 1) != 0) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", feature.name);
  }
  if (missing.empty() && (words.saved_registers & kSavedByThem) != kSavedByThem) {
    return "an operating system that keeps AVX registers";
  }
  return missing;
}

absl::Status CheckProcessor() {
  const std::string missing = MissingFeatures(ReadWords());
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this processor lacks ", missing,
      "; Tutti needs x86-64-v3 (Intel since Haswell, AMD since Excavator; of a virtual "
      "machine, the processor type \"host\")"));
}

}  // namespace tutti
