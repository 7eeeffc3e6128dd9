#include "client/print.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/terminal.h"

namespace tutti::client {
namespace {

absl::Status Write(const std::string& bytes) {
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() &&
                       std::fflush(stdout) == 0;
  return written ? absl::OkStatus() : absl::CancelledError("the reader of the output has left");
}

}  // namespace

TextPrinter::TextPrinter() : terminal_(IsTerminal(STDOUT_FILENO)) {}

TextPrinter::TextPrinter(const ChatScreen::Options& options) : TextPrinter() {
  if (terminal_) screen_.emplace(options);
}

absl::Status TextPrinter::Print(const std::string& text) {
  std::string shown = terminal_ ? filter_.Filter(text) : text;
  if (screen_.has_value()) shown = screen_->Add(shown);
  if (shown.empty()) return absl::OkStatus();
  at_line_start_ = shown.back() == '\n';
  return Write(shown);
}

void TextPrinter::End() {
  if (screen_.has_value()) {
    (void)Write(screen_->End());
    return;
  }
  if (terminal_ && !at_line_start_) (void)Write("\n");
  at_line_start_ = true;
}

absl::Status PrintLine(const std::string& line) { return Write(line + "\n"); }

std::string DescribeFinish(const v1::Finish& finish) {
  const v1::Usage& usage = finish.usage();
  const v1::Timing& timing = finish.timing();
  std::string out = absl::StrCat(FormatCount(usage.prompt_tokens()), " prompt tokens");
  if (usage.cached_prompt_tokens() > 0) {
    absl::StrAppend(&out, " (", FormatCount(usage.cached_prompt_tokens()), " cached)");
  }
  absl::StrAppend(&out, ", ", FormatCount(usage.completion_tokens()), " output tokens in ",
                  FormatSeconds(timing.total_ms() / 1e3));
  // The first token's time is the prompt's; the rate is of those after it.
  const double decode_s = (timing.total_ms() - timing.first_token_ms()) / 1e3;
  if (usage.completion_tokens() > 1 && decode_s > 0) {
    absl::StrAppendFormat(&out, " (%.1f tokens/s)", (usage.completion_tokens() - 1) / decode_s);
  }
  if (usage.guessed_tokens() > 0) {
    absl::StrAppend(&out, ", ", FormatCount(usage.accepted_tokens()), " of ",
                    FormatCount(usage.guessed_tokens()), " guesses right");
  }
  absl::StrAppend(&out, "; queued ", FormatSeconds(timing.queue_ms() / 1e3), ", first token after ",
                  FormatSeconds(timing.first_token_ms() / 1e3));
  const char* reason = finish.reason() == v1::FINISH_REASON_STOP     ? "stop"
                       : finish.reason() == v1::FINISH_REASON_LENGTH ? "length"
                                                                     : "unspecified";
  absl::StrAppend(&out, "; finish: ", reason);
  if (!finish.stop().empty()) absl::StrAppend(&out, " \"", OneLine(finish.stop()), "\"");
  absl::StrAppend(&out, "; seed ", finish.seed());
  return out;
}

}  // namespace tutti::client
