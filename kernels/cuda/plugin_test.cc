// The real libtutti_cuda.so, on any machine.
#include <dlfcn.h>

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/plugin_abi.h"
#include "kernels/plugin_loader.h"

namespace tutti::kernels {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string PluginDirectory() { return std::string(std::getenv("TUTTI_BINARY_DIR")) + "/bin"; }

PluginFunction Symbol() {
  void* library = dlopen((PluginDirectory() + "/libtutti_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return library == nullptr ? nullptr
                            : reinterpret_cast<PluginFunction>(dlsym(library, kPluginSymbol));
}

TEST(CudaPluginTest, OpensOrSaysWhyNot) {
  setenv("TUTTI_PLUGIN_DIR", PluginDirectory().c_str(), 1);
  LoadGpuKernelsAtOnce("");
  const auto backend = CreateBackend("cuda:0", {});
  if (backend.ok()) {
    EXPECT_EQ((*backend)->name(), "cuda");
    // No kernel is left to be brought to the GPU while it serves.
    EXPECT_THAT((*backend)->remark(), HasSubstr("CUDA's driver loads kernels at once"));
    EXPECT_EQ((*backend)->device(), (Device{DeviceKind::kCuda, 0}));
    return;
  }
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kUnavailable) << backend.status();
  EXPECT_THAT(std::string(backend.status().message()),
              AllOf(HasSubstr("device cuda:0"), HasSubstr("NVIDIA driver")));
}

TEST(CudaPluginTest, RefusesAWorkerOfAnotherBuild) {
  const PluginFunction open = Symbol();
  ASSERT_NE(open, nullptr);
  PluginIdentity host = ThisSide();
  host.build_stamp = "0.0.1-other";
  PluginAnswer answer;
  const BackendOptions options;
  const PluginRequest request = {.device_index = 0, .options = &options};
  open(&host, &request, &answer);
  EXPECT_EQ(answer.backend, nullptr);
  EXPECT_EQ(answer.status_code, static_cast<int32_t>(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(std::string(answer.message), HasSubstr("0.0.1-other"));
  EXPECT_EQ(PluginMismatch(ThisSide(), answer.plugin), "");
}

}  // namespace
}  // namespace tutti::kernels
