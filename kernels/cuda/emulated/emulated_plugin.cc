// libtutti_cuda.so of a machine with emulated GPUs, for tests with real processes.
// EMULATED_GPUS says how many there are (unset: 4). Each process has GPUs of its own; their ids
// are the same in all. EMULATED_GPU_LOST names a file: the GPU whose number stands there is lost,
// as after an error of CUDA's that stays.
#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/emulated/emulated_backend.h"
#include "kernels/plugin_abi.h"

namespace tutti::kernels::cuda {
namespace {

int32_t Count() {
  const char* const text = std::getenv("EMULATED_GPUS");
  int32_t count = 4;
  if (text != nullptr && !absl::SimpleAtoi(text, &count)) count = 0;
  return std::clamp(count, 0, kPluginDevicesMax);
}

std::string WhyNone() { return "EMULATED_GPUS says that there are none"; }

void List(PluginDevices* answer) {
  answer->count = Count();
  if (answer->count == 0) return FillText(WhyNone(), answer->problem);
  for (int32_t i = 0; i < answer->count; ++i) {
    PluginDevice& device = answer->devices[i];
    device.index = i;
    device.memory_bytes = EmulatedBytesInUse() + MakeEmulatedRuntime()->FreeBytes();
    FillText(absl::StrCat("EMULATED-", i), device.id);
    FillText("emulated GPU", device.name);
  }
}

void Open(const PluginRequest& request, PluginAnswer* answer) {
  if (request.device_index >= 0 && request.device_index < Count()) {
    auto backend = OpenEmulatedBackend(*request.options, request.device_index);
    answer->status_code = static_cast<int32_t>(backend.status().code());
    FillText(std::string(backend.status().message()), answer->message);
    if (backend.ok()) answer->backend = backend->release();
    return;
  }
  answer->status_code = static_cast<int32_t>(absl::StatusCode::kNotFound);
  FillText(Count() == 0 ? WhyNone() : absl::StrCat("there is no GPU ", request.device_index),
           answer->message);
}

}  // namespace
}  // namespace tutti::kernels::cuda

extern "C" __attribute__((visibility("default"))) void tutti_backend_plugin(
    const tutti::kernels::PluginIdentity* host, const tutti::kernels::PluginRequest* request,
    tutti::kernels::PluginAnswer* answer) {
  using namespace tutti::kernels;
  answer->plugin = ThisSide();
  if (PluginMismatch(*host, answer->plugin).empty()) cuda::Open(*request, answer);
}

extern "C" __attribute__((visibility("default"))) void tutti_backend_devices(
    const tutti::kernels::PluginIdentity* host, tutti::kernels::PluginDevices* answer) {
  using namespace tutti::kernels;
  answer->plugin = ThisSide();
  if (PluginMismatch(*host, answer->plugin).empty()) cuda::List(answer);
}
