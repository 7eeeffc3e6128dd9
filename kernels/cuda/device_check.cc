#include "kernels/cuda/device_check.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tutti::kernels::cuda {
namespace {

std::string Version(int32_t version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace

bool RunsCodeFor(const std::string& built_for, int32_t major, int32_t minor) {
  const int32_t device = 10 * major + minor;
  for (absl::string_view target : absl::StrSplit(built_for, ',')) {
    const bool translated = absl::ConsumeSuffix(&target, "-ptx");
    int32_t capability = 0;
    if (!absl::SimpleAtoi(target, &capability) || device < capability) continue;
    if (translated || capability / 10 == major) return true;
  }
  return false;
}

std::string IdText(const std::array<std::byte, 16>& id) {
  std::string text = "GPU-";
  for (size_t i = 0; i < id.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppend(&text, absl::Hex(static_cast<uint8_t>(id[i]), absl::kZeroPad2));
  }
  return text;
}

std::string NumericsClass(const DeviceFacts& facts) {
  return absl::StrCat("cuda-sm", facts.major, facts.minor);
}

std::string CublasClass(const std::string& exact_class) {
  return absl::StrCat(exact_class, "-cublas");
}

absl::Status CheckDevice(const DeviceFacts& facts, const std::string& wanted_class) {
  if (facts.driver_version == 0) {
    return absl::UnavailableError(
        absl::StrCat("this machine has no NVIDIA driver; the plug-in needs one for CUDA ",
                     Version(facts.runtime_version / 1000 * 1000), " or later"));
  }
  // Within a major version of CUDA any driver runs any runtime.
  if (facts.driver_version / 1000 < facts.runtime_version / 1000) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the NVIDIA driver is for CUDA ", Version(facts.driver_version),
        ", the plug-in was built with CUDA ", Version(facts.runtime_version),
        " and needs a driver for ", Version(facts.runtime_version / 1000 * 1000), " or later"));
  }
  if (!facts.count_error.empty()) {
    return absl::UnavailableError(absl::StrCat("the NVIDIA driver (CUDA ",
                                               Version(facts.driver_version),
                                               ") cannot list its GPUs: ", facts.count_error));
  }
  if (facts.device_count == 0) {
    return absl::UnavailableError("the NVIDIA driver shows this process no GPU");
  }
  if (facts.index < 0 || facts.index >= facts.device_count) {
    return absl::NotFoundError(absl::StrCat("there is no GPU ", facts.index, "; this process sees ",
                                            facts.device_count, ", numbered from 0"));
  }
  if (facts.major < kCapabilityMajorMin) {
    return absl::FailedPreconditionError(absl::StrCat(
        "GPU ", facts.index, " (", facts.name, ") has compute capability ", facts.major, ".",
        facts.minor, "; the kernels need ", kCapabilityMajorMin, ".0 or later"));
  }
  if (!RunsCodeFor(facts.built_for, facts.major, facts.minor)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "GPU ", facts.index, " (", facts.name, ") has compute capability ", facts.major, ".",
        facts.minor, "; this plug-in was built for ", facts.built_for,
        " only: build preset cuda-all, or set TUTTI_CUDA_ARCHITECTURES"));
  }
  const std::string own = NumericsClass(facts);
  if (!wanted_class.empty() && wanted_class != own && wanted_class != CublasClass(own)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "numerics class \"", wanted_class, "\" was asked for; GPU ", facts.index, " (", facts.name,
        ") computes in \"", own, "\", or in \"", CublasClass(own), "\", which is not exact"));
  }
  return absl::OkStatus();
}

}  // namespace tutti::kernels::cuda
