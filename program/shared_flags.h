// The flags of our daemons that `tutti up` has too, to pass them on: one text for both, which their
// tables take from here.
//
// Pure; any thread.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace tutti {

struct SharedFlag {
  absl::string_view name;
  absl::string_view help;
  bool is_switch = false;
};

// What it means that a flag is not given stands here too, unless `tutti up` then passes on another
// value than the program's own.
inline constexpr SharedFlag kCoordinatorFlags[] = {
    {"--pipeline-parallel-size",
     "Stages the layers are split over, or auto: chosen from the workers that join"},
    {"--tensor-parallel-size",
     "Ranks each layer is split over: 1, 2, 4 or 8 workers per stage, or auto; of each stage: 1,2; "
     "unset: 1"},
    {"--expert-split",
     "How ranks share the experts of a mixture: the width of each, or whole experts. The answers "
     "are the same, to the bit"},
    {"--layout", "auto: stages and ranks too are chosen from the workers that join"},
    {"--device-map",
     "auto, balanced, balanced_low_0, sequential, a HuggingFace device map (JSON), or a file "
     "[{\"worker\": \"w0\", \"layers\": 12}, …], in order of stages"},
    {"--max-memory",
     "What of each worker may be used, by number or name: 0=20GiB,w3=40GiB; others are left out"},
    {"--min-workers", "Form nothing before so many workers have joined"},
    {"--block-size", "Tokens per KV block, a multiple of 16"},
    {"--max-batch-tokens", "Rows of the largest step"},
    {"--chunk-tokens",
     "Rows of one prompt in a step at most; 0: all that a step has, or where there are stages, an "
     "even part of what is to be computed"},
    {"--itl-target",
     "Milliseconds that a step may take for the sake of prompts while somebody waits for the next "
     "token of an answer; 0: any time"},
    {"--speculation",
     "lookup: next tokens are guessed from what the text said before, and verified beside the "
     "token that is due; draft: by --draft-model too; the answers are the same, to the bit; off: "
     "only where a request asks for it; unset: draft where there is a --draft-model, else lookup"},
    {"--max-num-seqs", "Sequences running at once"},
    {"--max-model-len", "Context length; 0: the model's"},
    {"--max-waiting", "Requests waiting; more are refused"},
    {"--max-wait",
     "Seconds that one may have to wait, at the pace of late; more is refused; 0: any"},
    {"--served-model-name",
     "Names clients may ask for, with commas between them, such as Qwen/Qwen3-0.6B,demo; answers "
     "without a name have the first (default: the directory's)"},
    {"--public-role",
     "What callers without a certificate may do: client, or gateway, who names tenants and may ask "
     "for priority below 0; auto: gateway on a Unix socket in a folder of mode 0700, else client"},
    {"--lease-ms", "A worker without progress for so long is lost"},
    {"--recovery-timeout",
     "Seconds that requests wait for a pipeline in the place of one that was lost"},
    {"--reform-after",
     "Seconds after which a pipeline whose worker does not come back forms of those that are left, "
     "where they can hold the model"},
    {"--partial-recompute",
     "on: when a worker is lost, its stage alone is computed again and the others keep their KV; "
     "off: all stages are"},
    {"--kept-rows",
     "Memory of each worker for the rows that it has sent on, such as 2GiB: a worker in the place "
     "of the next begins with them; unset: what placement leaves"},
};
inline constexpr SharedFlag kWorkerFlags[] = {
    {"--cuda-graphs", "on, or off: every kernel of a GPU starts by itself; slower, the same bits"},
    {"--cuda-early-kernels",
     "on, or off: no kernel of a GPU begins before the one before has ended; slower, the same "
     "bits"},
    {"--speed",
     "What the coordinator is told of this worker's speed: auto (CPUs measure at start, 0.2 s; "
     "GPUs say nothing), off, or 900GB/s@71Tflop/s (reading weights, multiplying)"},
    {"--tune",
     "auto: CPUs choose at start how kernels fetch and divide weights, by measuring them (1.5 s; "
     "models from 256 MiB); off: as usual. The same bits either way"},
    {"--shared-memory-dir",
     "Ranks of a stage that see the same folder exchange through memory in it; empty: over their "
     "links"},
    {"--device-exchange",
     "Which workers' GPUs exchange directly, through NCCL: off, machine (those of one machine) or "
     "network (others too; NCCL neither encrypts nor authenticates). Otherwise through the host"},
    {"--numerics-class", "Compute in this class, such as cpu-f32; unset: the machine's best"},
};
inline constexpr SharedFlag kGatewayFlags[] = {
    {"--tool-parser",
     "How the model writes calls of functions; auto: by its chat template; none: calls stay text"},
    {"--reasoning-parser",
     "How it marks its reasoning; auto: by its chat template; none: it stays text"},
    {"--reasoning-content", "Reasoning is in reasoning_content too, its older name", true},
    {"--heartbeat",
     "Seconds after which a stream that has nothing to say sends a comment, so that proxies do not "
     "take it for dead; 0: never; unset: 10"},
};
// Of the coordinator and of the gateway.
inline constexpr SharedFlag kTraceFlags[] = {
    {"--traces", "Append spans of requests to this file, as OTLP's JSON, a batch a line"},
    {"--otlp-endpoint",
     "Send them to this collector (OTLP over HTTP, JSON), such as http://127.0.0.1:4318"},
};

// The text of a flag of one of these tables; the name of any other does not compile.
template <size_t size>
consteval absl::string_view HelpIn(const SharedFlag (&table)[size], absl::string_view name) {
  for (const SharedFlag& flag : table) {
    if (flag.name == name) return flag.help;
  }
  throw "the table has no such flag";
}

}  // namespace tutti
