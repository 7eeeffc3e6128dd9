// make_random_model: a checkpoint with random weights in the shape of any supported config.json.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/config_json.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "program/flags.h"
#include "text/text_file.h"
#include "tools/random_checkpoint.h"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kDescription[] =
    "Writes a checkpoint with random weights in the shape of a config.json, to measure speed and "
    "memory.\nIts text is nonsense.\n\n"
    "Example: a Qwen3-0.6B with its real vocabulary, in files of at most 500 MB\n"
    "  make_random_model --config Qwen3-0.6B/config.json --copy-tokenizer Qwen3-0.6B "
    "--shard-bytes 500MB --output /tmp/random-0.6b\n";

constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",    "tokenizer_config.json",   "vocab.json",
    "merges.txt",        "tokenizer.model",         "qwen.tiktoken",
    "added_tokens.json", "special_tokens_map.json", "chat_template.jinja"};

struct Arguments {
  std::string config;
  std::string output;
  uint64_t seed = 0;
  std::string dtype;
  float head_scale = 1;
  uint64_t shard_bytes = 0;
  std::vector<std::string> tokenizers;
};

absl::Status Copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  // A directory's own file may be its source: --config DIR/config.json --output DIR.
  if (fs::equivalent(from, to, error)) return absl::OkStatus();
  // Removed first, and made writable: the source may be read-only, and its copy would be too.
  fs::remove(to, error);
  fs::copy_file(from, to, error);
  if (!error) {
    fs::permissions(to, fs::perms::owner_write, fs::perm_options::add, error);
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("copying ", from.string(), " to ", to.string(), ": ", error.message()));
}

absl::Status CopyTokenizer(const std::string& from, const std::string& to) {
  int copied = 0;
  for (const char* name : kTokenizerFiles) {
    if (!fs::exists(fs::path(from) / name)) continue;
    TUTTI_RETURN_IF_ERROR(Copy(fs::path(from) / name, fs::path(to) / name));
    ++copied;
  }
  if (copied == 0) return absl::NotFoundError(absl::StrCat(from, ": no tokenizer file there"));
  return absl::OkStatus();
}

// The configuration's text, with another dtype if one was asked for.
absl::StatusOr<std::string> ConfigText(const Arguments& arguments) {
  TUTTI_ASSIGN_OR_RETURN(std::string text,
                         text::ReadTextFile(arguments.config, model::kConfigBytesMax));
  if (arguments.dtype.empty()) return text;
  TUTTI_ASSIGN_OR_RETURN(nlohmann::json root,
                         model::ParseJson(text, arguments.config, model::kConfigBytesMax));
  if (!root.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(arguments.config, ": not a JSON object"));
  }
  const std::string name = arguments.dtype == "bf16"  ? "bfloat16"
                           : arguments.dtype == "f16" ? "float16"
                                                      : "float32";
  root.erase("torch_dtype");
  root.erase("dtype");
  root["torch_dtype"] = name;
  return root.dump(2) + "\n";
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("writing ", path, " failed"));
}

// One line that is written over, on a terminal only.
class ProgressLine {
 public:
  void Show(int64_t done, int64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (!shown_ || (now - last_ < std::chrono::milliseconds(100) && done < total)) return;
    last_ = now;
    std::fprintf(stderr, "\r%5.1f %% of %.1f MB",
                 100.0 * static_cast<double>(done) / static_cast<double>(total),
                 static_cast<double>(total) / 1e6);
    if (done == total) std::fprintf(stderr, "\n");
  }

 private:
  const bool shown_ = isatty(STDERR_FILENO) != 0;
  std::chrono::steady_clock::time_point last_;
};

absl::Status Run(const Arguments& arguments) {
  TUTTI_ASSIGN_OR_RETURN(const std::string text, ConfigText(arguments));
  TUTTI_ASSIGN_OR_RETURN(const model::ModelConfig config,
                         model::ParseModelConfig(text, arguments.config));
  std::error_code error;
  fs::create_directories(arguments.output, error);
  if (error) return absl::UnavailableError(absl::StrCat(arguments.output, ": ", error.message()));

  ProgressLine line;
  int64_t bytes = 0;
  const RandomCheckpointOptions options = {
      .output_dir = arguments.output,
      .seed = arguments.seed,
      .head_scale = arguments.head_scale,
      .shard_bytes = static_cast<int64_t>(arguments.shard_bytes)};
  const auto begin = std::chrono::steady_clock::now();
  TUTTI_RETURN_IF_ERROR(WriteRandomCheckpoint(config, options, [&](int64_t done, int64_t total) {
    bytes = total;
    line.Show(done, total);
  }));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;

  TUTTI_RETURN_IF_ERROR(WriteText(arguments.output + "/config.json", text));
  const fs::path generation = fs::path(arguments.config).parent_path() / "generation_config.json";
  if (fs::exists(generation)) {
    TUTTI_RETURN_IF_ERROR(Copy(generation, fs::path(arguments.output) / "generation_config.json"));
  }
  for (const std::string& from : arguments.tokenizers) {
    TUTTI_RETURN_IF_ERROR(CopyTokenizer(from, arguments.output));
  }
  std::printf("%s: %s, %.1f MB of weights in %.1f s\n", arguments.output.c_str(),
              config.architecture.c_str(), static_cast<double>(bytes) / 1e6, seconds.count());
  return absl::OkStatus();
}

void AddFlags(FlagSet* set, Arguments* arguments) {
  set->Add({
      {.names = "--config",
       .variable = &arguments->config,
       .help = "The config.json that gives the shape",
       .check = IsFile(),
       .required = true},
      {.names = "--output",
       .variable = &arguments->output,
       .help = "Directory to write to; made if it is not there",
       .required = true},
      {.names = "--seed",
       .variable = &arguments->seed,
       .help = "The same seed gives the same weights",
       .show_default = true},
      {.names = "--dtype",
       .variable = &arguments->dtype,
       .help = "Type of the weights; default: that of the config",
       .check = OneOf("bf16,f16,f32")},
      {.names = "--head-scale",
       .variable = &arguments->head_scale,
       .help = "Output head's weights times this, where it is no embedding: 1 makes all tokens "
               "about as likely, 4 a few of them much likelier, as trained models do",
       .check = NumberIn(0.01, kHeadScaleMax),
       .show_default = true},
      {.names = "--shard-bytes",
       .variable = &arguments->shard_bytes,
       .help = "Largest file, as in 500MB or 2GiB; default: one file",
       .check = IsByteCount()},
      {.names = "--copy-tokenizer",
       .variable = &arguments->tokenizers,
       .help = "Directory whose tokenizer files are copied; may be given several times",
       .check = IsFolder()},
  });
}

int Main(int argc, char** argv) {
  Arguments arguments;
  FlagSet program("", kDescription);
  AddFlags(&program, &arguments);
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  const absl::Status status = Run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "make_random_model: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace tutti::tools

int main(int argc, char** argv) { return tutti::tools::Main(argc, argv); }
