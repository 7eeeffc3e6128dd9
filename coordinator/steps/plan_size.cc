#include "coordinator/steps/plan_size.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>

namespace tutti::coordinator {

int32_t TokenBytes(int64_t vocab_size) {
  return static_cast<int32_t>(
      google::protobuf::io::CodedOutputStream::VarintSize64(static_cast<uint64_t>(vocab_size - 1)));
}

int64_t NewSequenceBytes(const PlanSizeOptions& options, int64_t tokens,
                         const v1::SequenceSampling& sampling) {
  const int64_t blocks = (tokens + options.block_size - 1) / options.block_size;
  return kNewSequenceBytes + tokens * options.token_bytes +
         static_cast<int64_t>(sampling.ByteSizeLong()) + kScheduledSequenceBytes +
         blocks * kVarint32BytesMax;
}

namespace {

int64_t ScheduledMax(const PlanSizeOptions& options) {
  return std::min({options.max_batch_tokens, options.max_sequences, kStepSequencesMax});
}

}  // namespace

int64_t PlanBytesForNew(const PlanSizeOptions& options) {
  return options.bytes_max - kPlanEnvelopeBytes - ScheduledMax(options) * kScheduledSequenceBytes -
         int64_t{options.max_sequences} * kVarint64BytesMax;
}

// Each of them may need a block.
int64_t GuessBytes(const PlanSizeOptions& options, int64_t tokens) {
  return kGuessListBytes + tokens * (options.token_bytes + kVarint32BytesMax);
}

int32_t GuessesInPlan(const PlanSizeOptions& options) {
  const int64_t each = PlanBytesForNew(options) / std::max<int64_t>(1, ScheduledMax(options));
  const int64_t of_one = 2 * (options.token_bytes + kVarint32BytesMax);
  return static_cast<int32_t>(
      std::clamp<int64_t>((each - 2 * kGuessListBytes) / of_one, 0, kGuessesMax));
}

int64_t NewSequenceFields(const v1::SequenceSampling& sampling) {
  return kNewSequenceFields + sampling.banned_size() * kBannedFields +
         (sampling.has_grammar() ? kGrammarFields : 0);
}

int64_t PlanFieldsForNew(const PlanSizeOptions& options) {
  return options.fields_max - kPlanEnvelopeFields -
         ScheduledMax(options) * kScheduledSequenceFields;
}

}  // namespace tutti::coordinator
