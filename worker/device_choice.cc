#include "worker/device_choice.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tutti::worker {
namespace {

using kernels::Gpu;
using kernels::GpuList;

std::string NameOf(const Gpu& gpu) { return absl::StrCat("cuda:", gpu.index); }

// The GPU that "cuda:N" means; null for all else, also for numbers that are none: opening the
// backend says what is wrong with those.
const Gpu* GpuNamed(absl::string_view device, const GpuList& gpus) {
  int32_t index = -1;
  if (!absl::ConsumePrefix(&device, "cuda:") || !absl::SimpleAtoi(device, &index)) return nullptr;
  for (const Gpu& gpu : gpus.gpus) {
    if (gpu.index == index) return &gpu;
  }
  return nullptr;
}

// Takes it, where that can be told to others: a container without a folder to write in has GPUs
// that were given to it alone. ALREADY_EXISTS: somebody else has it.
absl::Status Claim(const Gpu& gpu, const TakeDevice& take, DeviceChoice* choice) {
  auto claim = take(gpu.id);
  if (claim.ok()) {
    choice->claim = *std::move(claim);
    return absl::OkStatus();
  }
  if (absl::IsAlreadyExists(claim.status())) return claim.status();
  absl::StrAppend(&choice->reason, choice->reason.empty() ? "" : "; ",
                  "other workers are not told: ", std::string(claim.status().message()));
  return absl::OkStatus();
}

// The first GPU of those that may serve which nobody has.
absl::StatusOr<DeviceChoice> FirstFree(const DeviceWish& wish, const GpuList& gpus,
                                       const TakeDevice& take) {
  std::vector<std::string> taken;
  for (const Gpu& gpu : gpus.gpus) {
    if (!gpu.problem.empty()) continue;
    DeviceChoice choice = {
        .device = NameOf(gpu), .reason = absl::StrCat(gpu.name, ", ", gpu.id), .gpu = gpu};
    if (wish.share) return choice;
    const absl::Status claimed = Claim(gpu, take, &choice);
    if (claimed.ok()) return choice;
    taken.push_back(absl::StrCat(NameOf(gpu), ": ", std::string(claimed.message())));
  }
  return absl::AlreadyExistsError(
      absl::StrCat("every GPU that may serve is taken (", absl::StrJoin(taken, "; "),
                   "); start fewer workers, or share GPUs with --share-devices and --memory, or "
                   "serve from the CPU with --device cpu"));
}

}  // namespace

bool AsksForGpus(const std::string& device) {
  return device == "auto" || absl::StartsWith(device, "cuda");
}

std::string WhyNoGpu(const GpuList& gpus) {
  std::vector<std::string> why;
  for (const Gpu& gpu : gpus.gpus) {
    if (gpu.problem.empty()) return "";
    why.push_back(gpu.problem);
  }
  return why.empty() ? gpus.problem : absl::StrJoin(why, "; ");
}

absl::StatusOr<DeviceChoice> ChooseDevice(const DeviceWish& wish, const GpuList& gpus,
                                          const TakeDevice& take) {
  if (!AsksForGpus(wish.device)) return DeviceChoice{.device = wish.device};
  if (wish.device == "auto" || wish.device == "cuda") {
    const std::string why = WhyNoGpu(gpus);
    if (why.empty()) return FirstFree(wish, gpus, take);
    if (wish.device == "auto") {
      return DeviceChoice{.device = "cpu", .reason = absl::StrCat("no GPU may serve: ", why)};
    }
    return absl::UnavailableError(absl::StrCat("no GPU may serve: ", why));
  }
  DeviceChoice choice = {.device = wish.device};
  const Gpu* const gpu = GpuNamed(wish.device, gpus);
  if (gpu != nullptr) choice.gpu = *gpu;
  if (gpu == nullptr || wish.share) return choice;
  const absl::Status claimed = Claim(*gpu, take, &choice);
  if (!claimed.ok()) {
    return Annotate(claimed, absl::StrCat(wish.device, ", without --share-devices"));
  }
  return choice;
}

std::string DeviceReport(const GpuList& gpus) {
  nlohmann::json report = {
      {"gpus", nlohmann::json::array()}, {"problem", gpus.problem}, {"no_gpu", gpus.no_gpu}};
  for (const Gpu& gpu : gpus.gpus) {
    report["gpus"].push_back({{"device", NameOf(gpu)},
                              {"id", gpu.id},
                              {"name", gpu.name},
                              {"memory_bytes", gpu.memory_bytes},
                              {"problem", gpu.problem}});
  }
  return report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tutti::worker
