#include "kernels/cuda/runtime_cuda.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/copy_pieces.h"
#include "kernels/cuda/cuda_graph.h"
#include "kernels/cuda/limits.h"

namespace tutti::kernels::cuda {
namespace {

class CudaRuntime : public Runtime {
 public:
  CudaRuntime(int32_t index, cudaStream_t stream, char* pinned, LostDeviceHandler on_lost)
      : index_(index), stream_(stream), pinned_(pinned), on_lost_(on_lost) {}
  ~CudaRuntime() override {
    cudaStreamSynchronize(stream_);
    for (const Marked& marked : marks_) cudaEventDestroy(marked.event);
    for (const cudaEvent_t event : spare_events_) cudaEventDestroy(event);
    for (const cudaEvent_t event : half_done_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    cudaStreamDestroy(stream_);
    cudaFreeHost(pinned_);
  }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    UseDevice();
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(bytes));
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // not sticky
      size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      return absl::ResourceExhaustedError(absl::StrCat(
          "GPU ", index_, ": ", bytes, " bytes asked for, ", free, " of ", total, " are free"));
    }
    MustSucceed(error, "cudaMalloc");
    Zero(data, bytes);
    return data;
  }
  void Free(void* data) override {
    UseDevice();
    Synchronize();  // cudaFree is not said to wait for kernels that use the memory
    MustSucceed(cudaFree(data), "cudaFree");
  }

  int64_t FreeBytes() override {
    UseDevice();
    size_t free = 0, total = 0;
    MustSucceed(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return static_cast<int64_t>(free);
  }

  void Upload(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t width,
              int64_t rows) override {
    UseDevice();
    const int64_t bytes = width * rows;
    if (bytes == 0) return;
    if (bytes > kPinnedBytes) return UploadInPieces(to, to_stride, from, from_stride, width, rows);
    char* const staged = Pinned(bytes);
    CopyRows(staged, width, from, from_stride, width, rows);
    Copy(to, to_stride, staged, width, width, rows, cudaMemcpyHostToDevice);
  }
  void Download(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t width,
                int64_t rows) override {
    UseDevice();
    const int64_t bytes = width * rows;
    if (bytes == 0) return Synchronize();
    if (bytes > kPinnedBytes) {
      return DownloadInPieces(to, to_stride, from, from_stride, width, rows);
    }
    // Through pinned memory: to any other the driver copies in two steps of its own.
    char* const staged = Pinned(bytes);
    Copy(staged, width, from, from_stride, width, rows, cudaMemcpyDeviceToHost);
    Synchronize();
    CopyRows(to, to_stride, staged, width, width, rows);
  }
  void Zero(void* data, int64_t bytes) override {
    UseDevice();
    MustSucceed(cudaMemsetAsync(data, 0, bytes, stream_), "clearing memory of the GPU");
  }
  bool Idle() override {
    UseDevice();
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state == cudaErrorNotReady) return false;
    MustSucceed(state, "asking whether the GPU is through");
    return true;
  }

  uint64_t Mark() override {
    UseDevice();
    cudaEvent_t event = nullptr;
    if (spare_events_.empty()) {
      MustSucceed(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
    } else {
      event = spare_events_.back();
      spare_events_.pop_back();
    }
    MustSucceed(cudaEventRecord(event, stream_), "marking the queue");
    marks_.push_back({++last_mark_, event});
    return last_mark_;
  }
  bool Passed(uint64_t mark) override {
    UseDevice();
    while (!marks_.empty() && marks_.front().number <= mark) {
      const cudaError_t state = cudaEventQuery(marks_.front().event);
      if (state == cudaErrorNotReady) return false;
      MustSucceed(state, "asking how far the GPU is");
      spare_events_.push_back(marks_.front().event);
      marks_.pop_front();
    }
    return true;
  }

  Stream stream() override {
    UseDevice();  // the caller's work may be the first that this thread asks for
    return stream_;
  }

  void Start(const KernelLaunch& launch) override {
    UseDevice();
    AllowSharedMemory(launch);
    void* argument = const_cast<void*>(launch.argument);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = Blocks(launch);
    config.blockDim = Threads(launch);
    config.dynamicSmemBytes = static_cast<size_t>(launch.shared_bytes);
    config.stream = stream_;
    config.attrs = &attribute;
    config.numAttrs = launch.early != 0 ? 1 : 0;
    const cudaError_t error = cudaLaunchKernelExC(&config, launch.kernel, &argument);
    if (error != cudaSuccess) MustSucceed(error, KernelName(launch.kernel));
  }
  absl::StatusOr<std::unique_ptr<Graph>> MakeGraph(
      std::span<const KernelLaunch> launches) override {
    UseDevice();
    for (const KernelLaunch& launch : launches) AllowSharedMemory(launch);
    return MakeCudaGraph(launches, stream_, {index_, on_lost_});
  }

 private:
  void MustSucceed(cudaError_t error, const char* operation) const {
    cuda::MustSucceed(error, operation, {index_, on_lost_});
  }

  static void CopyRows(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                       int64_t width, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(static_cast<char*>(to) + r * to_stride,
                  static_cast<const char*>(from) + r * from_stride, width);
    }
  }
  void Copy(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t width,
            int64_t rows, cudaMemcpyKind kind) {
    const bool whole = rows == 1 || (to_stride == width && from_stride == width);
    const cudaError_t error =
        whole ? cudaMemcpyAsync(to, from, width * rows, kind, stream_)
              : cudaMemcpy2DAsync(to, to_stride, from, from_stride, width, rows, kind, stream_);
    MustSucceed(error,
                kind == cudaMemcpyHostToDevice ? "copying to the GPU" : "copying from the GPU");
  }

