// The text of one output: its tokens through the detokenizer and the stop strings. A function of
// the tokens alone, so that it can be made again from them.
//
// Thread: one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/service/output_options.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace tutti::coordinator {

class OutputText {
 public:
  // REQUIRES: `tokenizer` outlives this
  OutputText(const text::Tokenizer* tokenizer, const OutputOptions& options)
      : detokenizer_(tokenizer, options.skip_special_tokens),
        stop_matcher_(options.stop_matcher),
        stop_token_ids_(options.stop_token_ids),
        include_stop_(options.include_stop),
        tokens_without_stop_(options.min_tokens) {}

  // The text that is certain with this token.
  std::string Push(TokenId token) {
    ++tokens_;
    if (is_stop_token(token) && !include_stop_) return "";
    return Match(detokenizer_.Push(token));
  }
  // The end of the tokens: the text held back. May find a stop string in it.
  std::string Finish() {
    if (stopped()) return "";
    std::string text = Match(detokenizer_.Finish());
    if (!stopped() && stop_matcher_) text += stop_matcher_->Finish();
    return text;
  }

  // The text is complete: tokens after it are not shown.
  bool stopped() const { return stop_ >= 0; }
  int stop() const { return stop_; }  // index of the stop string found; -1: none
  bool is_stop_token(TokenId token) const {
    return std::binary_search(stop_token_ids_.begin(), stop_token_ids_.end(), token);
  }

 private:
  // Text that is certain not to begin a stop string.
  std::string Match(std::string text) {
    if (!stop_matcher_) return text;
    text::StopMatcher::Result result = stop_matcher_->Push(text, tokens_ > tokens_without_stop_);
    stop_ = result.stop;
    return std::move(result.text);
  }

  text::Detokenizer detokenizer_;
  std::optional<text::StopMatcher> stop_matcher_;
  std::vector<TokenId> stop_token_ids_;
  bool include_stop_;
  int64_t tokens_without_stop_;
  int64_t tokens_ = 0;
  int stop_ = -1;
};

}  // namespace tutti::coordinator
