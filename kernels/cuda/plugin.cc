// The symbols of libtutti_cuda.so; see kernels/plugin_abi.h.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_check.h"
#include "kernels/cuda/module_loading.h"
#include "kernels/cuda/nccl_library.h"
#include "kernels/cuda/runtime_cuda.h"
#include "kernels/cuda/wgmma_probe.h"
#include "kernels/plugin_abi.h"

namespace tutti::kernels::cuda {
namespace {

DeviceFacts ReadFacts(int32_t index) {
  DeviceFacts facts = {.index = index, .built_for = TUTTI_CUDA_BUILT_FOR};
  // Both leave 0 when there is nothing to report.
  cudaDriverGetVersion(&facts.driver_version);
  cudaRuntimeGetVersion(&facts.runtime_version);
  if (facts.driver_version == 0) return facts;
  const cudaError_t counted = cudaGetDeviceCount(&facts.device_count);
  if (counted == cudaErrorNoDevice) {
    facts.device_count = 0;
    return facts;
  }
  if (counted != cudaSuccess) {
    facts.count_error = cudaGetErrorString(counted);
    return facts;
  }
  if (index < 0 || index >= facts.device_count) return facts;
  cudaDeviceProp properties;
  if (const cudaError_t read = cudaGetDeviceProperties(&properties, index); read != cudaSuccess) {
    facts.count_error = cudaGetErrorString(read);
    return facts;
  }
  facts.name = properties.name;
  facts.major = properties.major;
  facts.minor = properties.minor;
  facts.multiprocessors = properties.multiProcessorCount;
  facts.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  static_assert(sizeof(properties.uuid.bytes) == sizeof(facts.id));
  std::memcpy(facts.id.data(), properties.uuid.bytes, sizeof(facts.id));
  return facts;
}

// cuModuleGetLoadingMode of the driver, which is not linked but found.
std::string AskForModuleLoading() {
  using Function = int (*)(int* mode);
  constexpr unsigned kSince = 11070;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t asked = cudaGetDriverEntryPointByVersion("cuModuleGetLoadingMode", &function,
                                                             kSince, cudaEnableDefault, &found);
  int mode = kLoadingUnknown;
  if (asked != cudaSuccess || found != cudaDriverEntryPointSuccess ||
      reinterpret_cast<Function>(function)(&mode) != 0) {
    mode = kLoadingUnknown;
  }
  const char* const wish = std::getenv("CUDA_MODULE_LOADING");
  return ModuleLoadingRemark(mode, wish != nullptr ? wish : "");
}

NcclOptions NcclOptionsOf(const DeviceFacts& facts, LostDeviceHandler on_lost) {
  return {.device_index = facts.index,
          .device_id = facts.id,
          .machine = ThisMachine(),
          .open_nccl =
              [] {
                return OpenNcclLibrary(NcclLibraryPath(), [](int index) {
                  return static_cast<int>(cudaSetDevice(index));
                });
              },
          .open_runtime = [index = facts.index,
                           on_lost] { return OpenDevice(index, QueueKind::kTransfers, on_lost); }};
}

int UseDeviceOf(int index) { return static_cast<int>(cudaSetDevice(index)); }

// What multiplies many rows in `options.numerics_class`.
absl::StatusOr<WideProducts> ChooseProducts(const DeviceFacts& facts, const BackendOptions& options,
                                            Runtime* runtime) {
  if (options.numerics_class != CublasClass(NumericsClass(facts))) {
    return ChooseWideProducts({.id = IdText(facts.id),
                               .capability = 10 * facts.major + facts.minor,
                               .multiprocessors = facts.multiprocessors,
                               .probe_blocks = kWgmmaProbeBlocks},
                              runtime);
  }
  TUTTI_ASSIGN_OR_RETURN(auto library,
                         OpenCublasLtLibrary(CublasLtLibraryPath(), facts.index, UseDeviceOf));
  TUTTI_ASSIGN_OR_RETURN(WideProducts wide, ProductsByLibrary(std::move(library), runtime));
  wide.device_index = facts.index;
  wide.on_lost_device = options.on_lost_device;
  return wide;
}

absl::StatusOr<std::unique_ptr<Backend>> Open(const PluginRequest& request) {
  const DeviceFacts facts = ReadFacts(request.device_index);
  TUTTI_RETURN_IF_ERROR(CheckDevice(facts, request.options->numerics_class));
  TUTTI_ASSIGN_OR_RETURN(auto runtime, OpenDevice(facts.index, QueueKind::kOperators,
                                                  request.options->on_lost_device));
  BackendOptions options = *request.options;
  // A GPU below would not know the launches' attribute.
  options.early_kernels = options.early_kernels && facts.major >= 9;
  auto wide = ChooseProducts(facts, options, runtime.get());
  if (!wide.ok() && options.numerics_class.empty()) return wide.status();
  if (!wide.ok()) {
    return Annotate(wide.status(), "numerics class \"" + options.numerics_class + "\"");
  }
  if (!wide->remark.empty()) wide->remark += "; ";
  wide->remark += AskForModuleLoading();
  const std::string own = NumericsClass(facts);
  return MakeCudaBackend(std::move(runtime), wide->library == nullptr ? own : CublasClass(own),
                         NcclOptionsOf(facts, options.on_lost_device), options, *wide);
}

void Answer(const absl::Status& status, PluginAnswer* answer) {
  answer->status_code = static_cast<int32_t>(status.code());
  FillText(std::string(status.message()), answer->message);
}

void List(PluginDevices* answer) {
  const DeviceFacts first = ReadFacts(0);
  if (first.device_count == 0) {
    return FillText(std::string(CheckDevice(first, "").message()), answer->problem);
  }
  answer->count = std::min(first.device_count, kPluginDevicesMax);
  for (int32_t i = 0; i < answer->count; ++i) {
    const DeviceFacts facts = ReadFacts(i);
    PluginDevice& device = answer->devices[i];
    device.index = i;
    device.memory_bytes = facts.memory_bytes;
    FillText(IdText(facts.id), device.id);
    // Left empty where it cannot be told: the id says the same, MIG apart.
    if (cudaDeviceGetPCIBusId(device.bus, sizeof(device.bus), i) != cudaSuccess) device.bus[0] = 0;
    FillText(facts.name, device.name);
    FillText(std::string(CheckDevice(facts, "").message()), device.problem);
  }
}

}  // namespace
}  // namespace tutti::kernels::cuda

extern "C" __attribute__((visibility("default"))) void tutti_backend_plugin(
    const tutti::kernels::PluginIdentity* host, const tutti::kernels::PluginRequest* request,
    tutti::kernels::PluginAnswer* answer) {
  using namespace tutti::kernels;
  answer->plugin = ThisSide();
  if (const std::string why = PluginMismatch(*host, answer->plugin); !why.empty()) {
    return cuda::Answer(absl::FailedPreconditionError(why), answer);
  }
  auto backend = cuda::Open(*request);
  if (!backend.ok()) return cuda::Answer(backend.status(), answer);
  answer->backend = backend->release();
}

extern "C" __attribute__((visibility("default"))) void tutti_backend_devices(
    const tutti::kernels::PluginIdentity* host, tutti::kernels::PluginDevices* answer) {
  using namespace tutti::kernels;
  answer->plugin = ThisSide();
  if (PluginMismatch(*host, answer->plugin).empty()) cuda::List(answer);
}
