// The messages of a conversation, and the commands that a person may type between them.
//
// Thread: one.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::client {

class Conversation {
 public:
  // `system`: the system message; "": none. `template_kwargs`: as in v1::ChatMessages.
  Conversation(std::string system, std::string template_kwargs);

  const v1::ChatMessages& messages() const { return messages_; }
  // Questions that have been answered.
  int turns() const { return turns_; }

  // A question waits for its answer until one of Answer and TakeBack.
  void Ask(const std::string& question);
  void Answer(const std::string& answer);
  void TakeBack();

  // Forgets all but the system message.
  void Reset();
  // Begins anew with another system message; "": with none.
  void SetSystem(std::string system);
  // Forgets the last question and its answer; returns the question, or nothing if there is none.
  std::optional<std::string> Undo();

 private:
  void Add(const char* role, const std::string& content);

  std::string system_;
  const std::string template_kwargs_;
  v1::ChatMessages messages_;
  int turns_ = 0;
};

// A line that begins with "/".
enum class ChatCommand {
  kHelp,
  kReset,
  kSystem,
  kUndo,
  kRetry,
  kStats,
  kThoughts,
  kExit,
  kUnknown,
};
struct ChatCommandLine {
  ChatCommand command = ChatCommand::kUnknown;
  std::string text;  // what follows; of kUnknown: what to tell the person
};
ChatCommandLine ParseChatCommand(absl::string_view line);

// The text that /help prints.
std::string ChatHelp();

}  // namespace tutti::client
