// tutti tokenize: the ids the service would see.
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "client/command.h"
#include "client/format.h"
#include "client/limits.h"
#include "client/print.h"
#include "client/terminal.h"

namespace tutti::client {
namespace {

constexpr const char* kTokenizeExamples = R"(
Examples:
  tutti tokenize --text "Hello, world"
  tutti tokenize --message "Hello" --json
  cat essay.txt | tutti tokenize --ids

Exit codes: 0 done, 1 failed, 2 bad input, 3 service not reachable or not serving, 4 timeout.)";

struct TokenizeFlags {
  ServiceFlags service;
  std::string text;
  std::string message;
  TextReadingFlags text_reading;
  bool json = false;
  bool ids_only = false;
};

absl::StatusOr<v1::TokenizeRequest> MakeRequest(const FlagSet& set, const TokenizeFlags& flags) {
  v1::TokenizeRequest request;
  FillTextReading(flags.text_reading, &request);
  if (set.Given("--message")) {
    v1::ChatMessage* message = request.mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content(flags.message);
  } else if (set.Given("--text")) {
    request.set_text(flags.text);
  } else if (IsTerminal(STDIN_FILENO)) {
    return absl::InvalidArgumentError("no text: give --text or --message, or pipe it in");
  } else {
    TUTTI_ASSIGN_OR_RETURN(std::string text, ReadText("-", kPromptFileBytesMax));
    request.set_text(std::move(text));
  }
  return request;
}

int RunTokenize(const FlagSet& set, const TokenizeFlags& flags) {
  const auto request = MakeRequest(set, flags);
  if (!request.ok()) return Fail(request.status());
  auto client = MakeClient(flags.service);
  if (!client.ok()) return Fail(client.status());
  const auto response =
      (*client)->Tokenize(*request, MakeCallOptions(flags.service, /*cancel=*/nullptr));
  if (!response.ok()) return Fail(response.status());
  std::string out;
  if (flags.json) {
    out = ToJson(*response, false);
  } else if (flags.ids_only) {
    for (int32_t id : response->ids()) absl::StrAppend(&out, out.empty() ? "" : ",", id);
  } else {
    Table table({{"id"}, {"token", Table::Align::kLeft}});
    for (int i = 0; i < response->ids_size(); ++i) {
      const std::string token = i < response->tokens_size() ? response->tokens(i) : "";
      table.AddRow({absl::StrCat(response->ids(i)), absl::StrCat("\"", OneLine(token), "\"")});
    }
    out = absl::StrCat(table.ToString(), FormatCount(response->ids_size()), " tokens");
  }
  const absl::Status written = PrintLine(out);
  return written.ok() ? kExitOk : Fail(written);
}

}  // namespace

Command MakeTokenizeCommand(FlagSet* program) {
  FlagSet* set = program->AddCommand("tokenize", "Show the tokens of a text");
  auto flags = std::make_shared<TokenizeFlags>();
  set->Add({
      {.names = "-t,--text", .variable = &flags->text, .help = "The text; unset: standard input"},
      {.names = "-m,--message",
       .variable = &flags->message,
       .help = "A user's message, as the chat template puts it",
       .excludes = {"--text"}},
      {.names = "--json", .variable = &flags->json, .help = "The service's answer as JSON"},
      {.names = "--ids",
       .variable = &flags->ids_only,
       .help = "Ids only, as --token-ids of generate takes them",
       .excludes = {"--json"}},
  });
  AddTextReadingFlags(set, &flags->text_reading);
  AddServiceFlags(set, &flags->service);
  set->AddFooter(kTokenizeExamples);
  return {set, [set, flags] { return RunTokenize(*set, *flags); }};
}

}  // namespace tutti::client
