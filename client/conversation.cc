#include "client/conversation.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/format.h"
#include "program/suggestion.h"

namespace tutti::client {
namespace {

struct Row {
  const char* name;
  const char* argument;
  const char* help;
  ChatCommand command;
};
constexpr Row kCommands[] = {
    {"/help", "", "this list", ChatCommand::kHelp},
    {"/reset", "", "begin anew: all but the system message is forgotten", ChatCommand::kReset},
    {"/system", "TEXT", "begin anew with this system message; without a text, with none",
     ChatCommand::kSystem},
    {"/undo", "", "forget the last question and its answer", ChatCommand::kUndo},
    {"/retry", "", "ask the last question again", ChatCommand::kRetry},
    {"/stats", "", "show usage and timing after each answer, or no more", ChatCommand::kStats},
    {"/thoughts", "", "what the model thought before its last answer", ChatCommand::kThoughts},
    {"/exit", "", "leave, as Ctrl-D does", ChatCommand::kExit},
};

}  // namespace

Conversation::Conversation(std::string system, std::string template_kwargs)
    : system_(std::move(system)), template_kwargs_(std::move(template_kwargs)) {
  Reset();
}

void Conversation::Add(const char* role, const std::string& content) {
  v1::ChatMessage* const message = messages_.add_messages();
  message->set_role(role);
  message->set_content(content);
}

void Conversation::Ask(const std::string& question) { Add("user", question); }

void Conversation::Answer(const std::string& answer) {
  Add("assistant", answer);
  ++turns_;
}

void Conversation::TakeBack() { messages_.mutable_messages()->RemoveLast(); }

void Conversation::Reset() {
  messages_.Clear();
  messages_.set_template_kwargs_json(template_kwargs_);
  turns_ = 0;
  if (!system_.empty()) Add("system", system_);
}

void Conversation::SetSystem(std::string system) {
  system_ = std::move(system);
  Reset();
}

std::optional<std::string> Conversation::Undo() {
  if (turns_ == 0) return std::nullopt;
  --turns_;
  messages_.mutable_messages()->RemoveLast();
  std::string question = messages_.messages(messages_.messages_size() - 1).content();
  messages_.mutable_messages()->RemoveLast();
  return question;
}

ChatCommandLine ParseChatCommand(absl::string_view line) {
  const size_t space = line.find(' ');
  const std::string name(line.substr(0, space));
  const std::string text(
      space == absl::string_view::npos ? "" : absl::StripAsciiWhitespace(line.substr(space)));
  if (name == "/quit") return {ChatCommand::kExit, text};
  std::vector<std::string> names;
  for (const Row& row : kCommands) {
    names.emplace_back(row.name);
    if (name != row.name) continue;
    if (text.empty() || *row.argument != '\0') return {row.command, text};
    return {ChatCommand::kUnknown, absl::StrCat(name, " takes nothing behind it")};
  }
  const std::string meant = DidYouMean(name, names);
  return {ChatCommand::kUnknown,
          absl::StrCat("there is no command ", OneLine(name),
                       meant.empty() ? "; /help shows those there are" : meant)};
}

std::string ChatHelp() {
  std::string text;
  for (const Row& row : kCommands) {
    absl::StrAppendFormat(&text, "  %-13s %s\n",
                          absl::StrCat(row.name, *row.argument == '\0' ? "" : " ", row.argument),
                          row.help);
  }
  return absl::StrCat(text,
                      "A line that ends with \\ goes on in the next. Ctrl-C stops an answer, or "
                      "leaves.\nUp and Down bring back what was asked, Ctrl-R searches it.\n");
}

}  // namespace tutti::client
