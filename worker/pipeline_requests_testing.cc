// The small scheduler of TestPipeline: from requests to plans.
#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "worker/pipeline_testing.h"
#include "worker/sampling/toy_vocabulary_testing.h"

namespace tutti::worker {
namespace {

// One request as the scheduler sees it.
struct Running {
  uint64_t id = 0;
  std::vector<TokenId> tokens;
  size_t told = 0;
  int32_t computed = 0;
  int32_t blocks = 0;
  bool done = false;
  bool late = false;             // its last row is to be computed again
  std::vector<TokenId> guesses;  // of the step that runs
  size_t right = 0;              // of them, so far
  std::vector<TokenId> drafted;  // by the draft model, behind its tokens
};

std::vector<int32_t> ShuffledBlocks(int32_t count, uint64_t seed) {
  std::vector<int32_t> blocks(count);
  std::iota(blocks.begin(), blocks.end(), 0);
  Random random(seed);
  for (size_t i = blocks.size() - 1; i > 0; --i) {
    std::swap(blocks[i], blocks[random.Between(0, static_cast<int64_t>(i))]);
  }
  return blocks;
}

// Up to `most`: the draft model's, or of the tokens that it is likely to go on with, one in four of
// them wrong.
std::vector<TokenId> GuessesOf(const TestRequest& request, const Running& sequence, size_t output,
                               int64_t most, Random* random) {
  if (request.drafts > 0) {
    const auto count = std::min<int64_t>(most, static_cast<int64_t>(sequence.drafted.size()));
    return {sequence.drafted.begin(), sequence.drafted.begin() + count};
  }
  std::vector<TokenId> guesses;
  for (int64_t i = random->Between(0, most); i > 0 && output < request.likely.size(); --i) {
    const TokenId right = request.likely[output++];
    if (request.sampling.has_grammar() && right == kToyEnd) break;
    const TokenId wrong = right == 0 ? 1 : right - 1;
    guesses.push_back(random->Chance(0.25) ? wrong : right);
  }
  return guesses;
}

// Plans the next `count` tokens of a sequence, and its guesses.
void Schedule(const TestRequest& request, int32_t count, int32_t block_size, bool has_draft,
              std::vector<int32_t>* free_blocks, Running* sequence, v1::StepPlan* plan) {
  const auto total = static_cast<int32_t>(sequence->tokens.size());
  v1::ScheduledSequence* scheduled = plan->add_scheduled();
  scheduled->set_sequence(sequence->id);
  if (sequence->told == 0) {
    v1::NewSequence* added = plan->add_new_sequences();
    added->set_sequence(sequence->id);
    for (TokenId token : sequence->tokens) added->add_tokens(token);
    added->set_prompt_tokens(total);
    *added->mutable_sampling() = request.sampling;
  } else {
    for (size_t t = sequence->told; t < sequence->tokens.size(); ++t) {
      scheduled->add_new_tokens(sequence->tokens[t]);
    }
  }
  sequence->told = sequence->tokens.size();
  scheduled->set_first(sequence->computed);
  const auto guesses = static_cast<int32_t>(sequence->guesses.size());
  scheduled->set_count(count + guesses);
  scheduled->mutable_guesses()->Add(sequence->guesses.begin(), sequence->guesses.end());
  sequence->computed += count;
  for (; sequence->blocks * block_size < sequence->computed + guesses; ++sequence->blocks) {
    CHECK(!free_blocks->empty());
    scheduled->add_new_blocks(free_blocks->back());
    free_blocks->pop_back();
  }
  scheduled->set_sample(sequence->computed == total);
  if (has_draft) scheduled->set_drafts(request.drafts);
  scheduled->set_again(std::exchange(sequence->late, false));
  scheduled->set_expected_tokens(total);
  scheduled->set_expected_blocks(sequence->blocks);
}

// Each sequence's guesses of the next step, from the draft model.
void TakeDrafted(const v1::StepResult& result, std::span<Running> running,
                 std::vector<TestPipeline::Drafted>* all) {
  for (Running& sequence : running) sequence.drafted.clear();
  for (const v1::DraftedTokens& drafted : result.drafted()) {
    const size_t i = drafted.sequence() - running[0].id;
    CHECK(drafted.position() == static_cast<int32_t>(running[i].tokens.size()));
    running[i].drafted.assign(drafted.tokens().begin(), drafted.tokens().end());
    all->push_back({i, running[i].tokens, running[i].drafted});
  }
}

}  // namespace

std::vector<TestOutput> TestPipeline::Generate(const std::vector<TestRequest>& requests,
                                               int32_t chunk, uint64_t block_seed) {
  std::vector<int32_t> free_blocks = ShuffledBlocks(options_.num_blocks, block_seed);
  std::vector<Running> running(requests.size());
  std::vector<TestOutput> outputs(requests.size());
  Random random(block_seed, /*stream=*/2);
  guessed_ = guessed_right_ = 0;
  drafted_.clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    running[i].id = next_sequence_++;
    running[i].tokens = requests[i].prompt;
  }
  while (true) {
    v1::StepPlan plan;
    int32_t room = options_.max_batch_tokens;
    for (size_t i = 0; i < requests.size(); ++i) {
      Running& sequence = running[i];
      if (sequence.done) continue;
      const auto total = static_cast<int32_t>(sequence.tokens.size());
      int32_t count = std::min(total - sequence.computed, room);
      if (chunk > 0) count = std::min(count, chunk);
      if (count == 0) continue;
      room -= count;
      sequence.right = 0;
      sequence.guesses.clear();
      if (total - sequence.computed == 1 && !sequence.late) {
        const auto left = requests[i].max_tokens - static_cast<int64_t>(outputs[i].tokens.size());
        sequence.guesses = GuessesOf(requests[i], sequence, outputs[i].tokens.size(),
                                     std::clamp<int64_t>(left - 1, 0, std::min(room, 6)), &random);
        room -= static_cast<int32_t>(sequence.guesses.size());
        guessed_ += static_cast<int64_t>(sequence.guesses.size());
      }
      Schedule(requests[i], count, options_.block_size, draft_ != nullptr, &free_blocks, &sequence,
               &plan);
    }
    if (plan.scheduled().empty()) return outputs;
    const v1::StepResult result = RunStep(std::move(plan));
    CHECK(result.poisoned().empty() && result.undrawn().empty()) << result.ShortDebugString();
    // Their masks come from a thread.
    for (const uint64_t id : result.late()) {
      const bool any = std::any_of(result.sampled().begin(), result.sampled().end(),
                                   [id](const auto& token) { return token.sequence() == id; });
      running[id - running[0].id].late = !any;
      --running[id - running[0].id].computed;
    }
    for (const v1::SampledToken& token : result.sampled()) {
      const size_t i = token.sequence() - running[0].id;
      Running& sequence = running[i];
      CHECK(!sequence.done && token.position() == static_cast<int32_t>(sequence.tokens.size()));
      sequence.tokens.push_back(token.token());
      // Those that were guessed right are computed.
      if (sequence.right < sequence.guesses.size() &&
          sequence.guesses[sequence.right] == token.token()) {
        ++sequence.right;
        ++sequence.computed;
        ++guessed_right_;
      }
      outputs[i].tokens.push_back(token);
      const bool ends = requests[i].sampling.has_grammar() && token.token() == kToyEnd;
      if (!ends && static_cast<int32_t>(outputs[i].tokens.size()) < requests[i].max_tokens)
        continue;
      running[i].done = true;
      finished_.push_back(running[i].id);
    }
    TakeDrafted(result, running, &drafted_);
  }
}

