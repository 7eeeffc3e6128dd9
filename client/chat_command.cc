// tutti chat: a conversation at the terminal, or one message.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/chat_screen.h"
#include "client/command.h"
#include "client/conversation.h"
#include "client/format.h"
#include "client/limits.h"
#include "client/line_reader.h"
#include "client/print.h"
#include "client/sampling_flags.h"
#include "client/terminal.h"

namespace tutti::client {
namespace {

constexpr const char* kChatExamples = R"(
Examples:
  tutti chat
  tutti chat --message "What is 12 + 30?" --temperature 0
  tutti chat --system "Answer in one word." --template-kwargs '{"enable_thinking": false}'

In a conversation /help shows the commands; Ctrl-C stops the answer, Ctrl-D leaves. What was typed
is kept in --history, for this user alone.
Exit codes: 0 done, 1 failed, 2 bad input, 3 service not reachable or not serving, 4 timeout,
130 interrupted.)";

struct ChatFlags {
  ServiceFlags service;
  AskerFlags asker;
  SamplingFlags sampling;
  std::string model;
  std::string system;
  std::string message;
  std::string template_kwargs;
  std::string history;
  bool json = false;
  bool stats = false;
  bool show_thoughts = false;
};

// Asks the service; one call may be in progress.
class TerminalChat {
 public:
  TerminalChat(const ChatFlags& flags, Client* client)
      : flags_(flags),
        client_(client),
        stats_(flags.stats),
        conversation_(flags.system, flags.template_kwargs) {}

  Conversation& conversation() { return conversation_; }
  bool ToggleStats() { return stats_ = !stats_; }
  // Before the last answer; "" where it had none, or they were shown.
  const std::string& thoughts() const { return thoughts_; }

  // Sends `text`, streams the answer to stdout and remembers both. A failed or interrupted turn is
  // forgotten.
  absl::Status Turn(const std::string& text) {
    conversation_.Ask(text);
    auto answer = Ask();
    if (!answer.ok()) {
      conversation_.TakeBack();
      return answer.status();
    }
    conversation_.Answer(*answer);
    return absl::OkStatus();
  }

  // Thread: any. False: no answer is in progress.
  bool Interrupt() {
    const MutexLock lock(&mutex_);
    if (cancel_ == nullptr) return false;
    cancel_->Cancel();
    return true;
  }

 private:
  void SetCancel(CancelToken* token) {
    const MutexLock lock(&mutex_);
    cancel_ = token;
  }

  absl::StatusOr<std::string> Ask() {
    v1::GenerateRequest request;
    request.set_model(flags_.model);
    FillAsker(flags_.asker, &request);
    *request.mutable_chat() = conversation_.messages();
    TUTTI_RETURN_IF_ERROR(FillSampling(flags_.sampling, request.mutable_sampling()));
    CancelToken cancel;
    SetCancel(&cancel);
    std::string answer;
    TextPrinter printer(ScreenOptions());
    const auto finish = client_->Generate(
        request, MakeCallOptions(flags_.service, &cancel), [&](const v1::GenerateResponse& part) {
          answer += part.text();
          return flags_.json ? PrintLine(ToJson(part, false)) : printer.Print(part.text());
        });
    SetCancel(nullptr);
    if (!flags_.json) printer.End();
    thoughts_ = printer.thoughts();
    if (!finish.ok()) return finish.status();
    if (stats_) std::fprintf(stderr, "%s\n", DescribeFinish(finish->front()).c_str());
    return answer;
  }

  // Of the terminal, if it is one, as it is now.
  ChatScreen::Options ScreenOptions() {
    const bool folds = IsTerminal(STDOUT_FILENO) && !flags_.json && !flags_.show_thoughts;
    if (folds && !begins_thinking_.has_value()) {
      const auto model = client_->GetModel(MakeCallOptions(flags_.service, /*cancel=*/nullptr));
      begins_thinking_ = model.ok() && BeginsWithThoughts(model->chat_template());
    }
    return {.columns = TerminalColumns(STDOUT_FILENO),
            .begins_thinking = folds && *begins_thinking_,
            .unfolded = !folds};
  }

