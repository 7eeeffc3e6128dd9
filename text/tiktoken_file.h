// qwen.tiktoken: the vocabulary of the original Qwen, in the file format of tiktoken.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "text/tokenizer_spec.h"

namespace tutti::text {

// One token a line: its bytes in base64, a space, its rank, which is its id; in order of rank. The
// special tokens are not in the file. They follow the ordinary ones, as Qwen's tokenization_qwen.py
// numbers them: <|endoftext|>, <|im_start|>, <|im_end|>, <|extra_0|> to <|extra_204|>.
//
// Errors: InvalidArgument "qwen.tiktoken:LINE: ...".
absl::StatusOr<TokenizerSpec> ParseQwenTiktoken(std::string_view text);

}  // namespace tutti::text
