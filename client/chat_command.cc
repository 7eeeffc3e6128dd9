// tutti chat: a conversation at the terminal, or one message.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/command.h"
#include "client/limits.h"
#include "client/print.h"
#include "client/sampling_flags.h"
#include "client/terminal.h"

namespace tutti::client {
namespace {

constexpr const char* kExamples = R"(
Examples:
  tutti chat
  tutti chat --message "What is 12 + 30?" --temperature 0
  tutti chat --system "Answer in one word." --template-kwargs '{"enable_thinking": false}'

In a conversation: /reset forgets it, /exit (or Ctrl-D) leaves, Ctrl-C stops the answer.)";

struct ChatFlags {
  ServiceFlags service;
  AskerFlags asker;
  SamplingFlags sampling;
  std::string model;
  std::string system;
  std::string message;
  std::string template_kwargs;
  bool json = false;
  bool stats = false;
};

// The conversation so far, and the one call that may be in progress.
class Chat {
 public:
  Chat(const ChatFlags& flags, Client* client) : flags_(flags), client_(client) { Reset(); }

  void Reset() {
    messages_.Clear();
    messages_.set_template_kwargs_json(flags_.template_kwargs);
    if (!flags_.system.empty()) Add("system", flags_.system);
  }

  // Sends `text`, streams the answer to stdout and remembers both. A failed or interrupted turn is
  // forgotten.
  absl::Status Turn(const std::string& text) {
    Add("user", text);
    auto answer = Ask();
    if (!answer.ok()) {
      messages_.mutable_messages()->RemoveLast();
      return answer.status();
    }
    Add("assistant", *answer);
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
  void Add(const std::string& role, const std::string& content) {
    v1::ChatMessage* message = messages_.add_messages();
    message->set_role(role);
    message->set_content(content);
  }

  void SetCancel(CancelToken* token) {
    const MutexLock lock(&mutex_);
    cancel_ = token;
  }

  absl::StatusOr<std::string> Ask() {
    v1::GenerateRequest request;
    request.set_model(flags_.model);
    FillAsker(flags_.asker, &request);
    *request.mutable_chat() = messages_;
    TUTTI_RETURN_IF_ERROR(FillSampling(flags_.sampling, request.mutable_sampling()));
    CancelToken cancel;
    SetCancel(&cancel);
    std::string answer;
    TextPrinter printer;
    const auto finish = client_->Generate(
        request, MakeCallOptions(flags_.service, &cancel), [&](const v1::GenerateResponse& part) {
          answer += part.text();
          return flags_.json ? PrintLine(ToJson(part, false)) : printer.Print(part.text());
        });
    SetCancel(nullptr);
    if (!flags_.json) printer.End();
    if (!finish.ok()) return finish.status();
    if (flags_.stats) std::fprintf(stderr, "%s\n", DescribeFinish(finish->front()).c_str());
    return answer;
  }

  const ChatFlags& flags_;
  Client* const client_;
  v1::ChatMessages messages_;
  Mutex mutex_;
  CancelToken* cancel_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// Reads turns until the end of the input. Errors of one turn are told and the conversation goes on:
// the service may be back for the next.
int Converse(Chat* chat) {
  const bool terminal = IsTerminal(STDIN_FILENO);
  const Style style(STDOUT_FILENO);
  int code = kExitOk;
  std::string line;
  while (true) {
    if (terminal) std::cout << style.Bold("> ") << std::flush;
    if (!std::getline(std::cin, line)) break;
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (text == "/exit" || text == "/quit") break;
    if (text.empty()) continue;
    if (text == "/reset") {
      chat->Reset();
      continue;
    }
    if (text[0] == '/') {
      std::fprintf(stderr, "tutti: unknown command; there are /reset and /exit\n");
      continue;
    }
    const absl::Status status = chat->Turn(std::string(text));
    code = status.ok() ? kExitOk : Fail(status);
    if (!terminal && status.ok()) std::cout << std::endl;
  }
  if (terminal) std::cout << std::endl;
  return terminal ? kExitOk : code;
}

// The chat that a signal may interrupt; null before and after it.
struct RunningChat {
  Mutex mutex;
  Chat* chat ABSL_GUARDED_BY(mutex) = nullptr;
};

int RunChat(const FlagSet& set, const ChatFlags& flags) {
  v1::SamplingParams checked;
  if (auto status = FillSampling(flags.sampling, &checked); !status.ok()) return Fail(status);
  RunningChat running;
  InterruptWatcher interrupts([&running](int signal, int) {
    const MutexLock lock(&running.mutex);
    // Between answers there is nothing to stop but the program itself.
    if (signal != SIGINT || running.chat == nullptr || !running.chat->Interrupt()) {
      _exit(128 + signal);
    }
  });
  auto client = MakeClient(flags.service);
  if (!client.ok()) return Fail(client.status());
  Chat chat(flags, client->get());
  {
    const MutexLock lock(&running.mutex);
    running.chat = &chat;
  }
  int code = kExitOk;
  if (set.Given("--message")) {
    const absl::Status status = chat.Turn(flags.message);
    code = status.ok() ? kExitOk : Fail(status);
  } else {
    code = Converse(&chat);
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
  });
  AddAskerFlags(set, &flags->asker);
  AddGenerateServiceFlags(set, &flags->service);
  AddSamplingFlags(set, &flags->sampling);
  set->AddFooter(kExamples);
  return {set, [set, flags] { return RunChat(*set, *flags); }};
}

}  // namespace tutti::client