  const ChatFlags& flags_;
  Client* const client_;
  bool stats_;
  std::string thoughts_;
  std::optional<bool> begins_thinking_;  // known once a terminal has asked for it
  Conversation conversation_;
  Mutex mutex_;
  CancelToken* cancel_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// The typed lines, until the end of the input. Errors of one turn are told and the conversation
// goes on: the service may be back for the next.
class Dialogue {
 public:
  Dialogue(TerminalChat* chat, LineReader* reader) : chat_(chat), reader_(reader) {}

  int Run() {
    while (const std::optional<std::string> line = ReadTurn()) {
      const absl::string_view text = absl::StripAsciiWhitespace(*line);
      if (text.empty()) continue;
      if (text[0] != '/') {
        Ask(std::string(text));
      } else if (!Obey(ParseChatCommand(text))) {
        break;
      }
    }
    if (terminal_) std::cout << std::endl;
    return terminal_ ? kExitOk : code_;
  }

 private:
  // A line that ends with a backslash goes on in the next.
  std::optional<std::string> ReadTurn() {
    std::string turn;
    for (const char* prompt = "> ";; prompt = ". ") {
      std::optional<std::string> line = reader_->Read(prompt);
      if (!line.has_value()) return turn.empty() ? std::nullopt : std::optional(turn);
      turn += *line;
      if (turn.empty() || turn.back() != '\\') return turn;
      turn.back() = '\n';
    }
  }

  void Ask(const std::string& text) {
    const absl::Status status = chat_->Turn(text);
    code_ = status.ok() ? kExitOk : Fail(status);
    if (!terminal_ && status.ok()) std::cout << std::endl;
  }

  // False: the person leaves.
  bool Obey(const ChatCommandLine& line) {
    Conversation& conversation = chat_->conversation();
    switch (line.command) {
      case ChatCommand::kHelp:
        std::cout << ChatHelp() << std::flush;
        return true;
      case ChatCommand::kReset:
        conversation.Reset();
        return true;
      case ChatCommand::kSystem:
        conversation.SetSystem(line.text);
        return true;
      case ChatCommand::kUndo:
        if (!conversation.Undo().has_value()) Say("there is nothing to forget");
        return true;
      case ChatCommand::kRetry:
        if (const auto question = conversation.Undo()) {
          Ask(*question);
        } else {
          Say("nothing has been answered yet");
        }
        return true;
      case ChatCommand::kStats:
        Say(chat_->ToggleStats() ? "usage and timing follow each answer"
                                 : "no usage and timing any more");
        return true;
      case ChatCommand::kThoughts:
        ShowThoughts();
        return true;
      case ChatCommand::kExit:
        return false;
      case ChatCommand::kUnknown:
        Say(line.text);
        return true;
    }
    return true;
  }

  void ShowThoughts() const {
    if (chat_->thoughts().empty()) return Say("nothing was thought, or it was shown");
    TextPrinter printer(
        {.columns = TerminalColumns(STDOUT_FILENO), .begins_thinking = false, .unfolded = true});
    (void)printer.Print(chat_->thoughts());
    printer.End();
  }

  static void Say(const std::string& text) { std::fprintf(stderr, "tutti: %s\n", text.c_str()); }

