#include "worker/quantised_voice_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "kernels/backend.h"
#include "model/config_json.h"
#include "model/partition.h"
#include "worker/weights.h"

namespace tutti::worker {

std::vector<TokenId> Prompt(int64_t vocab, int64_t length, uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> ids;
  for (int64_t i = 0; i < length; ++i)
    ids.push_back(static_cast<TokenId>(random.Between(0, vocab - 1)));
  return ids;
}

double LargestDifference(const std::vector<std::vector<float>>& a,
                         const std::vector<std::vector<float>>& b) {
  double largest = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t r = 0; r < a.size(); ++r) {
    for (size_t i = 0; i < a[r].size(); ++i) {
      if (!std::isfinite(a[r][i])) return INFINITY;
      largest = std::max<double>(largest, std::abs(a[r][i] - b[r][i]));
    }
  }
  return largest;
}

std::string LoadSaid(const std::string& dir) {
  const auto config = model::LoadModelConfig(dir);
  if (!config.ok()) return std::string(config.status().message());
  const auto backend = *kernels::CreateBackend("cpu", {.num_threads = 1});
  const auto weights =
      LoadWeights(dir, *config, model::WholeModel(*config), backend.get(), nullptr);
  return weights.ok() ? "loaded" : std::string(weights.status().message());
}

std::vector<TestRequest> Requests(int64_t vocab) {
  std::vector<TestRequest> requests;
  for (int i = 0; i < 6; ++i) {
    TestRequest request;
    request.prompt = Prompt(vocab, 1 + 7 * i, static_cast<uint64_t>(i));
    request.max_tokens = 3 + i;
    request.sampling.set_logprobs(true);
    request.sampling.set_temperature(i % 2 == 0 ? 0.f : 0.8f);
    request.sampling.set_seed(1000 + i);
    requests.push_back(request);
  }
  return requests;
}

void ExpectOneVoice(const TestPipelineOptions& options, const std::string& what,
                    const std::vector<TestPipelineOptions>& others) {
  TestPipeline alone(options);
  const std::vector<TestRequest> requests = Requests(alone.config().vocab_size);
  std::vector<std::vector<uint32_t>> expected;
  for (const TestRequest& request : requests) {
    expected.push_back(alone.Generate({request}, 0)[0].bits());
  }
  for (size_t i = 0; i < others.size(); ++i) {
    TestPipeline other(others[i]);
    for (const int32_t chunk : {1, 5, 0}) {
      const auto outputs = other.Generate(requests, chunk, 3);
      for (size_t r = 0; r < requests.size(); ++r) {
        EXPECT_EQ(outputs[r].bits(), expected[r])
            << what << ", layout " << i << ", chunk " << chunk << ", request " << r;
      }
    }
  }
}

void ExpectPlannedBytes(const TestPipelineOptions& options, const std::string& what) {
  TestPipeline pipeline(options);
  model::ModelConfig config = pipeline.config();
  config.whole_experts = options.whole_experts;
  std::vector<int32_t> layers = options.layers;
  if (layers.empty()) layers = {static_cast<int32_t>(config.num_layers)};
  int64_t first = 0;
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    const int ranks = options.ranks.empty() ? 1 : options.ranks[stage];
    const model::StageShare share = {.first_layer = first,
                                     .num_layers = layers[stage],
                                     .has_embedding = stage == 0,
                                     .has_head = stage + 1 == layers.size()};
    first += layers[stage];
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(pipeline.ready(stage, rank).weight_bytes(),
                model::ComputeShardBytes(config, share, ranks, rank).total())
          << what << ", stage " << stage << ", rank " << rank << " of " << ranks;
    }
  }
}

}  // namespace tutti::worker
