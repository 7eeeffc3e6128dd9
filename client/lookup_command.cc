// tutti lookup: the workers that hold a prompt in their KV cache.
#include <unistd.h>

#include <utility>

#include "client/command.h"
#include "client/format.h"
#include "client/limits.h"
#include "client/print.h"
#include "client/status_view.h"
#include "client/terminal.h"

namespace tutti::client {
namespace {

constexpr const char* kLookupExamples = R"(
Examples:
  tutti lookup --message "What is 12 + 30?"
  tutti lookup --token-ids 1,2,3 --tenant acme --json
  cat prompt.txt | tutti lookup

Whole KV blocks are cached, so a prompt shorter than one block is never found. The cache is not
changed.
Exit codes: 0 done (also when no worker holds it), 1 failed, 2 bad input, 3 not reachable.)";

struct LookupFlags {
  ServiceFlags service;
  std::string text;
  std::string message;
  std::string token_ids;
  std::string tenant;
  bool json = false;
};

absl::StatusOr<v1::LookupPrefixRequest> MakeRequest(const FlagSet& set, const LookupFlags& flags) {
  v1::LookupPrefixRequest request;
  request.set_tenant(flags.tenant);
  if (set.Given("--message")) {
    v1::ChatMessage* message = request.mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content(flags.message);
  } else if (set.Given("--token-ids")) {
    auto ids = ParseTokenIds(flags.token_ids);
    if (!ids.ok()) return Annotate(ids.status(), "--token-ids");
    request.mutable_token_ids()->mutable_ids()->Assign(ids->begin(), ids->end());
  } else if (set.Given("--text")) {
    request.set_text(flags.text);
  } else if (IsTerminal(STDIN_FILENO)) {
    return absl::InvalidArgumentError(
        "no prompt: give --text, --message or --token-ids, or pipe it in");
  } else {
    TUTTI_ASSIGN_OR_RETURN(std::string text, ReadText("-", kPromptFileBytesMax));
    request.set_text(std::move(text));
  }
  return request;
}

int RunLookup(const FlagSet& set, const LookupFlags& flags) {
  const auto request = MakeRequest(set, flags);
  if (!request.ok()) return Fail(request.status());
  auto client = MakeClient(flags.service);
  if (!client.ok()) return Fail(client.status());
  const auto response =
      (*client)->LookupPrefix(*request, MakeCallOptions(flags.service, /*cancel=*/nullptr));
  if (!response.ok()) return Fail(response.status());
  std::string out = flags.json ? ToJson(*response, /*indented=*/true) : RenderHoldings(*response);
  while (!out.empty() && out.back() == '\n') out.pop_back();
  const absl::Status written = PrintLine(out);
  return written.ok() ? kExitOk : Fail(written);
}

}  // namespace

Command MakeLookupCommand(FlagSet* program) {
  FlagSet* set =
      program->AddCommand("lookup", "Show which workers hold a prompt in their KV cache");
  auto flags = std::make_shared<LookupFlags>();
  set->Add({
      {.names = "-t,--text", .variable = &flags->text, .help = "The prompt; unset: standard input"},
      {.names = "-m,--message",
       .variable = &flags->message,
       .help = "A user's message, as the template puts it",
       .excludes = {"--text"}},
      {.names = "--token-ids",
       .variable = &flags->token_ids,
       .help = "The prompt as token ids: 1,2,3",
       .excludes = {"--text", "--message"}},
      {.names = "--tenant",
       .variable = &flags->tenant,
       .help = "The tenant whose cache is searched"},
      {.names = "--json", .variable = &flags->json, .help = "The service's answer as JSON"},
  });
  AddOperatorFlags(set, &flags->service);
  set->AddFooter(kLookupExamples);
  return {set, [set, flags] { return RunLookup(*set, *flags); }};
}

}  // namespace tutti::client
