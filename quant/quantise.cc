#include "quant/quantise.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/checkpoint.h"
#include "model/config_json.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "model/quantise_choice.h"
#include "model/quantised_roles.h"
#include "model/quantised_tensors.h"
#include "model/weight_map.h"
#include "quant/make_codes.h"
#include "text/text_file.h"

namespace tutti::quant {
namespace {

namespace fs = std::filesystem;

using model::QuantConfig;
using model::StoredType;
using model::TensorInfo;
using nlohmann::json;

TensorInfo Named(const std::string& name, StoredType type, std::vector<int64_t> shape) {
  TensorInfo info;
  info.name = name;
  info.dtype = type;
  info.bytes = model::StoredTypeBytes(type);
  for (const int64_t side : shape) info.bytes *= side;
  info.shape = std::move(shape);
  return info;
}

// A tensor of a file to come: copied, or made of a matrix.
struct Planned {
  const TensorInfo* from = nullptr;
  std::string prefix;  // of the codes; empty: copied
};

// One checkpoint on its way into another folder.
class Quantiser {
 public:
  Quantiser(std::string from, std::string to, QuantConfig config, bool head,
            const QuantiseProgress& progress)
      : from_(std::move(from)),
        to_(std::move(to)),
        config_(config),
        head_(head),
        progress_(progress) {}

  absl::Status Run() {
    TUTTI_ASSIGN_OR_RETURN(model_, model::LoadModelConfig(from_));
    if (!model_.quant.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          from_,
          " is quantised already: ", model::DescribeFormats(model_.quant, model_.num_layers)));
    }
    TUTTI_ASSIGN_OR_RETURN(checkpoint_, model::Checkpoint::Open(from_));
    TUTTI_RETURN_IF_ERROR(model::CheckCheckpoint(model_, *checkpoint_));
    TUTTI_RETURN_IF_ERROR(FindMatrices());
    std::error_code error;
    fs::create_directories(to_, error);
    if (error) return absl::UnavailableError(absl::StrCat(to_, ": ", error.message()));
    if (text::IsThere(to_ + "/config.json")) {
      return absl::AlreadyExistsError(
          absl::StrCat(to_, " holds a checkpoint; give another folder"));
    }
    for (const TensorInfo& tensor : checkpoint_->tensors()) total_ += tensor.bytes;
    for (size_t file = 0; file < checkpoint_->files().size(); ++file) {
      TUTTI_RETURN_IF_ERROR(WriteFile(static_cast<int32_t>(file)));
    }
    TUTTI_RETURN_IF_ERROR(WriteIndex());
    TUTTI_RETURN_IF_ERROR(CopyOthers());
    return WriteConfig();
  }

 private:
  // The prefixes of codes, by the name of the tensor that they are made of. A fused tensor is one.
  absl::Status FindMatrices() {
    const uint32_t roles = model::UsualQuantisedRoles();
    for (const model::CheckpointTensor& tensor : model::ListCheckpointTensors(model_)) {
      const bool of_layer = (roles >> static_cast<unsigned>(tensor.role) & 1) != 0;
      const bool of_head = head_ && tensor.role == model::Role::kHead;
      if (!of_layer && !of_head) continue;
      TUTTI_RETURN_IF_ERROR(model::CheckGroups(config_, tensor.name, tensor.shape[1]));
      matrices_[tensor.name] = model::QuantPrefix(tensor.name);
    }
    if (!head_ || !model_.tie_word_embeddings) return absl::OkStatus();
    model::ModelConfig untied = model_;
    untied.tie_word_embeddings = false;
    tied_head_ = model::QuantPrefix(model::WeightOf(untied, model::Role::kHead, -1).name);
    embedding_ = model::WeightOf(model_, model::Role::kEmbedding, -1).name;
    return model::CheckGroups(config_, embedding_, model_.hidden_size);
  }

