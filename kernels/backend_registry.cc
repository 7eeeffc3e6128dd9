#include <charconv>
#include <optional>

#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/plugin_loader.h"
#include "kernels/reference/reference_backend.h"

namespace tutti::kernels {
namespace {

absl::StatusOr<std::unique_ptr<Backend>> CreateReference(const BackendOptions& options) {
  if (!options.instruction_set.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the reference backend has no instruction set \"", options.instruction_set, "\""));
  }
  const bool in_blocks = options.numerics_class == "reference-bf16block";
  if (!options.numerics_class.empty() && !in_blocks && options.numerics_class != "reference") {
    return absl::FailedPreconditionError(absl::StrCat(
        "the reference backend cannot compute in class \"", options.numerics_class, "\""));
  }
  return CreateReferenceBackend(in_blocks);
}

// N of "cuda:N"; 0 of "cuda".
std::optional<int32_t> CudaIndex(std::string_view name) {
  if (name == "cuda") return 0;
  constexpr std::string_view kPrefix = "cuda:";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int32_t index = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc() || end != name.data() + name.size() || index < 0) return std::nullopt;
  return index;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(std::string_view name,
                                                       const BackendOptions& options) {
  if (name == "cpu") return CreateCpuBackend(options);
  if (name == "reference") return CreateReference(options);
  if (const auto index = CudaIndex(name); index.has_value()) {
    auto backend = OpenPluginBackend(kCudaPlugin, PluginDirectories(), *index, options);
    if (!backend.ok())
      return Annotate(backend.status(), absl::StrCat("device ", std::string(name)));
    return backend;
  }
  return absl::NotFoundError(
      absl::StrCat("no backend is called \"", std::string(name),
                   "\"; there are \"cpu\", \"reference\" and \"cuda:N\" for GPU number N"));
}

}  // namespace tutti::kernels
