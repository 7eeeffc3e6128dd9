#include "kernels/cuda/wide_products.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/wgmma_probe.h"
#include "kernels/gpu_memory.h"

namespace tutti::kernels::cuda {

absl::StatusOr<WideProducts> ProductsByLibrary(std::shared_ptr<CublasLt> library,
                                               Runtime* runtime) {
  TUTTI_ASSIGN_OR_RETURN(void* const work_space, runtime->Allocate(kGpuCublasWorkSpaceBytes));
  return WideProducts{
      .remark = absl::StrCat("many rows are multiplied by cuBLASLt ",
                             CublasLtVersionName(library->version()),
                             ": their bits depend on the rows beside them, and answers that are "
                             "computed again may differ"),
      .library = std::move(library),
      .work_space = work_space};
}

namespace {

// Answers of devices, by id.
class Answers {
 public:
  std::optional<WideProducts> Of(const std::string& id) {
    const MutexLock lock(&mutex_);
    const auto known = known_.find(id);
    return known == known_.end() ? std::nullopt : std::optional(known->second);
  }
  void Remember(const std::string& id, const WideProducts& answer) {
    const MutexLock lock(&mutex_);
    known_.insert_or_assign(id, answer);
  }

 private:
  Mutex mutex_;
  std::map<std::string, WideProducts> known_ ABSL_GUARDED_BY(mutex_);
};

// Of the process: a device does not change its mind, and asking takes its time.
Answers& ProcessAnswers() {
  static auto* const answers = new Answers;
  return *answers;
}

absl::StatusOr<bool> WgmmaIsSwitchedOff() {
  const char* const set = std::getenv("TUTTI_WGMMA");
  const std::string text = set != nullptr ? set : "";
  if (text.empty() || text == "on") return false;
  if (text == "off") return true;
  return absl::InvalidArgumentError(absl::StrCat("TUTTI_WGMMA is \"", text, "\": on, or off"));
}

}  // namespace

WideProducts WideProductsOf(const WgmmaProbe& probe, int32_t multiprocessors) {
  WideProducts answer = {.multiprocessors = multiprocessors};
  if (probe.different > 0) {
    answer.remark =
        absl::StrCat("many rows are multiplied by mma.sync, as wgmma gave other bits for ",
                     probe.different, " of ", probe.compared, " sums");
    return answer;
  }
  answer.used = true;
  answer.remark =
      absl::StrCat("many rows are multiplied by wgmma, which gave the bits of mma.sync for ",
                   probe.compared, " sums");
  answer.attends = probe.sides_different == 0;
  if (!answer.attends) {
    absl::StrAppend(&answer.remark, "; they attend by mma.sync, as wgmma gave other bits for ",
                    probe.sides_different, " of ", probe.sides_compared,
                    " sums with its sides changed");
  }
  return answer;
}

absl::StatusOr<WideProducts> ChooseWideProducts(const WideDevice& device, Runtime* runtime) {
  constexpr int kHopper = 90;
  TUTTI_ASSIGN_OR_RETURN(const bool is_off, WgmmaIsSwitchedOff());
  if (device.capability != kHopper) return WideProducts{};
  if (is_off) {
    return WideProducts{.remark = "many rows are multiplied by mma.sync, as TUTTI_WGMMA says"};
  }
  if (auto known = ProcessAnswers().Of(device.id)) return *std::move(known);
  const auto probe = ProbeWgmma(runtime, device.probe_blocks);
  if (!probe.ok()) {
    return WideProducts{
        .remark = absl::StrCat("many rows are multiplied by mma.sync, as wgmma could not be "
                               "tried: ",
                               probe.status().message())};
  }
  const WideProducts answer = WideProductsOf(*probe, device.multiprocessors);
  ProcessAnswers().Remember(device.id, answer);
  return answer;
}

}  // namespace tutti::kernels::cuda