  // What file number `file` holds.
  std::vector<Planned> PlanOf(int32_t file) const {
    std::vector<Planned> planned;
    for (const TensorInfo& tensor : checkpoint_->tensors()) {
      if (tensor.file != file) continue;
      const auto found = matrices_.find(tensor.name);
      planned.push_back({&tensor, found == matrices_.end() ? "" : found->second});
      if (tensor.name == embedding_) planned.push_back({&tensor, tied_head_});
    }
    return planned;
  }

  int64_t GroupOf(const TensorInfo& matrix) const {
    return config_.group_size == -1 ? matrix.shape[1] : config_.group_size;
  }

  // The tensors that one becomes.
  std::vector<TensorInfo> Made(const Planned& planned) const {
    const TensorInfo& from = *planned.from;
    if (planned.prefix.empty()) return {Named(from.name, from.dtype, from.shape)};
    const int64_t out = from.shape[0], in = from.shape[1], per_word = 32 / config_.bits;
    return {Named(planned.prefix + ".weight_packed", StoredType::kI32,
                  {out, (in + per_word - 1) / per_word}),
            Named(planned.prefix + ".weight_scale", StoredType::kBF16, {out, in / GroupOf(from)}),
            Named(planned.prefix + ".weight_shape", StoredType::kI64, {2})};
  }

  absl::Status WriteFile(int32_t file) {
    const std::string name = checkpoint_->files()[static_cast<size_t>(file)].name;
    const std::vector<Planned> planned = PlanOf(file);
    std::vector<TensorInfo> tensors;
    for (const Planned& one : planned) {
      for (TensorInfo& tensor : Made(one)) {
        index_[tensor.name] = name;
        made_bytes_ += tensor.bytes;
        tensors.push_back(std::move(tensor));
      }
    }
    std::ofstream out(to_ + "/" + name, std::ios::binary);
    out << model::MakeSafetensorsHeader(tensors);
    for (const Planned& one : planned) {
      TUTTI_ASSIGN_OR_RETURN(const auto bytes, checkpoint_->Read(one.from->name));
      if (one.prefix.empty()) {
        out.write(reinterpret_cast<const char*>(bytes.data()),
                  static_cast<std::streamsize>(bytes.size()));
        done_ += one.from->bytes;
      } else {
        TUTTI_RETURN_IF_ERROR(WriteMatrix(*one.from, bytes.data(), &out));
        if (one.prefix != tied_head_) done_ += one.from->bytes;
      }
      if (!out) return absl::UnavailableError(absl::StrCat(to_, "/", name, " cannot be written"));
      if (progress_) progress_(done_, total_);
    }
    return absl::OkStatus();
  }

  absl::Status WriteMatrix(const TensorInfo& from, const std::byte* bytes,
                           std::ofstream* out) const {
    const int64_t rows = from.shape[0], in = from.shape[1];
    const int64_t per_word = 32 / config_.bits, words = (in + per_word - 1) / per_word;
    const int64_t groups = in / GroupOf(from);
    const PlainRows plain = {.tensor = &from.name,
                             .rows = rows,
                             .cols = {0, in},
                             .in = in,
                             .type = *model::ComputeType(from.dtype),
                             .elements = bytes};
    std::vector<uint32_t> packed(static_cast<size_t>(rows * words));
    std::vector<uint16_t> scales(static_cast<size_t>(rows * groups));
    std::vector<float> row(static_cast<size_t>(in));
    std::vector<uint8_t> codes(row.size());
    for (int64_t n = 0; n < rows; ++n) {
      TUTTI_RETURN_IF_ERROR(QuantiseRow(config_, plain, n, row, codes.data(),
                                        &scales[static_cast<size_t>(n * groups)]));
      for (int64_t k = 0; k < in; ++k) {
        packed[static_cast<size_t>(n * words + k / per_word)] |=
            uint32_t{codes[static_cast<size_t>(k)]} << (k % per_word * config_.bits);
      }
    }
    const int64_t shape[] = {rows, in};
    const auto write = [&](const auto& values) {
      out->write(reinterpret_cast<const char*>(std::data(values)),
                 static_cast<std::streamsize>(std::size(values) * sizeof(values[0])));
    };
    write(packed);
    write(scales);
    write(shape);
    return absl::OkStatus();
  }

