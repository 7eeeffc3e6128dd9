// tokenizer.model: a sentencepiece model of byte pairs, as Llama 2 and ChatGLM3 come with.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "text/tokenizer_spec.h"

namespace tutti::text {

// The pieces of a ModelProto (sentencepiece_model.proto). Its unknown and control pieces become
// special tokens, user defined ones added tokens that any text may spell.
//
// Errors: InvalidArgument naming the field: not a model, not byte pairs
// ("trainer_spec.model_type"), without byte fallback, or something else that would change ids and
// is not known here.
absl::StatusOr<TokenizerSpec> ParseSentencepiece(std::string_view model);

}  // namespace tutti::text
