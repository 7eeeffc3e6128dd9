// The words of people who know other servers of models, and what we call it.
//
// Pure; any thread.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

struct Synonym {
  std::string_view theirs;
  std::string_view ours;
};

// The first counts whose name of ours there is.
inline constexpr Synonym kSynonyms[] = {
    {"serve", "up"},
    {"start", "up"},
    {"run", "up"},
    {"launch", "up"},
    {"complete", "generate"},
    {"completion", "generate"},
    {"prompt", "generate"},
    {"ask", "chat"},
    {"ps", "status"},
    {"list", "status"},
    {"top", "status"},
    {"info", "status"},
    {"benchmark", "bench"},
    {"encode", "tokenize"},
    {"decode", "detokenize"},
    {"--host", "--listen"},
    {"--host", "--address"},
    {"--port", "--listen"},
    {"--port", "--address"},
    {"--bind", "--listen"},
    {"--url", "--address"},
    {"--base-url", "--address"},
    {"--endpoint", "--address"},
    {"--model-path", "--model"},
    {"--model-dir", "--model"},
    {"--checkpoint", "--model"},
    {"-m", "--model"},
    {"--tp", "--tensor-parallel-size"},
    {"-tp", "--tensor-parallel-size"},
    {"--tp-size", "--tensor-parallel-size"},
    {"--pp", "--pipeline-parallel-size"},
    {"-pp", "--pipeline-parallel-size"},
    {"--pp-size", "--pipeline-parallel-size"},
    {"--dp", "--pipelines"},
    {"--data-parallel-size", "--pipelines"},
    {"--replicas", "--pipelines"},
    {"--num-workers", "--workers"},
    {"--nproc", "--workers"},
    {"--gpus", "--device"},
    {"--n-gpu-layers", "--device"},
    {"--gpu-memory-utilization", "--memory-per-worker"},
    {"--gpu-memory-utilization", "--memory"},
    {"--context-length", "--max-model-len"},
    {"--ctx-size", "--max-model-len"},
    {"--max-seq-len", "--max-model-len"},
    {"--max-new-tokens", "--max-tokens"},
    {"--max-length", "--max-tokens"},
    {"--n-predict", "--max-tokens"},
    {"--temp", "--temperature"},
    {"--n", "--outputs"},
    {"--num-return-sequences", "--outputs"},
    {"--message", "--prompt"},
    {"--prompt", "--message"},
    {"--text", "--prompt"},
    {"--prompt", "--text"},
    {"--user", "--message"},
    {"--system-prompt", "--system"},
    {"--api-key", "--api-key-file"},
    {"--api-key", "--api-keys"},
    {"--ssl-certfile", "--tls-cert"},
    {"--ssl-keyfile", "--tls-key"},
    {"--cert", "--tls-cert"},
    {"--key", "--tls-key"},
    {"--ca", "--tls-ca"},
    {"--threads", "--threads-per-worker"},
    {"--memory", "--memory-per-worker"},
    {"--name", "--worker-id"},
    {"--debug", "--log-level"},
    {"--verbose", "--log-level"},
};

// Our word for it among `names`; "" where there is nothing.
inline std::string OurName(std::string_view word, const std::vector<std::string>& names) {
  for (const Synonym& one : kSynonyms) {
    if (one.theirs == word && std::find(names.begin(), names.end(), one.ours) != names.end()) {
      return std::string(one.ours);
    }
  }
  return "";
}

}  // namespace tutti
