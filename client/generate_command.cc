// tutti generate: one prompt, one streamed answer.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/command.h"
#include "client/format.h"
#include "client/grammar_flags.h"
#include "client/limits.h"
#include "client/print.h"
#include "client/sampling_flags.h"
#include "client/terminal.h"

namespace tutti::client {
namespace {

constexpr const char* kGenerateExamples = R"(
Examples:
  tutti generate --prompt "The capital of France is" --max-tokens 16
  tutti generate --prompt-file essay.txt --temperature 0 --stats
  echo "The capital of France is" | tutti generate --json --logprobs
  tutti generate --token-ids 1,2,3 --seed 7 --temperature 0.8
  tutti generate --prompt "Once upon a time" --outputs 3
  tutti generate --prompt "A city, as JSON: " --json-schema city.json
  tutti generate --prompt "Is 17 prime? " --choice yes --choice no

Without --prompt, --prompt-file and --token-ids the prompt is read from standard input.
A prompt may be one that a chat template has rendered: special tokens in it are read as such.
Several outputs are printed one after the other, each below a line that names its seed.
--json prints one JSON object per message of the stream (tutti.v1.GenerateResponse).
Exit codes: 0 done, 1 failed, 2 bad input, 3 service not reachable or not serving, 4 timeout,
130 interrupted.)";

struct GenerateFlags {
  ServiceFlags service;
  SamplingFlags sampling;
  std::string speculation;
  GrammarFlags grammar;
  std::string model;
  std::string request_id;
  std::string prompt;
  std::string prompt_file;
  std::string token_ids;
  TextReadingFlags text_reading;
  AskerFlags asker;
  uint32_t outputs = 1;
  bool json = false;
  bool stats = false;
};

absl::Status FillPrompt(const FlagSet& set, const GenerateFlags& flags,
                        v1::GenerateRequest* request) {
  if (set.Given("--token-ids")) {
    auto ids = ParseTokenIds(flags.token_ids);
    if (!ids.ok()) return Annotate(ids.status(), "--token-ids");
    request->mutable_token_ids()->mutable_ids()->Assign(ids->begin(), ids->end());
    return absl::OkStatus();
  }
  if (set.Given("--prompt")) {
    request->set_text(flags.prompt);
    return absl::OkStatus();
  }
  const bool from_file = set.Given("--prompt-file");
  if (!from_file && IsTerminal(STDIN_FILENO)) {
    return absl::InvalidArgumentError(
        "no prompt: give --prompt TEXT, --prompt-file FILE or --token-ids IDS, or pipe it in");
  }
  TUTTI_ASSIGN_OR_RETURN(std::string text,
                         ReadText(from_file ? flags.prompt_file : "-", kPromptFileBytesMax));
  request->set_text(std::move(text));
  return absl::OkStatus();
}

absl::Status PrintOutputs(std::map<uint32_t, std::string>* texts,
                          const std::vector<v1::Finish>& finishes, TextPrinter* printer) {
  for (uint32_t i = 0; i < finishes.size(); ++i) {
    const std::string& output = (*texts)[i];
    TUTTI_RETURN_IF_ERROR(printer->Print(
        absl::StrCat(i > 0 ? "\n" : "", "--- output ", i, ", seed ", finishes[i].seed(), "\n")));
    TUTTI_RETURN_IF_ERROR(printer->Print(output));
    if (output.empty() || output.back() != '\n') TUTTI_RETURN_IF_ERROR(printer->Print("\n"));
  }
  return absl::OkStatus();
}

// Of a word that the flag takes.
v1::Speculation::Mode SpeculationMode(std::string_view word) {
  if (word == "off") return v1::Speculation::MODE_OFF;
  return word == "draft" ? v1::Speculation::MODE_DRAFT : v1::Speculation::MODE_LOOKUP;
}

int RunGenerate(const FlagSet& set, const GenerateFlags& flags) {
  v1::GenerateRequest request;
  request.set_model(flags.model);
  request.set_request_id(flags.request_id);
  request.set_n(flags.outputs);
  FillAsker(flags.asker, &request);
  FillTextReading(flags.text_reading, &request);
  if (auto status = FillPrompt(set, flags, &request); !status.ok()) return Fail(status);
  if (auto status = FillSampling(flags.sampling, request.mutable_sampling()); !status.ok()) {
    return Fail(status);
  }
  if (auto status = FillGrammar(flags.grammar, &request); !status.ok()) return Fail(status);
  if (!flags.speculation.empty()) {
    request.mutable_speculation()->set_mode(SpeculationMode(flags.speculation));
  }
  CancelToken cancel;
  InterruptWatcher interrupts([&cancel](int signal, int count) {
    if (count > 1) _exit(128 + signal);
    cancel.Cancel();
  });
  auto client = MakeClient(flags.service);
  if (!client.ok()) return Fail(client.status());

  TextPrinter text;
  std::map<uint32_t, std::string> held;  // texts of several outputs
  const auto finishes = (*client)->Generate(request, MakeCallOptions(flags.service, &cancel),
                                            [&](const v1::GenerateResponse& message) {
                                              if (flags.json)
                                                return PrintLine(ToJson(message, false));
                                              if (flags.outputs == 1)
                                                return text.Print(message.text());
                                              held[message.output()] += message.text();
                                              return absl::OkStatus();
                                            });
  if (finishes.ok() && flags.outputs > 1 && !flags.json) {
    if (auto status = PrintOutputs(&held, *finishes, &text); !status.ok()) return Fail(status);
  }
  if (!flags.json) text.End();
  if (!finishes.ok()) return Fail(finishes.status());
  for (const v1::Finish& finish : *finishes) {
    if (flags.stats) std::fprintf(stderr, "%s\n", DescribeFinish(finish).c_str());
  }
  return kExitOk;
}

}  // namespace