  TerminalChat* const chat_;
  LineReader* const reader_;
  const bool terminal_ = IsTerminal(STDIN_FILENO);
  int code_ = kExitOk;
};

// The chat that a signal may interrupt; null before and after it.
struct RunningChat {
  Mutex mutex;
  TerminalChat* chat ABSL_GUARDED_BY(mutex) = nullptr;
  LineReader* reader ABSL_GUARDED_BY(mutex) = nullptr;
};

// The service that answers, for a person. An error: nobody does, and nothing should be typed.
absl::Status Greet(Client* client, const ChatFlags& flags) {
  TUTTI_ASSIGN_OR_RETURN(const v1::GetModelResponse model,
                         client->GetModel(MakeCallOptions(flags.service, /*cancel=*/nullptr)));
  const Style style(STDOUT_FILENO);
  std::cout << "This is " << style.Bold(OneLine(model.name())) << ", with a context of "
            << FormatCount(model.context_length())
            << " tokens. /help shows the commands, Ctrl-D leaves." << std::endl;
  return absl::OkStatus();
}

int Converse(const ChatFlags& flags, Client* client, TerminalChat* chat, RunningChat* running) {
  if (IsTerminal(STDIN_FILENO) && !flags.json) {
    if (const absl::Status greeted = Greet(client, flags); !greeted.ok()) return Fail(greeted);
  }
  std::string warning;
  const std::string history = flags.history == "off"  ? ""
                              : flags.history.empty() ? UsualHistoryFile()
                                                      : flags.history;
  const auto reader = LineReader::OfStandardInput(history, &warning);
  if (!warning.empty()) std::fprintf(stderr, "tutti: %s\n", warning.c_str());
  {
    const MutexLock lock(&running->mutex);
    running->reader = reader.get();
  }
  const int code = Dialogue(chat, reader.get()).Run();
  const MutexLock lock(&running->mutex);
  running->reader = nullptr;
  return code;
}

int RunChat(const FlagSet& set, const ChatFlags& flags) {
  v1::SamplingParams checked;
  if (auto status = FillSampling(flags.sampling, &checked); !status.ok()) return Fail(status);
  RunningChat running;
  InterruptWatcher interrupts([&running](int signal, int) {
    const MutexLock lock(&running.mutex);
    // Between answers there is nothing to stop but the program itself.
    if (signal != SIGINT || running.chat == nullptr || !running.chat->Interrupt()) {
      if (running.reader != nullptr) running.reader->RestoreTerminal();
      _exit(128 + signal);
    }
  });
  auto client = MakeClient(flags.service);
  if (!client.ok()) return Fail(client.status());
  TerminalChat chat(flags, client->get());
  {
    const MutexLock lock(&running.mutex);
    running.chat = &chat;
  }
  int code = kExitOk;
  if (set.Given("--message")) {
    const absl::Status status = chat.Turn(flags.message);
    code = status.ok() ? kExitOk : Fail(status);
  } else {
    code = Converse(flags, client->get(), &chat, &running);
  }
  const MutexLock lock(&running.mutex);
  running.chat = nullptr;
  return code;
}

}  // namespace

Command MakeChatCommand(FlagSet* program) {
  FlagSet* set = program->AddCommand("chat", "Talk to the model");
  auto flags = std::make_shared<ChatFlags>();
  set->Add({
      {.names = "-m,--message",
       .variable = &flags->message,
       .help = "Send this one message and end"},
      {.names = "--system", .variable = &flags->system, .help = "The system message"},
      {.names = "--template-kwargs",
       .variable = &flags->template_kwargs,
       .help = "Variables for the chat template, as a JSON object"},
      {.names = "--model",
       .variable = &flags->model,
       .help = "Name the model must have; unset: whichever is served",
       .environment = "TUTTI_MODEL_NAME"},
      {.names = "--json",
       .variable = &flags->json,
       .help = "One JSON object per message of the stream"},
      {.names = "--stats",
       .variable = &flags->stats,
       .help = "Usage and timing on stderr after each answer"},
      {.names = "--show-thoughts",
       .variable = &flags->show_thoughts,
       .help = "On a terminal: show what the model thinks before it answers, not its length alone"},
      {.names = "--history",
       .variable = &flags->history,
       .help =
           "File of what was typed at the terminal, for Up and Ctrl-R; off: none is kept; unset: "
           "tutti/chat_history in $XDG_STATE_HOME or ~/.local/state"},
  });
  AddAskerFlags(set, &flags->asker);
  AddGenerateServiceFlags(set, &flags->service);
  AddSamplingFlags(set, &flags->sampling);
  set->AddFooter(kChatExamples);
  return {set, [set, flags] { return RunChat(*set, *flags); }};
}

}  // namespace tutti::client
