#include "kernels/cuda/emulated/emulated_backend.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_check.h"
#include "kernels/cuda/emulated/async_proxy.h"
#include "kernels/cuda/emulated/cublaslt_emulated.h"
#include "kernels/cuda/emulated/device_arena.h"
#include "kernels/cuda/launch_list.h"
#include "kernels/cuda/lost_device.h"
#include "kernels/cuda/wgmma_probe.h"

namespace tutti::kernels::cuda {
namespace {

using emulated::DeviceArena;

class EmulatedGraph : public Graph {
 public:
  EmulatedGraph(Launcher* device, std::span<const KernelLaunch> launches)
      : device_(device), launches_(launches) {}
  void Start() override {
    for (const KernelLaunch& launch : launches_.launches()) device_->Start(launch);
  }

 private:
  Launcher* const device_;
  LaunchList launches_;
};

// The device that EMULATED_GPU_LOST names a file for is lost as soon as its number stands there.
bool IsLost(int32_t index) {
  static const char* const path = std::getenv("EMULATED_GPU_LOST");
  if (path == nullptr) return false;
  int32_t lost = -1;
  std::ifstream file(path);
  return (file >> lost) && lost == index;
}

class EmulatedRuntime : public Runtime {
 public:
  explicit EmulatedRuntime(int32_t index = 0, LostDeviceHandler on_lost = nullptr)
      : index_(index), on_lost_(on_lost) {}
  ~EmulatedRuntime() override { CHECK(live_ == 0) << live_ << " buffers were leaked"; }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    return Allocate(bytes, DeviceArena::Use::kAny);
  }
  absl::StatusOr<void*> AllocateConstant(int64_t bytes) override {
    return Allocate(bytes, DeviceArena::Use::kConstant);
  }
  int64_t FreeBytes() override { return DeviceArena::The().bytes_free(); }
  void Free(void* data) override {
    DeviceArena::The().Free(data);
    --live_;
  }
  void Upload(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t width,
              int64_t rows) override {
    CHECK(!DeviceArena::The().Covers(from)) << "an upload from the device";
    CheckThere("copying to the GPU");
    Copy(to, to_stride, from, from_stride, width, rows);
  }
  void Download(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t width,
                int64_t rows) override {
    CHECK(!DeviceArena::The().Covers(to)) << "a download to the device";
    CheckThere("copying from the GPU");
    Copy(to, to_stride, from, from_stride, width, rows);
  }
  void Zero(void* data, int64_t bytes) override {
    const DeviceArena::Access access;
    std::memset(data, 0, bytes);
  }
  bool Idle() override { return true; }
  uint64_t Mark() override { return 0; }
  bool Passed(uint64_t) override { return true; }
  bool Holds(const void* data, int64_t bytes) const override {
    return DeviceArena::The().Holds(data, bytes);
  }
  Stream stream() override { return nullptr; }
  void Start(const KernelLaunch& launch) override {
    emulated::RunGrid(
        launch.grid, launch.threads, launch.shared_bytes,
        [&] { launch.call(launch.kernel, launch.argument); }, launch.early != 0);
  }
  absl::StatusOr<std::unique_ptr<Graph>> MakeGraph(
      std::span<const KernelLaunch> launches) override {
    return std::make_unique<EmulatedGraph>(this, launches);
  }

 private:
  // As a runtime of CUDA's: of an error that stays, the next call tells.
  void CheckThere(const char* operation) const {
    if (!IsLost(index_)) return;
    EndForLostDevice(index_, operation,
                     "cudaErrorIllegalAddress, an illegal memory access was encountered", on_lost_);
  }

  absl::StatusOr<void*> Allocate(int64_t bytes, DeviceArena::Use use) {
    void* const data = DeviceArena::The().Allocate(bytes, use);
    if (data == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("emulated GPU: ", bytes, " bytes asked for, ", FreeBytes(), " are free"));
    }
    ++live_;
    return data;
  }

  static void Copy(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                   int64_t width, int64_t rows) {
    CHECK(rows <= 1 || (to_stride >= width && from_stride >= width)) << "rows overlap";  // CUDA's
    const DeviceArena::Access access;
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(static_cast<char*>(to) + r * to_stride,
                  static_cast<const char*>(from) + r * from_stride, width);
    }
  }

  const int32_t index_;
  const LostDeviceHandler on_lost_;
  int64_t live_ = 0;
};

}  // namespace

