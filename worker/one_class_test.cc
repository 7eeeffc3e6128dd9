// Machines of one numerics class give the same bits: the instruction sets of each class, over whole
// models. Needs a machine with several sets of a class, or the kernels compiled against SIMDe.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/cpu/instruction_set.h"
#include "worker/pipeline_testing.h"

namespace tutti::worker {
namespace {

using kernels::cpu::InstructionSet;

std::vector<TestRequest> Requests(int64_t vocab) {
  std::vector<TestRequest> requests;
  Random random(77);
  for (int i = 0; i < 6; ++i) {
    TestRequest request;
    const int64_t length = i == 0 ? 1 : random.Between(2, 60);
    for (int64_t t = 0; t < length; ++t) {
      request.prompt.push_back(static_cast<TokenId>(random.Between(0, vocab - 1)));
    }
    request.max_tokens = 6;
    request.sampling.set_logprobs(true);
    request.sampling.set_top_logprobs(3);
    request.sampling.set_temperature(i % 2 == 0 ? 0.f : 0.9f);
    request.sampling.set_seed(5 + i);
    requests.push_back(request);
  }
  return requests;
}

std::vector<std::vector<uint32_t>> Bits(const std::string& checkpoint, const std::string& set) {
  TestPipeline pipeline({.model_dir = GoldenDir(checkpoint),
                         .backend = "cpu",
                         .threads = 2,
                         .instruction_set = set,
                         .num_blocks = 128});
  std::vector<std::vector<uint32_t>> bits;
  for (const auto& output : pipeline.Generate(Requests(pipeline.config().vocab_size), 0)) {
    bits.push_back(output.bits());
  }
  return bits;
}

class OneClassTest : public ::testing::TestWithParam<std::string> {};

TEST_P(OneClassTest, GivesTheSameBitsOnEveryInstructionSet) {
  std::map<std::string, std::vector<std::string>> classes;
  const auto sets = AvailableInstructionSets(kernels::cpu::MachineFeatures());
  for (const InstructionSet set : sets) {
    classes[std::string(NumericsClassOf(set))].emplace_back(InstructionSetName(set));
  }
  bool compared = false;
  for (const auto& [name, members] : classes) {
    const auto expected = Bits(GetParam(), members[0]);
    for (size_t i = 1; i < members.size(); ++i) {
      compared = true;
      EXPECT_EQ(Bits(GetParam(), members[i]), expected)
          << name << ": " << members[i] << " against " << members[0];
    }
  }
  if (!compared) GTEST_SKIP() << "this machine has one instruction set of each class";
}

INSTANTIATE_TEST_SUITE_P(All, OneClassTest,
                         ::testing::Values("grouped-tied-bf16", "families/qwen3-moe-bf16",
                                           "families/chatglm3-128k-f16", "families/llama3-f32"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' || c == '/' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tutti::worker
