// Frequencies of rotary embedding, as the configuration defines them.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_config.h"

namespace tutti::model {

// The frequencies that a sequence whose prompt has `prompt_tokens` tokens turns its prompt with,
// and what follows too unless RopeVariantAt says otherwise. Cached keys are turned: a sequence may
// read only keys of its own variant. 1 unless the scaling is one of two:
//
//   kDynamicNtk  the factor that published Qwen code calls ntk_alpha: 1 up to the trained length, 3
//                up to twice that, 7 up to four times that, ...
//   kDynamic     the length of a prompt beyond the trained length
int64_t RopeVariant(const RopeConfig& rope, int64_t prompt_tokens);

// The variant with which the row at `position` turns. With kDynamic every token that follows the
// prompt, beyond the trained length, has the frequencies of a prompt that ends with it: what
// transformers computes when it generates one answer. It is a function of prompt and position
// alone, so a token computed anew is the same.
int64_t RopeVariantAt(const RopeConfig& rope, int64_t variant, int64_t position);

// Radians per position of each pair (i, i + head_dim / 2) of a head whose elements stand in
// RotaryOrder; 0 for pairs that do not turn.   [head_dim / 2]
//
// Steps are rounded to f32 where the models' reference implementations compute in f32: theta ^
// (-2 i / rotary_dim), then the scaling. REQUIRES: `variant` from RopeVariant
std::vector<float> RopeFrequencies(const RopeConfig& rope, int64_t head_dim, int64_t variant = 1);

// Elements of a head: first, first + step, ..., `count` of them.
struct HeadSlice {
  int64_t first = 0;
  int64_t count = 0;
  int64_t step = 1;
  bool operator==(const HeadSlice&) const = default;
};

// The order in which query and key heads are held, so that every family's pairs become
// (i, i + head_dim / 2) of the whole head: elements that turn stand first in each half, the others
// behind. A score is a sum over the head, so the same order in queries and keys changes nothing
// but that order. One slice when the elements stand so already.
std::vector<HeadSlice> RotaryOrder(const RopeConfig& rope, int64_t head_dim);

// The factor of queries at `position`: 1 up to the trained length, then the logarithm of
// the number of keys they see, to the base of that length (Qwen 1's "logn attention").
float LognScale(int64_t logn_length, int64_t position);

}  // namespace tutti::model
