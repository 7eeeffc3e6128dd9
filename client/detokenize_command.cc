// tutti detokenize: the text of ids.
#include <unistd.h>

#include <string>

#include "client/command.h"
#include "client/format.h"
#include "client/limits.h"
#include "client/print.h"
#include "client/terminal.h"

namespace tutti::client {
namespace {

constexpr const char* kDetokenizeExamples = R"(
Examples:
  tutti detokenize --ids 15,16,28
  tutti tokenize --text "Hello" --ids | tutti detokenize
  tutti detokenize --ids 15,16,28 --special --json

Exit codes: 0 done, 1 failed, 2 bad input, 3 service not reachable or not serving, 4 timeout.)";

struct DetokenizeFlags {
  ServiceFlags service;
  std::string ids;
  bool special = false;
  bool json = false;
};

absl::StatusOr<v1::DetokenizeRequest> MakeRequest(const FlagSet& set,
                                                  const DetokenizeFlags& flags) {
  std::string text = flags.ids;
  if (!set.Given("--ids")) {
    if (IsTerminal(STDIN_FILENO)) {
      return absl::InvalidArgumentError("no ids: give --ids, or pipe them in");
    }
    TUTTI_ASSIGN_OR_RETURN(text, ReadText("-", kPromptFileBytesMax));
    while (!text.empty() && text.back() == '\n') text.pop_back();
  }
  const auto ids = ParseTokenIds(text);
  if (!ids.ok()) return Annotate(ids.status(), set.Given("--ids") ? "--ids" : "the input");
  v1::DetokenizeRequest request;
  request.mutable_ids()->Assign(ids->begin(), ids->end());
  request.set_skip_special_tokens(!flags.special);
  return request;
}

int RunDetokenize(const FlagSet& set, const DetokenizeFlags& flags) {
  const auto request = MakeRequest(set, flags);
  if (!request.ok()) return Fail(request.status());
  auto client = MakeClient(flags.service);
  if (!client.ok()) return Fail(client.status());
  const auto response =
      (*client)->Detokenize(*request, MakeCallOptions(flags.service, /*cancel=*/nullptr));
  if (!response.ok()) return Fail(response.status());
  const absl::Status written = PrintLine(flags.json ? ToJson(*response, false) : response->text());
  return written.ok() ? kExitOk : Fail(written);
}

}  // namespace

Command MakeDetokenizeCommand(FlagSet* program) {
  FlagSet* set = program->AddCommand("detokenize", "Show the text of tokens");
  auto flags = std::make_shared<DetokenizeFlags>();
  set->Add({
      {.names = "--ids", .variable = &flags->ids, .help = "The ids: 1,2,3; unset: standard input"},
      {.names = "--special",
       .variable = &flags->special,
       .help = "The spelling of special tokens, too"},
      {.names = "--json", .variable = &flags->json, .help = "The service's answer as JSON"},
  });
  AddServiceFlags(set, &flags->service);
  set->AddFooter(kDetokenizeExamples);
  return {set, [set, flags] { return RunDetokenize(*set, *flags); }};
}

}  // namespace tutti::client
