// Whether this processor can run our programs.
//
// Pure but for CheckProcessor; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace tutti {

// The words that CPUID and XGETBV say, as far as x86-64-v3 needs it.
struct ProcessorWords {
  uint32_t features_c = 0;       // leaf 1, ECX
  uint32_t features_7b = 0;      // leaf 7, EBX
  uint32_t extended_c = 0;       // leaf 0x80000001, ECX
  uint32_t saved_registers = 0;  // XCR0, lower half; 0 without OSXSAVE
};

// The features of x86-64-v3 that are missing: "AVX2, BMI1"; "" if nothing is.
std::string MissingFeatures(const ProcessorWords& words);

// FAILED_PRECONDITION names what this processor lacks. To be called first in a program: kernels,
// digests and probes use these instructions without asking again.
absl::Status CheckProcessor();

}  // namespace tutti
