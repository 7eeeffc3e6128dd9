#include "kernels/cuda/module_loading.h"

#include "gtest/gtest.h"

namespace tutti::kernels::cuda {
namespace {

TEST(ModuleLoadingTest, AWishThatTheDriverNeverSawIsNamed) {
  EXPECT_EQ(ModuleLoadingRemark(kLoadsAtOnce, "EAGER"), "CUDA's driver loads kernels at once");
  EXPECT_EQ(ModuleLoadingRemark(kLoadsAtOnce, ""), "CUDA's driver loads kernels at once");
  EXPECT_EQ(ModuleLoadingRemark(kLoadsWhenUsed, "LAZY"),
            "CUDA's driver loads kernels when they are first used");
  EXPECT_EQ(
      ModuleLoadingRemark(kLoadsWhenUsed, "EAGER"),
      "CUDA's driver loads kernels when they are first used: CUDA_MODULE_LOADING was set too late");
  EXPECT_EQ(ModuleLoadingRemark(kLoadingUnknown, "EAGER"),
            "CUDA's driver does not say when it loads kernels");
}

}  // namespace
}  // namespace tutti::kernels::cuda
