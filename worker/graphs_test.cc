// Steps of whole models repeat their launches, and graphs replay the launches that would have been
// started one by one: on the emulated GPU, and on a real one where there is one.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <utility>

#include "worker/pipeline_testing.h"

namespace tutti::worker {
namespace {

using kernels::LaunchCounts;

// "" without any.
std::string Gpu() {
  const std::string last = TestedBackends().back();
  return last.starts_with("cuda") ? last : "";
}

TestRequest Request(int prompt, int max_tokens, int seed) {
  TestRequest request{.max_tokens = max_tokens};
  for (int t = 0; t < prompt; ++t) request.prompt.push_back((7 * t + 3 * seed) % 200);
  return request;
}

using Bits = std::vector<std::vector<uint32_t>>;  // of every request

Bits Generate(TestPipeline* pipeline, const std::vector<TestRequest>& requests) {
  Bits bits;
  for (const auto& output : pipeline->Generate(requests, 0)) bits.push_back(output.bits());
  return bits;
}

// Runs the requests, and then others that are equal but for their texts. All make `graphs_max`
// graphs at most; `least` is the share of the second run's kernels that graphs started, without
// those of lists too short for one: a sampled row's, which the host looks at one by one.
void ExpectReplayed(TestPipelineOptions options, const std::vector<TestRequest>& requests,
                    double least, int graphs_max) {
  if (options.model_dir.empty()) options.model_dir = GoldenDir("single-kv-tied-bf16");
  options.backend = Gpu();
  std::vector<TestRequest> others = requests;
  for (TestRequest& request : others) {
    for (TokenId& token : request.prompt) token = (token + 31) % 200;
  }
  TestPipeline pipeline(options);
  const Bits bits = Generate(&pipeline, requests);
  const LaunchCounts before = pipeline.launches(0);
  const Bits other_bits = Generate(&pipeline, others);
  const LaunchCounts after = pipeline.launches(0);
  EXPECT_EQ(after.graph_error, "");
  const int64_t kernels = after.kernels - before.kernels;
  const int64_t of_short_lists = after.kernels_of_short_lists - before.kernels_of_short_lists;
  const int64_t replayed = after.kernels_by_graphs - before.kernels_by_graphs;
  EXPECT_GT(static_cast<double>(replayed), least * static_cast<double>(kernels - of_short_lists));
  EXPECT_LE(after.graphs_made, graphs_max) << "equal steps were different lists";
  std::cout << kernels << " kernels, " << of_short_lists << " of short lists, " << replayed
            << " by " << after.graphs_made << " graphs; in the first run "
            << before.kernels_by_graphs << " of " << before.kernels << "\n";

  options.graphs = false;
  TestPipeline without(options);
  EXPECT_EQ(bits, Generate(&without, requests));
  EXPECT_EQ(other_bits, Generate(&without, others));
  EXPECT_EQ(without.launches(0).kernels_by_graphs, 0);
}

class GraphsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Gpu().empty()) GTEST_SKIP() << "no GPU";
  }
};

// The kernels of a decode step of one sequence: nine for each layer of a dense model, and one
// more once it has several tiles to attend to. docs/PERFORMANCE.md counts with it.
TEST_F(GraphsTest, KernelsOfALayer) {
  const auto kernels_of = [](const std::string& model, int prompt) {
    TestPipeline pipeline({.model_dir = GoldenDir(model), .backend = Gpu(), .graphs = false});
    int64_t kernels = pipeline.launches(0).kernels, last = 0;
    for (const int tokens : {2, 3}) {  // one decode step, then two
      Generate(&pipeline, {Request(prompt, tokens, 0)});
      const int64_t now = pipeline.launches(0).kernels;
      last = now - std::exchange(kernels, now) - last;
    }
    return last;
  };
  // Three layers and five; before and after them Embed, the first norm, the last one, the head, and
  // two that sample.
  const int64_t few = kernels_of("grouped-tied-bf16", 5),
                more = kernels_of("single-kv-tied-bf16", 5);
  EXPECT_EQ((more - few) / 2, 9) << few << " and " << more;
  EXPECT_EQ(few - 3 * 9, 6);
  EXPECT_EQ(kernels_of("single-kv-tied-bf16", 130) - more, 5);
}

// Past the end of an attention tile (128 slots), where folds begin. Two lists a step: the first is
// short.
TEST_F(GraphsTest, OneSequence) { ExpectReplayed({}, {Request(122, 8, 0)}, 0.95, 2 * 3); }

TEST_F(GraphsTest, EightSequences) {
  std::vector<TestRequest> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(Request(3 + 2 * i, 8, i));
  ExpectReplayed({}, requests, 0.95, 2 * 2);
}

// The ids that are adjusted grow with every token. Of two ranks because the test's look at logits
// would cut the list before them.
TEST_F(GraphsTest, Penalties) {
  TestRequest request = Request(5, 9, 0);
  request.sampling.set_logprobs(true);
  request.sampling.set_repetition_penalty(1.2f);
  ExpectReplayed({.ranks = {2}}, {request}, 0.95, 22);
}

// Activations and the ranks' sums pass through the host: the lists are shorter.
TEST_F(GraphsTest, StagesAndRanks) {
  ExpectReplayed({.layers = {3, 2}, .ranks = {2, 1}}, {Request(5, 12, 0)}, 0.95, 12);
}

// Products of chosen experts are those of another step by chance; attention and router always.
TEST_F(GraphsTest, Experts) {
  ExpectReplayed({.model_dir = GoldenDir("families/qwen3-moe-bf16")}, {Request(5, 12, 0)}, 0.3,
                 1000);
}

}  // namespace
}  // namespace tutti::worker
