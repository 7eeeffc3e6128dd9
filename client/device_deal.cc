#include "client/device_deal.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/gpu_memory.h"

namespace tutti::client {
namespace {

std::string TextAt(const nlohmann::json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

// The GPUs that may serve, of those that `device` means.
std::vector<const MachineGpu*> Usable(absl::string_view device, const MachineDevices& machine) {
  const bool any = device == "auto" || device == "cuda";
  std::vector<const MachineGpu*> usable;
  for (const MachineGpu& gpu : machine.gpus) {
    if (gpu.problem.empty() && (any || gpu.device == device)) usable.push_back(&gpu);
  }
  return usable;
}

std::string WhyNone(absl::string_view device, const MachineDevices& machine) {
  std::vector<std::string> why;
  for (const MachineGpu& gpu : machine.gpus) {
    if (gpu.device == device || device == "auto" || device == "cuda") why.push_back(gpu.problem);
  }
  if (!why.empty()) return absl::StrJoin(why, "; ");
  if (machine.gpus.empty()) return machine.problem;
  return absl::StrCat("there is no ", device, " among the ", machine.gpus.size(),
                      " GPUs that this process sees");
}

absl::Status TooFew(const DeviceWish& wish, size_t gpus) {
  const bool named = absl::StartsWith(wish.device, "cuda:");
  return absl::InvalidArgumentError(absl::StrCat(
      "--workers ", wish.workers, ": ",
      named ? absl::StrCat("--device ", wish.device, " is one GPU")
            : absl::StrCat(gpus, gpus == 1 ? " GPU" : " GPUs", " of this machine may serve"),
      ", one for each worker; start ", gpus, gpus == 1 ? " worker" : " workers",
      named ? ", or say --device cuda to deal out all GPUs" : "",
      ", or let workers share GPUs with --share-devices, or serve from the CPU with --device cpu"));
}

}  // namespace

absl::StatusOr<MachineDevices> ParseDeviceReport(absl::string_view json) {
  const auto report = nlohmann::json::parse(json.begin(), json.end(), nullptr, false);
  if (!report.is_object() || !report.contains("gpus") || !report["gpus"].is_array()) {
    return absl::InternalError(absl::StrCat("tutti-worker --list-devices says \"",
                                            json.substr(0, 200), "\", which is no list of GPUs"));
  }
  const auto no_gpu = report.find("no_gpu");
  MachineDevices machine = {.problem = TextAt(report, "problem"),
                            .no_gpu = no_gpu != report.end() && *no_gpu == true};
  for (const auto& entry : report["gpus"]) {
    if (!entry.is_object()) continue;
    const auto memory = entry.find("memory_bytes");
    machine.gpus.push_back({.device = TextAt(entry, "device"),
                            .name = TextAt(entry, "name"),
                            .memory_bytes = memory != entry.end() && memory->is_number_integer()
                                                ? std::max<int64_t>(0, memory->get<int64_t>())
                                                : 0,
                            .problem = TextAt(entry, "problem")});
  }
  return machine;
}

bool DealsGpus(absl::string_view device) {
  return device == "auto" || absl::StartsWith(device, "cuda");
}

absl::StatusOr<DeviceDeal> DealDevices(const DeviceWish& wish, const MachineDevices& machine) {
  DeviceDeal deal;
  if (!DealsGpus(wish.device)) {
    deal.devices.assign(static_cast<size_t>(std::max(1, wish.workers)), wish.device);
    return deal;
  }
  const std::vector<const MachineGpu*> usable = Usable(wish.device, machine);
  if (usable.empty()) {
    const std::string why = WhyNone(wish.device, machine);
    if (wish.device != "auto") {
      return absl::UnavailableError(
          absl::StrCat("--device ", wish.device, ": no GPU may serve: ", why));
    }
    deal.devices.assign(static_cast<size_t>(std::max(1, wish.workers)), "cpu");
    if (!machine.no_gpu) deal.reason = why;
    return deal;
  }
  deal.gpus = true;
  const size_t workers = wish.workers > 0 ? static_cast<size_t>(wish.workers) : usable.size();
  if (workers > usable.size() && !wish.share) return TooFew(wish, usable.size());
  for (size_t i = 0; i < workers; ++i) {
    deal.devices.push_back(usable[i % usable.size()]->device);
  }
  if (workers <= usable.size()) return deal;
  // The worker that starts first would take nine tenths of what is free, and leave its neighbour
  // the rest: all get the same, by the smallest GPU and the most workers that share one.
  const auto sharing = static_cast<int64_t>((workers + usable.size() - 1) / usable.size());
  const auto smallest = std::min_element(
      usable.begin(), usable.end(),
      [](const MachineGpu* a, const MachineGpu* b) { return a->memory_bytes < b->memory_bytes; });
  // The memory that contexts take is assumed: of a GPU too small for so many of that size they are
  // given half, because a worker that is dealt nothing takes what the others need.
  const int64_t contexts =
      std::min(sharing * kernels::kGpuContextBytes, (*smallest)->memory_bytes / 2);
  deal.memory_per_worker = kernels::GpuOfferOf((*smallest)->memory_bytes - contexts) / sharing;
  return deal;
}

}  // namespace tutti::client