Command MakeGenerateCommand(FlagSet* program) {
  FlagSet* set = program->AddCommand("generate", "Continue a prompt, streaming the text");
  auto flags = std::make_shared<GenerateFlags>();
  set->Add({
      {.names = "-p,--prompt", .variable = &flags->prompt, .help = "The prompt"},
      {.names = "-f,--prompt-file",
       .variable = &flags->prompt_file,
       .help = "Read it from a file; -: from stdin",
       .excludes = {"--prompt"}},
      {.names = "--token-ids",
       .variable = &flags->token_ids,
       .help = "The prompt as token ids: 1,2,3",
       .excludes = {"--prompt", "--prompt-file"}},
      {.names = "--model",
       .variable = &flags->model,
       .help = "Name the model must have; unset: whichever is served",
       .environment = "TUTTI_MODEL_NAME"},
      {.names = "--request-id",
       .variable = &flags->request_id,
       .help = "A name of yours: the same request under the same name takes the stream over"},
      {.names = "--outputs",
       .variable = &flags->outputs,
       .help = "Answers wanted, each with a seed of its own",
       .check = Positive(),
       .show_default = true},
  });
  AddTextReadingFlags(set, &flags->text_reading);
  AddAskerFlags(set, &flags->asker);
  set->Add({
      {.names = "--json",
       .variable = &flags->json,
       .help = "One JSON object per message instead of text"},
      {.names = "--stats",
       .variable = &flags->stats,
       .help = "Usage and timing on stderr at the end"},
  });
  AddGenerateServiceFlags(set, &flags->service);
  AddSamplingFlags(set, &flags->sampling);
  AddGrammarFlags(set, &flags->grammar);
  set->Add({
      {.names = "--speculation",
       .variable = &flags->speculation,
       .help = "Guess next tokens from what the text said before (lookup), by a draft model too "
               "(draft), or do not (off): the answer is the same; unset: as the service does",
       .environment = "TUTTI_REQUEST_SPECULATION",
       .check = OneOf("off,lookup,draft")},
  });
  set->AddFooter(kGenerateExamples);
  return {set, [set, flags] { return RunGenerate(*set, *flags); }};
}

}  // namespace tutti::client
