// tutti lookup: who holds a prompt in its KV cache.
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

constexpr const char* kExamples = R"(
Examples:
  tutti lookup --message "What is 12 + 30?"
  tutti lookup --token-ids 1,2,3 --tenant acme --json
  cat prompt.txt | tutti lookup

Whole KV blocks are held, so a prompt shorter than one is nowhere. Asking changes nothing.
Exit codes: 0 done (also when nobody holds anything), 1 failed, 2 bad input, 3 not reachable.)";

struct LookupFlags {
  ServiceFlags service;
  std::string text;
  std::string message;
  std::string token_ids;
  std::string tenant;
  bool json = false;
};

absl::StatusOr<v1::LookupPrefixRequest> MakeRequest(const CLI::App& app, const LookupFlags& flags) {
  v1::LookupPrefixRequest request;
  request.set_tenant(flags.tenant);
  if (app.count("--message") > 0) {
    v1::ChatMessage* message = request.mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content(flags.message);
  } else if (app.count("--token-ids") > 0) {
    auto ids = ParseTokenIds(flags.token_ids);
    if (!ids.ok()) return Annotate(ids.status(), "--token-ids");
    request.mutable_token_ids()->mutable_ids()->Assign(ids->begin(), ids->end());
  } else if (app.count("--text") > 0) {
    request.set_text(flags.text);
  } else if (IsTerminal(STDIN_FILENO)) {
    return absl::InvalidArgumentError(
        "no prompt: give --text, --message or --token-ids, or pipe it in");
  } else {
    TUTTI_ASSIGN_OR_RETURN(std::string text, ReadText("-", kPromptBytesMax));
    request.set_text(std::move(text));
  }
  return request;
}

int RunLookup(const CLI::App& app, const LookupFlags& flags) {
  const auto request = MakeRequest(app, flags);
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

Command MakeLookupCommand(CLI::App* root) {
  CLI::App* app = root->add_subcommand("lookup", "Show who holds a prompt in its KV cache");
  auto flags = std::make_shared<LookupFlags>();
  CLI::Option* text =
      app->add_option("-t,--text", flags->text, "The prompt; unset: standard input");
  CLI::Option* message =
      app->add_option("-m,--message", flags->message, "A user's message, as the template puts it")
          ->excludes(text);
  app->add_option("--token-ids", flags->token_ids, "The prompt as token ids: 1,2,3")
      ->excludes(text)
      ->excludes(message);
  app->add_option("--tenant", flags->tenant, "In whose cache")->envname("TUTTI_TENANT");
  app->add_flag("--json", flags->json, "The service's answer as JSON");
  AddServiceFlags(app, &flags->service);
  app->footer(kExamples);
  return {app, [app, flags] { return RunLookup(*app, *flags); }};
}

}  // namespace tutti::client
