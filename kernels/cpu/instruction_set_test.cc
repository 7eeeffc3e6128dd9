#include "kernels/cpu/instruction_set.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti::kernels::cpu {
namespace {

using ::testing::HasSubstr;

constexpr CpuFeatures kZen3 = {true, false, false};
constexpr CpuFeatures kSkylake = {true, true, false};
constexpr CpuFeatures kZen4 = {true, true, true};
constexpr CpuFeatures kSapphireRapids = {true, true, true, true};

absl::StatusOr<InstructionSet> Choose(const CpuFeatures& features, const std::string& set,
                                      const std::string& numerics_class = "") {
  BackendOptions options;
  options.instruction_set = set;
  options.numerics_class = numerics_class;
  return ChooseInstructionSet(features, options);
}

TEST(InstructionSetTest, TakesTheBest) {
  EXPECT_EQ(*Choose(kZen3, ""), InstructionSet::kAvx2);
  EXPECT_EQ(*Choose(kSkylake, ""), InstructionSet::kAvx512);
  EXPECT_EQ(*Choose(kZen4, ""), InstructionSet::kAvx512Bf16);
  EXPECT_EQ(*Choose(kSapphireRapids, ""), InstructionSet::kAmx);
}

TEST(InstructionSetTest, TakesTheBestOfAClass) {
  EXPECT_EQ(*Choose(kZen4, "", "cpu-f32"), InstructionSet::kAvx512);
  EXPECT_EQ(*Choose(kZen3, "", "cpu-f32"), InstructionSet::kAvx2);
  EXPECT_EQ(*Choose(kZen4, "", "cpu-bf16dot"), InstructionSet::kAvx512Bf16);
  EXPECT_EQ(*Choose(kZen3, "", "cpu-bf16dot"), InstructionSet::kEmulatedAvx512Bf16);
  EXPECT_EQ(*Choose(kSkylake, "", "cpu-bf16dot"), InstructionSet::kEmulatedAvx512Bf16);
  EXPECT_EQ(*Choose(kSapphireRapids, "", "cpu-bf16dot"), InstructionSet::kAvx512Bf16);
  EXPECT_EQ(*Choose(kSapphireRapids, "", "cpu-bf16block"), InstructionSet::kAmx);
  EXPECT_EQ(*Choose(kZen4, "", "cpu-bf16block"), InstructionSet::kAvx512Block);
  EXPECT_EQ(*Choose(kZen3, "", "cpu-bf16block"), InstructionSet::kAvx2Block);
}

TEST(InstructionSetTest, TakesTheNamedOne) {
  EXPECT_EQ(*Choose(kZen4, "avx2"), InstructionSet::kAvx2);
  EXPECT_EQ(*Choose(kZen3, "emulated-avx512bf16"), InstructionSet::kEmulatedAvx512Bf16);
  EXPECT_EQ(*Choose(kZen4, "avx512", "cpu-f32"), InstructionSet::kAvx512);
}

TEST(InstructionSetTest, RefusesWhatTheMachineLacks) {
  const absl::Status missing = Choose(kZen3, "avx512").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("has no avx512; it has avx2, avx2-block"));
  EXPECT_EQ(Choose({}, "").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(InstructionSetTest, NamesEveryClassOnceAndTheBestFirst) {
  using ::testing::ElementsAre;
  EXPECT_THAT(ClassesFor(kZen3, {}), ElementsAre("cpu-f32", "cpu-bf16block", "cpu-bf16dot"));
  EXPECT_THAT(ClassesFor(kSkylake, {}), ElementsAre("cpu-f32", "cpu-bf16block", "cpu-bf16dot"));
  EXPECT_THAT(ClassesFor(kZen4, {}), ElementsAre("cpu-bf16dot", "cpu-f32", "cpu-bf16block"));
  EXPECT_THAT(ClassesFor(kSapphireRapids, {}),
              ElementsAre("cpu-bf16block", "cpu-bf16dot", "cpu-f32"));
  BackendOptions options;
  options.numerics_class = "cpu-f32";
  EXPECT_THAT(ClassesFor(kZen4, options), ElementsAre("cpu-f32")) << "the operator's word";
  options.numerics_class.clear();
  options.instruction_set = "avx2";
  EXPECT_THAT(ClassesFor(kZen4, options), ElementsAre("cpu-f32"));
}

TEST(InstructionSetTest, RefusesUnknownNamesAndContradictions) {
  EXPECT_EQ(Choose(kZen4, "avx3").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Choose(kZen4, "", "cuda-sm90").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Choose(kZen4, "avx512bf16", "cpu-f32").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(InstructionSetTest, WiderSetsComeWithNarrowerOnes) {
  const CpuFeatures& features = MachineFeatures();
  EXPECT_TRUE(features.avx2) << "the cpu backend cannot run on this machine";
  EXPECT_TRUE(features.avx512 || !features.avx512bf16);
  EXPECT_TRUE(features.avx512bf16 || !features.amx);
}

}  // namespace
}  // namespace tutti::kernels::cpu