  absl::Status WriteIndex() const {
    if (checkpoint_->files().size() == 1) return absl::OkStatus();
    const json index = {{"metadata", {{"total_size", made_bytes_}}}, {"weight_map", index_}};
    std::ofstream out(to_ + "/model.safetensors.index.json");
    out << index.dump(1) << "\n";
    return out ? absl::OkStatus() : absl::UnavailableError(to_ + ": the index cannot be written");
  }

  // Tokenizers and the like: not weights, and nothing of ours.
  absl::Status CopyOthers() const {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(from_, error)) {
      const std::string name = entry.path().filename().string();
      const bool text = name.ends_with(".json") || name.ends_with(".txt") ||
                        name.ends_with(".model") || name.ends_with(".jinja") ||
                        name.ends_with(".tiktoken");
      if (!text || name == "config.json" || name.ends_with(".index.json") || name.front() == '.') {
        continue;
      }
      if (!error) fs::copy_file(entry.path(), fs::path(to_) / name, error);
      if (error) return absl::UnavailableError(absl::StrCat(name, ": ", error.message()));
    }
    return error ? absl::UnavailableError(absl::StrCat(from_, ": ", error.message()))
                 : absl::OkStatus();
  }

  absl::Status WriteConfig() const {
    const std::string path = from_ + "/config.json";
    TUTTI_ASSIGN_OR_RETURN(const std::string text,
                           text::ReadTextFile(path, model::kConfigBytesMax));
    TUTTI_ASSIGN_OR_RETURN(json root, model::ParseJson(text, path, model::kConfigBytesMax));
    json weights = {{"num_bits", config_.bits}, {"type", "int"},         {"symmetric", true},
                    {"dynamic", false},         {"strategy", "channel"}, {"observer", "minmax"}};
    if (config_.group_size != -1) {
      weights["strategy"] = "group";
      weights["group_size"] = config_.group_size;
    }
    json ignore = json::array();
    if (!head_) ignore.push_back("lm_head");
    if (model_.has_experts()) ignore.push_back("re:.*mlp.gate$");
    root["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                   {"format", "pack-quantized"},
                                   {"quantization_status", "compressed"},
                                   {"ignore", ignore},
                                   {"config_groups",
                                    {{"group_0",
                                      {{"targets", {"Linear"}},
                                       {"weights", weights},
                                       {"input_activations", nullptr},
                                       {"output_activations", nullptr}}}}},
                                   {"kv_cache_scheme", nullptr}};
    if (!tied_head_.empty()) root["tie_word_embeddings"] = false;
    std::ofstream out(to_ + "/config.json");
    out << root.dump(2) << "\n";
    return out ? absl::OkStatus() : absl::UnavailableError(to_ + "/config.json cannot be written");
  }

  const std::string from_, to_;
  const QuantConfig config_;
  const bool head_;
  const QuantiseProgress& progress_;
  model::ModelConfig model_;
  std::unique_ptr<model::Checkpoint> checkpoint_;
  std::map<std::string, std::string> matrices_;
  std::string tied_head_, embedding_;  // "": there is none to be made
  std::map<std::string, std::string> index_;
  int64_t done_ = 0, total_ = 0, made_bytes_ = 0;
};

}  // namespace

absl::Status QuantiseCheckpoint(const std::string& from, const std::string& to,
                                const model::QuantiseChoice& choice,
                                const QuantiseProgress& progress) {
  TUTTI_ASSIGN_OR_RETURN(const QuantConfig config, model::ParseQuantiseScheme(choice.scheme));
  return Quantiser(from, to, config, choice.head, progress).Run();
}

}  // namespace tutti::quant
