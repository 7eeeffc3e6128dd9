#include "model/fingerprint.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "model/checkpoint.h"
#include "model/config_json.h"
#include "model/limits.h"
#include "text/text_file.h"

namespace tutti::model {
namespace {

constexpr size_t kDigestBytes = 16;

// Everything that turns text into ids and back, or a conversation into text.
constexpr const char* kTextFiles[] = {
    "tokenizer.json",     "tokenizer_config.json",   "vocab.json",
    "merges.txt",         "qwen.tiktoken",           "tokenizer.model",
    "added_tokens.json",  "special_tokens_map.json", "generation_config.json",
    "chat_template.jinja"};

// SHA-256 over fields, each with its length before it, so that no two lists of fields give the same
// bytes.
class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    ok_ = context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1;
  }

  void Add(std::string_view bytes) {
    const uint64_t size = bytes.size();
    std::array<unsigned char, 8> length;
    for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(size >> (8 * i));
    Raw(length.data(), length.size());
    Raw(bytes.data(), bytes.size());
  }
  void Add(int64_t value) { Add(std::to_string(value)); }
  void Add(double value) {
    char text[40];
    const int length = std::snprintf(text, sizeof(text), "%.17g", value);
    Add(std::string_view(text, static_cast<size_t>(length)));
  }

  absl::StatusOr<std::string> Finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    ok_ = ok_ && EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1;
    if (!ok_) return absl::InternalError("libcrypto has no SHA-256");
    return absl::BytesToHexString(
        absl::string_view(reinterpret_cast<const char*>(digest.data()), kDigestBytes));
  }

 private:
  void Raw(const void* data, size_t size) {
    ok_ = ok_ && EVP_DigestUpdate(context_.get(), data, size) == 1;
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
  bool ok_ = false;
};

// The tensors' names, types and shapes are digested too: here is what only config.json says.
void AddQuant(const QuantConfig& quant, Digest* digest) {
  const auto add = [&](std::string_view name, int64_t value) {
    digest->Add(name);
    digest->Add(value);
  };
  add("quant.method", static_cast<int64_t>(quant.method));
  add("quant.bits", quant.bits);
  add("quant.group_size", quant.group_size);
  add("quant.symmetric", int64_t{quant.symmetric});
  add("quant.zeros_less_one", int64_t{quant.zeros_less_one});
  add("quant.block_rows", quant.block_rows);
  add("quant.block_columns", quant.block_columns);
  add("quant.packed", static_cast<int64_t>(quant.packed));
  add("quant.any_order", int64_t{quant.any_order});
  if (quant.quantises_activations) add("quant.quantises_activations", 1);
}

// Names before values: a field added later cannot collide with an older layout.
void AddConfig(const ModelConfig& config, Digest* digest) {
  const auto add = [&](std::string_view name, auto value) {
    digest->Add(name);
    digest->Add(value);
  };
  add("architecture", std::string_view(config.architecture));
  add("hidden_size", config.hidden_size);
  add("intermediate_size", config.intermediate_size);
  add("num_layers", config.num_layers);
  add("num_heads", config.num_heads);
  add("num_kv_heads", config.num_kv_heads);
  add("head_dim", config.head_dim);
  add("vocab_size", config.vocab_size);
  add("max_position_embeddings", config.max_position_embeddings);
  add("rms_norm_eps", static_cast<double>(config.rms_norm_eps));
  add("num_experts", config.num_experts);
  add("experts_per_token", config.experts_per_token);
  add("expert_intermediate_size", config.expert_intermediate_size);
  add("norm_topk_prob", int64_t{config.norm_topk_prob});
  add("logn_length", config.logn_length);
  const RopeConfig& rope = config.rope;
  add("rope.theta", rope.theta);
  add("rope.rotary_dim", rope.rotary_dim);
  add("rope.interleaved", int64_t{rope.interleaved});
  add("rope.scaling", static_cast<int64_t>(rope.scaling));
  add("rope.factor", rope.factor);
  add("rope.low_freq_factor", rope.low_freq_factor);
  add("rope.high_freq_factor", rope.high_freq_factor);
  add("rope.beta_fast", rope.beta_fast);
  add("rope.beta_slow", rope.beta_slow);
  add("rope.truncate", int64_t{rope.truncate});
  add("rope.attention_factor", rope.attention_factor);
  add("rope.original_context", rope.original_context);
  add("tie_word_embeddings", int64_t{config.tie_word_embeddings});
  add("attention_bias", int64_t{config.attention_bias});
  add("qk_norm", int64_t{config.qk_norm});
  if (config.attention_output_bias) add("attention_output_bias", int64_t{1});
  if (config.mlp_bias) add("mlp_bias", int64_t{1});
  for (const int32_t layer : config.dense_layers) add("dense_layer", int64_t{layer});
  add("dtype", DTypeName(config.dtype));
  for (const QuantConfig& said : config.quant.said()) AddQuant(said, digest);
  for (int32_t id : config.eos_token_ids) add("eos", int64_t{id});
}

absl::Status AddTensors(const Checkpoint& checkpoint, Digest* digest) {
  for (const Checkpoint::File& file : checkpoint.files()) {
    digest->Add(std::string_view(file.name));
    digest->Add(file.bytes());
  }
  CheckpointFile open;
  int32_t open_file = -1;
  std::array<char, kFingerprintSampleBytes> sample;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (tensor.file != open_file) {
      TUTTI_ASSIGN_OR_RETURN(
          open, CheckpointFile::OpenUnchanged(checkpoint.PathOf(tensor.file),
                                              checkpoint.files()[tensor.file].identity));
      open_file = tensor.file;
    }
    digest->Add(std::string_view(tensor.name));
    digest->Add(StoredTypeName(tensor.dtype));
    digest->Add(std::string_view(tensor.ShapeText()));
    digest->Add(int64_t{tensor.file});
    digest->Add(tensor.offset);
    const int64_t count = std::min<int64_t>(tensor.bytes, kFingerprintSampleBytes);
    const std::span<char> bytes(sample.data(), static_cast<size_t>(count));
    for (const int64_t offset : {tensor.offset, tensor.offset + tensor.bytes - count}) {
      TUTTI_RETURN_IF_ERROR(open.Read(offset, std::as_writable_bytes(bytes)));
      digest->Add(std::string_view(bytes.data(), bytes.size()));
    }
  }
  return absl::OkStatus();
}

absl::Status AddTextFiles(const std::string& dir, Digest* digest) {
  for (const char* name : kTextFiles) {
    const auto text = text::ReadTextFile(dir + "/" + name, kFingerprintFileBytesMax);
    if (absl::IsNotFound(text.status())) continue;
    TUTTI_RETURN_IF_ERROR(text.status());
    digest->Add(std::string_view(name));
    digest->Add(std::string_view(*text));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ModelFingerprint(const Checkpoint& checkpoint) {
  TUTTI_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(checkpoint.dir()));
  Digest digest;
  AddConfig(config, &digest);
  TUTTI_RETURN_IF_ERROR(AddTensors(checkpoint, &digest));
  TUTTI_RETURN_IF_ERROR(AddTextFiles(checkpoint.dir(), &digest));
  return digest.Finish();
}

absl::StatusOr<std::string> ModelFingerprint(const std::string& dir) {
  TUTTI_RETURN_IF_ERROR(LoadModelConfig(dir).status());
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(dir));
  return ModelFingerprint(*checkpoint);
}

}  // namespace tutti::model