std::vector<float> TestPipeline::LastLogits(const std::vector<TokenId>& prompt, int32_t chunk) {
  Generate({{.prompt = prompt, .max_tokens = 1}}, chunk);
  return last_logits_;
}

v1::StepResult TestPipeline::FirstFault(const std::vector<TokenId>& prompt, int32_t chunk) {
  const uint64_t id = next_sequence_++;
  const auto total = static_cast<int32_t>(prompt.size());
  const int32_t blocks = (total + options_.block_size - 1) / options_.block_size;
  v1::StepResult result;
  for (int32_t first = 0; first < total && result.faults().empty(); first += chunk) {
    v1::StepPlan plan;
    v1::ScheduledSequence* scheduled = plan.add_scheduled();
    if (first == 0) {
      v1::NewSequence* added = plan.add_new_sequences();
      added->set_sequence(id);
      for (const TokenId token : prompt) added->add_tokens(token);
      added->set_prompt_tokens(total);
      for (int32_t b = 0; b < blocks; ++b) scheduled->add_new_blocks(b);
    }
    scheduled->set_sequence(id);
    scheduled->set_first(first);
    scheduled->set_count(std::min(chunk, total - first));
    scheduled->set_sample(first + chunk >= total);
    scheduled->set_expected_tokens(total);
    scheduled->set_expected_blocks(blocks);
    result = RunStep(std::move(plan));
  }
  finished_.push_back(id);
  return result;
}

std::vector<std::vector<float>> TestPipeline::Logits(const std::vector<TokenId>& prompt) {
  std::vector<std::vector<float>> logits;
  const uint64_t id = next_sequence_++;
  for (size_t position = 0; position < prompt.size(); ++position) {
    v1::StepPlan plan;
    v1::ScheduledSequence* scheduled = plan.add_scheduled();
    if (position == 0) {
      v1::NewSequence* added = plan.add_new_sequences();
      added->set_sequence(id);
      added->add_tokens(prompt[0]);
      added->set_prompt_tokens(1);
      for (int32_t b = 0; b * options_.block_size < static_cast<int32_t>(prompt.size()); ++b) {
        scheduled->add_new_blocks(b);
      }
    } else {
      scheduled->add_new_tokens(prompt[position]);
    }
    scheduled->set_sequence(id);
    scheduled->set_first(static_cast<int32_t>(position));
    scheduled->set_count(1);
    scheduled->set_sample(true);
    scheduled->set_expected_tokens(static_cast<int32_t>(position) + 1);
    scheduled->set_expected_blocks((static_cast<int32_t>(prompt.size()) + options_.block_size - 1) /
                                   options_.block_size);
    RunStep(std::move(plan));
    logits.push_back(last_logits_);
  }
  finished_.push_back(id);
  return logits;
}

}  // namespace tutti::worker
