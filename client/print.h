// Generated text and its figures on the terminal.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "client/chat_screen.h"
#include "client/client.h"
#include "client/format.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::client {

// Writes a stream of text to stdout as it comes. On a terminal, control sequences are removed;
// into a file or a pipe the text goes as it is.
class TextPrinter {
 public:
  TextPrinter();
  // Of an answer: on a terminal as ChatScreen has it.
  explicit TextPrinter(const ChatScreen::Options& options);
  // Not OK (CANCELLED) when stdout no longer takes anything, as in `tutti generate | head`.
  absl::Status Print(const std::string& text);
  // Ends the last line on a terminal.
  void End();
  // Of an answer, on a terminal: what stands in it before what is meant for the reader.
  std::string thoughts() const { return screen_.has_value() ? screen_->thoughts() : ""; }

 private:
  const bool terminal_;
  bool at_line_start_ = true;
  TerminalFilter filter_;
  std::optional<ChatScreen> screen_;
};

// "12 prompt tokens, 64 output tokens in 3.1 s (20.7 tokens/s); first token after 120 ms, ...".
std::string DescribeFinish(const v1::Finish& finish);

// Writes `line` and '\n' to stdout. CANCELLED when stdout no longer takes anything.
absl::Status PrintLine(const std::string& line);

}  // namespace tutti::client