namespace {

// Fewer blocks than the tiles of most products with many rows: each goes through several.
constexpr int32_t kMultiprocessors = 3;

// Of a GPU of capability 9.0: another one when a test has changed the tensor cores.
WideDevice EmulatedWideDevice() {
  return {.id = emulated::WgmmaDiffers() ? "emulated, wgmma differs" : "emulated",
          .capability = 90,
          .multiprocessors = kMultiprocessors,
          .probe_blocks = kWgmmaProbeKinds};
}

}  // namespace

std::unique_ptr<Runtime> MakeEmulatedRuntime() { return std::make_unique<EmulatedRuntime>(); }

namespace {

constexpr char kClass[] = "cuda-emulated";

absl::StatusOr<WideProducts> ProductsOf(const BackendOptions& options, int32_t index,
                                        Runtime* runtime) {
  if (options.numerics_class.empty() || options.numerics_class == kClass) {
    return ChooseWideProducts(EmulatedWideDevice(), runtime);
  }
  if (options.numerics_class != CublasClass(kClass)) {
    return absl::FailedPreconditionError(
        absl::StrCat("numerics class \"", options.numerics_class, "\" was asked for; GPU ", index,
                     " (emulated GPU) computes in \"", kClass, "\", or in \"", CublasClass(kClass),
                     "\", which is not exact"));
  }
  TUTTI_ASSIGN_OR_RETURN(auto library, OpenCublasLtLibrary(CublasLtLibraryPath(), index, nullptr));
  TUTTI_ASSIGN_OR_RETURN(WideProducts wide,
                         ProductsByLibrary(OnEmulatedDevice(std::move(library)), runtime));
  wide.device_index = index;
  wide.on_lost_device = options.on_lost_device;
  return wide;
}

absl::StatusOr<std::unique_ptr<Backend>> Open(const BackendOptions& options,
                                              std::shared_ptr<Nccl> nccl, int32_t index) {
  static std::atomic<uint64_t> made{0};
  // A call computes what a GPU would, on the host and as slowly as the build and the machine's load
  // make it. Tests of the deadline set one of their own.
  NcclOptions nccl_options = {
      .device_index = index, .machine = ThisMachine(), .call_patience = std::chrono::seconds(60)};
  const uint64_t number = ++made;
  std::memcpy(nccl_options.device_id.data(), &number, sizeof(number));
  nccl_options.open_nccl = [nccl]() -> absl::StatusOr<std::shared_ptr<Nccl>> {
    if (nccl == nullptr) return absl::UnavailableError("no NCCL on the emulated machine");
    return nccl;
  };
  nccl_options.open_runtime = MakeEmulatedRuntime;
  auto runtime = std::make_unique<EmulatedRuntime>(index, options.on_lost_device);
  const auto wide = ProductsOf(options, index, runtime.get());
  if (!wide.ok() && options.numerics_class.empty()) return wide.status();
  if (!wide.ok()) {
    return Annotate(wide.status(), absl::StrCat("numerics class \"", options.numerics_class, "\""));
  }
  return MakeCudaBackend(std::move(runtime),
                         wide->library == nullptr ? kClass : CublasClass(kClass),
                         std::move(nccl_options), options, *wide);
}

}  // namespace

std::unique_ptr<Backend> MakeEmulatedBackend(const BackendOptions& options,
                                             std::shared_ptr<Nccl> nccl, int32_t index) {
  auto backend = Open(options, std::move(nccl), index);
  CHECK(backend.ok()) << backend.status();
  return *std::move(backend);
}

absl::StatusOr<std::unique_ptr<Backend>> OpenEmulatedBackend(const BackendOptions& options,
                                                             int32_t index) {
  return Open(options, nullptr, index);
}

int64_t EmulatedAllocations() { return DeviceArena::The().allocations(); }
int64_t EmulatedBytesInUse() { return DeviceArena::The().bytes_used(); }

}  // namespace tutti::kernels::cuda
