// One voice of quantised models, and the bytes that they hold: expectations of several tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/pipeline_testing.h"

namespace tutti::worker {

std::vector<TokenId> Prompt(int64_t vocab, int64_t length, uint64_t seed);

// Of all logits; infinite where one is no number.
double LargestDifference(const std::vector<std::vector<float>>& a,
                         const std::vector<std::vector<float>>& b);

// What loading all of a checkpoint fails with; "loaded".
std::string LoadSaid(const std::string& dir);

// Greedy ones and drawn ones, with log-probabilities.
std::vector<TestRequest> Requests(int64_t vocab);

// Expects of each of `others` what a pipeline of `options` answers to each request alone.
void ExpectOneVoice(const TestPipelineOptions& options, const std::string& what,
                    const std::vector<TestPipelineOptions>& others);

// Expects of each worker that it holds the bytes that are planned for it.
void ExpectPlannedBytes(const TestPipelineOptions& options, const std::string& what);

}  // namespace tutti::worker
