// tutti quantize: a checkpoint of codes made from one in 16 bits.
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/byte_size.h"
#include "client/command.h"
#include "client/print.h"
#include "quant/quantise.h"

namespace tutti::client {
namespace {

constexpr const char* kQuantizeExamples = R"(
Weights are rounded to the nearest code, without calibration: int8 is close to bf16, int4 is the
least that 4 bits can be, and checkpoints made by GPTQ or AWQ are better. The folder is one of
compressed-tensors (pack-quantized), which Tutti, transformers and vLLM read.

Examples:
  tutti quantize Qwen3-8B Qwen3-8B-int8 --scheme int8
  tutti quantize Qwen3-8B Qwen3-8B-int4 --scheme int4-g128 --head
  tutti plan --model Qwen3-8B --quantize int4-g128 --devices 1x8GiB    # would it fit?
  tutti up --model Qwen3-8B --quantize int4-g128         # the same codes, made while workers load

Exit codes: 0 done, 1 failed (also when it would write over something), 2 bad input.)";

struct QuantizeFlags {
  std::string from, to;
  model::QuantiseChoice choice{.scheme = "int4-g128"};
};

int RunQuantize(const QuantizeFlags& flags) {
  int64_t told = -1;
  const auto progress = [&](int64_t done, int64_t total) {
    const int64_t percent = total == 0 ? 100 : 100 * done / total;
    if (percent / 10 == told / 10 && told >= 0) return;
    told = percent;
    std::cerr << "tutti: " << percent << " % of " << FormatBytes(total) << "\n";
  };
  const absl::Status made =
      quant::QuantiseCheckpoint(flags.from, flags.to, flags.choice, progress);
  if (!made.ok()) return Fail(made);
  const absl::Status written = PrintLine(absl::StrCat("made ", flags.to, ": ", flags.choice.scheme,
                                                      flags.choice.head ? ", the head too" : ""));
  return written.ok() ? kExitOk : Fail(written);
}

}  // namespace

Command MakeQuantizeCommand(FlagSet* program) {
  FlagSet* const set =
      program->AddCommand("quantize", "Make a checkpoint of 4 or 8 bits from one of 16");
  auto flags = std::make_shared<QuantizeFlags>();
  set->Add({
      {.names = "from",
       .variable = &flags->from,
       .help = "Folder of the checkpoint",
       .required = true},
      {.names = "to",
       .variable = &flags->to,
       .help = "Folder to make; there must be no checkpoint yet",
       .required = true},
      {.names = "--scheme",
       .variable = &flags->choice.scheme,
       .help = "int8 (a scale for each output), or int4-g128 (one for 128 inputs; also other "
               "multiples of 8)",
       .show_default = true},
      {.names = "--head",
       .variable = &flags->choice.head,
       .help = "The head too; where it is the embedding, it becomes a matrix of its own"},
  });
  set->AddFooter(kQuantizeExamples);
  return {set, [flags] { return RunQuantize(*flags); }};
}

}  // namespace tutti::client