  // Through both halves of the pinned memory in turn: while the GPU copies one piece, the host
  // copies the other.
  void UploadInPieces(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                      int64_t width, int64_t rows) {
    Synchronize();  // no copy from it is under way any more
    int half = 0;
    ForCopyPieces(width, rows, kPinnedBytes / 2, [&](const CopyPiece& piece) {
      char* const staged = WaitForHalf(half);
      CopyRows(staged, piece.width, At(from, from_stride, piece), from_stride, piece.width,
               piece.rows);
      Copy(At(to, to_stride, piece), to_stride, staged, piece.width, piece.width, piece.rows,
           cudaMemcpyHostToDevice);
      MarkHalf(half);
      half = 1 - half;
    });
    pinned_used_ = kPinnedBytes;  // by the last two
  }
  void DownloadInPieces(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                        int64_t width, int64_t rows) {
    Synchronize();
    CopyPiece under_way[2];  // no rows: none
    const auto finish = [&](int half) {
      const CopyPiece piece = std::exchange(under_way[half], CopyPiece());
      if (piece.rows == 0) return;
      CopyRows(At(to, to_stride, piece), to_stride, WaitForHalf(half), piece.width, piece.width,
               piece.rows);
    };
    int half = 0;
    ForCopyPieces(width, rows, kPinnedBytes / 2, [&](const CopyPiece& piece) {
      finish(half);
      Copy(WaitForHalf(half), piece.width, At(from, from_stride, piece), from_stride, piece.width,
           piece.rows, cudaMemcpyDeviceToHost);
      MarkHalf(half);
      under_way[half] = piece;
      half = 1 - half;
    });
    finish(half);
    finish(1 - half);
  }
  static char* At(const void* rows, int64_t stride, const CopyPiece& piece) {
    return static_cast<char*>(const_cast<void*>(rows)) + piece.row * stride + piece.offset;
  }
  // Half of the pinned memory, once the copy it was given to is done.
  char* WaitForHalf(int half) {
    if (half_done_[half] == nullptr) {
      MustSucceed(cudaEventCreateWithFlags(&half_done_[half], cudaEventDisableTiming),
                  "making an event");
    } else {
      MustSucceed(cudaEventSynchronize(half_done_[half]), "waiting for a copy");
    }
    return pinned_ + half * (kPinnedBytes / 2);
  }
  void MarkHalf(int half) {
    MustSucceed(cudaEventRecord(half_done_[half], stream_), "marking a copy");
  }

  // Before a kernel's first start, and where it asks for more shared memory than before. All have a
  // multiprocessor's memory divided the same way, most of it shared: one that divided it in another
  // way would have to wait until the multiprocessor is empty, where the next kernel is to begin
  // beside the one before. More than every GPU has must be asked for.
  void AllowSharedMemory(const KernelLaunch& launch) {
    constexpr int kWithoutAsking = 48 << 10;
    const auto [at, is_new] = shared_bytes_.try_emplace(launch.kernel, kWithoutAsking);
    if (is_new) {
      MustSucceed(
          cudaFuncSetAttribute(launch.kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared),
          KernelName(launch.kernel));
    }
    int& allowed = at->second;
    if (allowed >= launch.shared_bytes) return;
    MustSucceed(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     launch.shared_bytes),
                KernelName(launch.kernel));
    allowed = launch.shared_bytes;
  }

  // CUDA's current device belongs to the thread, and load and steps may run on two.
  void UseDevice() const { MustSucceed(cudaSetDevice(index_), "cudaSetDevice"); }
  void Synchronize() {
    MustSucceed(cudaStreamSynchronize(stream_), "waiting for the GPU");
    pinned_used_ = 0;
  }
  // Bytes from which no copy is under way; waits when all of it is in use.
  char* Pinned(int64_t bytes) {
    constexpr int64_t kAlignment = 256;
    if (pinned_used_ + bytes > kPinnedBytes) Synchronize();
    char* const data = pinned_ + pinned_used_;
    pinned_used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return data;
  }

  struct Marked {
    uint64_t number;
    cudaEvent_t event;
  };

  const int32_t index_;
  const cudaStream_t stream_;
  uint64_t last_mark_ = 0;
  std::deque<Marked> marks_;  // not known to be passed
  std::vector<cudaEvent_t> spare_events_;
  char* const pinned_;
  const LostDeviceHandler on_lost_;
  int64_t pinned_used_ = 0;
  cudaEvent_t half_done_[2] = {};            // null: never given
  std::map<const void*, int> shared_bytes_;  // of a block, that a kernel may use
};

absl::Status Refuse(int32_t index, const char* operation, cudaError_t error) {
  return absl::UnavailableError(absl::StrCat("GPU ", index, ": ", operation, ": ",
                                             cudaGetErrorName(error), ", ",
                                             cudaGetErrorString(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Runtime>> OpenDevice(int32_t index, QueueKind kind,
                                                    LostDeviceHandler on_lost) {
  cudaError_t error = cudaSetDevice(index);
  if (error != cudaSuccess) return Refuse(index, "opening it", error);
  int lowest = 0, highest = 0;
  error = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
  if (error != cudaSuccess) return Refuse(index, "asking for priorities", error);
  cudaStream_t stream = nullptr;
  error = cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                       kind == QueueKind::kTransfers ? highest : lowest);
  if (error != cudaSuccess) return Refuse(index, "making a queue", error);
  void* pinned = nullptr;
  error = cudaMallocHost(&pinned, kPinnedBytes);
  if (error != cudaSuccess) {
    cudaStreamDestroy(stream);
    return Refuse(index, "taking pinned memory", error);
  }
  return std::make_unique<CudaRuntime>(index, stream, static_cast<char*>(pinned), on_lost);
}

}  // namespace tutti::kernels::cuda
