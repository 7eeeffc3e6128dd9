#include "program/processor.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

constexpr ProcessorWords kHaswell = {.features_c = 0x7ffafbff,
                                     .features_7b = 0x000027ab,
                                     .extended_c = 0x00000021,
                                     .saved_registers = 0x7};

TEST(Processor, RunsUsWithAllOfVersion3) { EXPECT_EQ(MissingFeatures(kHaswell), ""); }

TEST(Processor, LacksWhatIsNamed) {
  ProcessorWords ivy_bridge = kHaswell;
  ivy_bridge.features_c &= ~(1u << 12 | 1u << 22);
  ivy_bridge.features_7b = 0x281;
  ivy_bridge.extended_c = 1;
  EXPECT_EQ(MissingFeatures(ivy_bridge), "FMA, MOVBE, BMI1, AVX2, BMI2, LZCNT");
  EXPECT_EQ(MissingFeatures({}), "FMA, MOVBE, XSAVE, AVX, F16C, BMI1, AVX2, BMI2, LZCNT");
}

TEST(Processor, NeedsASystemThatKeepsItsRegisters) {
  ProcessorWords words = kHaswell;
  words.saved_registers = 0x3;
  EXPECT_EQ(MissingFeatures(words), "an operating system that keeps AVX registers");
}

TEST(Processor, OfThisMachineIsGoodEnough) { EXPECT_EQ(CheckProcessor(), absl::OkStatus()); }

}  // namespace
}  // namespace tutti
