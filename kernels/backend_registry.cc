#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"

namespace tutti::kernels {

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(std::string_view name,
                                                       const BackendOptions& options) {
  if (name == "cpu") return CreateCpuBackend(options);
  if (name == "reference") {
    if (!options.instruction_set.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the reference backend has no instruction set \"", options.instruction_set, "\""));
    }
    if (!options.numerics_class.empty() && options.numerics_class != "reference") {
      return absl::FailedPreconditionError(absl::StrCat(
          "the reference backend cannot compute in class \"", options.numerics_class, "\""));
    }
    return CreateReferenceBackend();
  }
  return absl::NotFoundError(absl::StrCat("no backend is called \"", std::string(name),
                                          "\"; there are \"cpu\" and \"reference\""));
}

}  // namespace tutti::kernels
