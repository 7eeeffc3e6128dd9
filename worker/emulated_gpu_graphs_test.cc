// Decode steps of whole models repeat their launches, and what graphs replay is what would have
// been started one by one.
#include <gtest/gtest.h>

#include "worker/testing_pipeline.h"

namespace tutti {
namespace {

using kernels::LaunchCounts;
using testing::GoldenDir;
using testing::TestPipeline;
using testing::TestPipelineOptions;
using testing::TestRequest;

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

// Runs the requests twice. The share of the second run's kernels that graphs started, without those
// of lists that are too short for one: a sampled row's, which the host looks at one by one.
void ExpectReplayed(TestPipelineOptions options, const std::vector<TestRequest>& requests,
                    double least) {
  options.model_dir = GoldenDir("single-kv-tied-bf16");
  options.backend = "cuda-emulated";
  TestPipeline pipeline(options);
  const Bits first = Generate(&pipeline, requests);
  const LaunchCounts before = pipeline.launches(0);
  const Bits second = Generate(&pipeline, requests);
  const LaunchCounts after = pipeline.launches(0);
  EXPECT_EQ(after.graph_error, "");
  const auto kernels = static_cast<double>(after.kernels - before.kernels);
  const auto in_short_lists =
      static_cast<double>(after.kernels_of_short_lists - before.kernels_of_short_lists);
  const auto replayed = static_cast<double>(after.kernels_by_graphs - before.kernels_by_graphs);
  EXPECT_GT(replayed / (kernels - in_short_lists), least);
  std::cout << kernels << " kernels, " << in_short_lists << " in short lists, " << replayed
            << " by " << after.graphs_made << " graphs; in the first run "
            << before.kernels_by_graphs << " of " << before.kernels << "\n";

  options.graphs = false;
  TestPipeline without(options);
  EXPECT_EQ(first, Generate(&without, requests));
  EXPECT_EQ(first, second);
  EXPECT_EQ(without.launches(0).kernels_by_graphs, 0);
}

// Past the end of an attention tile (128 slots), where folds begin.
TEST(EmulatedGraphsTest, OneSequence) { ExpectReplayed({}, {Request(118, 20, 0)}, 0.95); }

TEST(EmulatedGraphsTest, EightSequences) {
  std::vector<TestRequest> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(Request(3 + 2 * i, 16, i));
  ExpectReplayed({}, requests, 0.95);
}

// The ids that are adjusted grow with every token.
TEST(EmulatedGraphsTest, Penalties) {
  std::vector<TestRequest> requests;
  for (int i = 0; i < 2; ++i) {
    TestRequest& request = requests.emplace_back(Request(5 + i, 12, i));
    request.sampling.set_logprobs(true);
    request.sampling.set_repetition_penalty(1.2f);
  }
  ExpectReplayed({}, requests, 0.95);
}

// Activations and the ranks' sums pass through the host: the lists are shorter.
TEST(EmulatedGraphsTest, StagesAndRanks) {
  ExpectReplayed({.layers = {3, 2}, .ranks = {2, 1}}, {Request(5, 12, 0)}, 0.95);
}

}  // namespace
}  // namespace tutti
