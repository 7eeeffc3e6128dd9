// The size of a step's plan, before it is written: every plan has to pass through a link
// (transport/limits.h), whatever the prompts that begin in it.
//
// Bounds from above, field by field as the wire encodes them, of bytes and of the number of fields.
// All the plan's parts are bounded:
//
//   finished         a name for each sequence that the workers may know: max_sequences
//   scheduled        at most kStepSequencesMax; a sequence that has run before gets one block and
//                    one token at most, because it got the blocks of all its tokens when it began;
//                    with guesses as many tokens and blocks more, now and when they were right,
//                    for which GuessesInPlan leaves room
//   new_sequences    as many as fit into the rest, which has room for any one: a sequence for which
//                    it has not is refused at the door
//
// Thread: any.
#pragma once

#include <cstdint>

#include "coordinator/limits.h"
#include "coordinator/request.h"

namespace tutti::coordinator {

// Fields of a plan and its frame beside the lists; of a ScheduledSequence, with its own tag; of a
// NewSequence, with all of its sampling but `banned` and a grammar; of an entry of the former, and
// of the latter with its own tag.
inline constexpr int64_t kPlanEnvelopeFields = 64;
inline constexpr int64_t kScheduledSequenceFields = 10;
inline constexpr int64_t kNewSequenceFields = 21;
inline constexpr int64_t kBannedFields = 2;
inline constexpr int64_t kGrammarFields = 7;
// Entries of `banned` for which there is room in any plan, beside as many sequences as it may have.
inline constexpr int64_t kBannedMax =
    (transport::kFrameFieldsMax - kPlanEnvelopeFields -
     kStepSequencesMax * kScheduledSequenceFields - kNewSequenceFields - kGrammarFields) /
    kBannedFields;

struct PlanSizeOptions {
  int64_t bytes_max = kPlanBytesMax;  // of a plan; less in tests only
  int64_t fields_max = transport::kFrameFieldsMax;
  int32_t block_size = 16;
  int32_t max_batch_tokens = 512;
  int32_t max_sequences = 256;
  // The bytes of a token on the wire.
  int32_t token_bytes = kVarint32BytesMax;
};

// Bytes of a token id on the wire, at most.  REQUIRES: vocab_size > 0
int32_t TokenBytes(int64_t vocab_size);

// Bytes that a sequence of so many tokens takes in the plan in which it begins, at most.
int64_t NewSequenceBytes(const PlanSizeOptions& options, int64_t tokens,
                         const v1::SequenceSampling& sampling);
// Bytes of a plan that are there for sequences that begin in it.
int64_t PlanBytesForNew(const PlanSizeOptions& options);

// Guesses that each sequence of a plan may have, however many sequences there are: they, and those
// of earlier plans that were right, have room beside what all plans have.
int32_t GuessesInPlan(const PlanSizeOptions& options);
// Bytes of so many more guesses, or tokens that were guessed, of a sequence in one plan.
int64_t GuessBytes(const PlanSizeOptions& options, int64_t tokens);

// The same in fields; for any one sequence there is room.
int64_t NewSequenceFields(const v1::SequenceSampling& sampling);
int64_t PlanFieldsForNew(const PlanSizeOptions& options);

}  // namespace tutti::coordinator
