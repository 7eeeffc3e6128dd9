#include "kernels/cuda/lost_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "program/exit_code.h"

namespace tutti::kernels::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LostDeviceTest, NamesTheDeviceTheErrorAndWhatToDo) {
  EXPECT_THAT(LostDeviceText(3, "copying from the GPU", "cudaErrorECCUncorrectable, an\nerror"),
              AllOf(HasSubstr("GPU 3 is lost: copying from the GPU: cudaErrorECCUncorrectable, an "
                              "error; this worker ends"),
                    HasSubstr("nvidia-smi"), HasSubstr("--device"), Not(HasSubstr("\n"))));
}

TEST(LostDeviceTest, EndsTheProcessWhateverTheHandlerDoes) {
  EXPECT_EXIT(EndForLostDevice(0, "a", "b", nullptr), ExitedWithCode(kExitDeviceLost),
              "GPU 0 is lost: a: b");
  EXPECT_EXIT(EndForLostDevice(1, "a", "b",
                               [](const char* line) { std::fprintf(stderr, "told: %s\n", line); }),
              ExitedWithCode(kExitDeviceLost), "told: GPU 1 is lost: a: b");
}

}  // namespace
}  // namespace tutti::kernels::cuda
