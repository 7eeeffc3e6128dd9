#include "kernels/cuda/cuda_graph.h"

#include "absl/strings/str_cat.h"

namespace tutti::kernels::cuda {
namespace {

absl::Status ToStatus(cudaError_t error, const char* operation) {
  if (error == cudaSuccess) return absl::OkStatus();
  // Not seen by later calls; one that cannot be mended they meet themselves.
  cudaGetLastError();
  return absl::UnavailableError(
      absl::StrCat(operation, ": ", cudaGetErrorName(error), ", ", cudaGetErrorString(error)));
}

class CudaGraph : public Graph {
 public:
  CudaGraph(cudaGraphExec_t graph, cudaStream_t stream, const OpenedDevice& device)
      : graph_(graph), stream_(stream), device_(device) {}
  // One that is running is freed when it has ended.
  ~CudaGraph() override { cudaGraphExecDestroy(graph_); }

  void Start() override {
    MustSucceed(cudaGraphLaunch(graph_, stream_), "starting a graph", device_);
  }

 private:
  const cudaGraphExec_t graph_;
  const cudaStream_t stream_;
  const OpenedDevice device_;
};

cudaGraphEdgeData EdgeTo(const KernelLaunch& launch) {
  cudaGraphEdgeData edge = {};
  if (launch.early != 0) {
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
    edge.type = cudaGraphDependencyTypeProgrammatic;
  }
  return edge;
}

// Each launch after the one before: after its end, or where it is an early one once all blocks of
// the one before have let it begin.
absl::Status AddChain(std::span<const KernelLaunch> launches, cudaGraph_t graph) {
  cudaGraphNode_t last = nullptr;
  for (const KernelLaunch& launch : launches) {
    void* argument = const_cast<void*>(launch.argument);
    cudaKernelNodeParams params = {};
    params.func = const_cast<void*>(launch.kernel);
    params.gridDim = Blocks(launch);
    params.blockDim = Threads(launch);
    params.sharedMemBytes = static_cast<unsigned>(launch.shared_bytes);
    params.kernelParams = &argument;
    cudaGraphNode_t node = nullptr;
    TUTTI_RETURN_IF_ERROR(ToStatus(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params),
                                   "cudaGraphAddKernelNode"));
    if (last != nullptr) {
      const cudaGraphEdgeData edge = EdgeTo(launch);
      TUTTI_RETURN_IF_ERROR(ToStatus(cudaGraphAddDependencies(graph, &last, &node, &edge, 1),
                                     "cudaGraphAddDependencies"));
    }
    last = node;
  }
  return absl::OkStatus();
}

}  // namespace

dim3 Blocks(const KernelLaunch& launch) {
  return dim3(static_cast<unsigned>(launch.grid.x), static_cast<unsigned>(launch.grid.y));
}
dim3 Threads(const KernelLaunch& launch) { return dim3(static_cast<unsigned>(launch.threads)); }

const char* KernelName(const void* kernel) {
  const char* name = nullptr;
  return cudaFuncGetName(&name, kernel) == cudaSuccess && name != nullptr ? name : "a kernel";
}

void MustSucceed(cudaError_t error, const char* operation, const OpenedDevice& device) {
  if (error == cudaSuccess) return;
  EndForLostDevice(device.index, operation,
                   absl::StrCat(cudaGetErrorName(error), ", ", cudaGetErrorString(error)),
                   device.on_lost);
}

absl::StatusOr<std::unique_ptr<Graph>> MakeCudaGraph(std::span<const KernelLaunch> launches,
                                                     cudaStream_t stream,
                                                     const OpenedDevice& device) {
  cudaGraph_t graph = nullptr;
  TUTTI_RETURN_IF_ERROR(ToStatus(cudaGraphCreate(&graph, 0), "cudaGraphCreate"));
  absl::Status status = AddChain(launches, graph);
  cudaGraphExec_t executable = nullptr;
  if (status.ok()) {
    status = ToStatus(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  }
  cudaGraphDestroy(graph);
  TUTTI_RETURN_IF_ERROR(status);
  auto result = std::make_unique<CudaGraph>(executable, stream, device);
  TUTTI_RETURN_IF_ERROR(ToStatus(cudaGraphUpload(executable, stream), "cudaGraphUpload"));
  return result;
}

}  // namespace tutti::kernels::cuda
