#include "model/weight_map.h"

#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "model/family.h"
#include "model/quantised_tensors.h"
#include "model/what_is_there.h"

namespace tutti::model {
namespace {

const ModelFamily& FamilyOf(const ModelConfig& config) {
  const ModelFamily* family = FindFamily(config.architecture);
  CHECK(family != nullptr) << "a configuration that did not come from ParseModelConfig: "
                           << config.architecture;
  return *family;
}

const WeightRule& RuleOf(const ModelConfig& config, Role role) {
  for (const WeightRule& rule : FamilyOf(config).weights) {
    if (rule.role == role) return rule;
  }
  CHECK(false) << config.architecture << " has no " << RoleName(role);
  __builtin_unreachable();
}

bool OfExpert(Role role) {
  return role == Role::kExpertGate || role == Role::kExpertUp || role == Role::kExpertDown;
}

void Fill(std::string* name, std::string_view placeholder, int64_t number) {
  const size_t at = name->find(placeholder);
  if (at != std::string::npos) name->replace(at, placeholder.size(), std::to_string(number));
}

WeightSpec Specify(const ModelConfig& config, const WeightRule& rule, int64_t layer,
                   int64_t expert) {
  WeightSpec spec;
  spec.role = rule.role;
  spec.layer = rule.owner == Owner::kLayer ? layer : -1;
  spec.expert = OfExpert(rule.role) ? expert : -1;
  spec.name = std::string(rule.name);
  Fill(&spec.name, "{}", layer);
  Fill(&spec.name, "{e}", expert);
  spec.shape = {WidthOf(rule.rows, config)};
  if (rule.cols != Width::kNone) spec.shape.push_back(WidthOf(rule.cols, config));
  for (const WeightRule& part : FamilyOf(config).weights) {
    if (part.name != rule.name) continue;
    if (&part == &rule) spec.first_row = spec.tensor_rows;
    spec.tensor_rows += WidthOf(part.rows, config);
  }
  spec.split = rule.split;
  spec.owner = rule.owner;
  // A tied head is the embedding's tensor. Only the name is the embedding's: the role stays.
  if (rule.role == Role::kHead && (config.tie_word_embeddings || config.head_of_embedding)) {
    spec.name = std::string(RuleOf(config, Role::kEmbedding).name);
  }
  return spec;
}

// The shape of the whole tensor that `spec` is part of.
std::vector<int64_t> TensorShape(const WeightSpec& spec) {
  std::vector<int64_t> shape = spec.shape;
  shape[0] = spec.tensor_rows;
  return shape;
}

absl::Status CheckTensor(const ModelConfig& config, const Checkpoint& checkpoint,
                         const WeightSpec& spec) {
  const QuantConfig* const format = config.quant.Find(spec.role, spec.layer);
  if (format != nullptr && !config.quantise.has_value()) {
    const auto find = [&](const std::string& name) { return checkpoint.Find(name); };
    return Annotate(
        FindQuantisedMatrix(find, QuantPrefix(spec.name), *format, spec.tensor_rows, spec.shape[1])
            .status(),
        checkpoint.dir());
  }
  const std::string what = absl::StrCat(checkpoint.dir(), ": tensor \"", spec.name, "\" (",
                                        std::string(RoleName(spec.role)), ")");
  const TensorInfo* found = checkpoint.Find(spec.name);
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is missing", DescribeOtherName(checkpoint.tensors(), spec.name)));
  }
  if (!ComputeType(found->dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has dtype ", std::string(StoredTypeName(found->dtype)), ", expected ",
                     std::string(StoredTypeName(StoredTypeOf(config.dtype))),
                     " from config.json; BF16, F16 and F32 are converted to it"));
  }
  if (const std::vector<int64_t> shape = TensorShape(spec); found->shape != shape) {
    return absl::InvalidArgumentError(absl::StrCat(what, " has shape ", found->ShapeText(),
                                                   ", expected [", absl::StrJoin(shape, ", "),
                                                   "] from config.json"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t WidthOf(Width width, const ModelConfig& config) {
  switch (width) {
    case Width::kNone:
      return 1;
    case Width::kHidden:
      return config.hidden_size;
    case Width::kQuery:
      return config.q_width();
    case Width::kKeyValue:
      return config.kv_width();
    case Width::kHeadDim:
      return config.head_dim;
    case Width::kIntermediate:
      return config.intermediate_size;
    case Width::kExperts:
      return config.num_experts;
    case Width::kExpert:
      return config.expert_intermediate_size;
    case Width::kVocab:
      return config.vocab_size;
  }
  return 0;
}

bool HasRole(const ModelConfig& config, Role role, int64_t layer) {
  switch (role) {
    case Role::kQueryBias:
    case Role::kKeyBias:
    case Role::kValueBias:
      return config.attention_bias;
    case Role::kOutputBias:
      return config.attention_output_bias;
    case Role::kQueryNorm:
    case Role::kKeyNorm:
      return config.qk_norm;
    case Role::kGate:
    case Role::kUp:
    case Role::kDown:
      return !config.has_experts(layer);
    case Role::kGateBias:
    case Role::kUpBias:
    case Role::kDownBias:
      return config.mlp_bias && !config.has_experts(layer);
    case Role::kRouter:
    case Role::kExpertGate:
    case Role::kExpertUp:
    case Role::kExpertDown:
      return config.has_experts(layer);
    default:
      return true;
  }
}

StageShare WholeModel(const ModelConfig& config) {
  return {
      .first_layer = 0, .num_layers = config.num_layers, .has_embedding = true, .has_head = true};
}

absl::Status CheckStageShare(const ModelConfig& config, const StageShare& share) {
  // Written without a sum: these numbers may come from a file or a wire.
  if (share.first_layer < 0 || share.num_layers < 0 || share.first_layer > config.num_layers ||
      share.num_layers > config.num_layers - share.first_layer) {
    return absl::InvalidArgumentError(absl::StrCat("layers: ", share.num_layers, " from layer ",
                                                   share.first_layer, " on, but the model has ",
                                                   config.num_layers));
  }
  return absl::OkStatus();
}

std::vector<WeightSpec> ListWeights(const ModelConfig& config, const StageShare& share) {
  const std::span<const WeightRule> rules = FamilyOf(config).weights;
  std::vector<WeightSpec> specs;
  const auto add = [&](Owner owner, int64_t layer) {
    for (size_t i = 0; i < rules.size();) {
      size_t end = i + 1;
      int64_t times = rules[i].owner == owner && HasRole(config, rules[i].role, layer) ? 1 : 0;
      if (OfExpert(rules[i].role)) {
        while (end < rules.size() && OfExpert(rules[end].role)) ++end;
        times *= config.num_experts;
      }
      for (int64_t expert = 0; expert < times; ++expert) {
        for (size_t j = i; j < end; ++j) {
          specs.push_back(Specify(config, rules[j], layer, expert));
        }
      }
      i = end;
    }
  };
  if (share.has_embedding) add(Owner::kFirstStage, -1);
  for (int64_t i = 0; i < share.num_layers; ++i) add(Owner::kLayer, share.first_layer + i);
  if (share.has_head) add(Owner::kLastStage, -1);
  return specs;
}

WeightSpec WeightOf(const ModelConfig& config, Role role, int64_t layer, int64_t expert) {
  return Specify(config, RuleOf(config, role), layer, expert);
}

std::vector<CheckpointTensor> ListCheckpointTensors(const ModelConfig& config) {
  std::vector<CheckpointTensor> tensors;
  for (WeightSpec& spec : ListWeights(config, WholeModel(config))) {
    if (spec.first_row > 0) continue;
    if (spec.role == Role::kHead && (config.tie_word_embeddings || config.head_of_embedding)) {
      continue;
    }
    std::vector<int64_t> shape = TensorShape(spec);
    tensors.push_back({std::move(spec.name), std::move(shape), spec.role});
  }
  return tensors;
}

absl::Status CheckCheckpoint(const ModelConfig& config, const Checkpoint& checkpoint,
                             const StageShare& share) {
  TUTTI_RETURN_IF_ERROR(CheckStageShare(config, share));
  for (const WeightSpec& spec : ListWeights(config, share)) {
    TUTTI_RETURN_IF_ERROR(CheckTensor(config, checkpoint, spec));
  }
  return absl::OkStatus();
}

absl::Status CheckCheckpoint(const ModelConfig& config, const Checkpoint& checkpoint) {
  return CheckCheckpoint(config, checkpoint, WholeModel(config));
}

std::string DescribeConversion(const ModelConfig& config, const Checkpoint& checkpoint) {
  for (const WeightSpec& spec : ListWeights(config, WholeModel(config))) {
    const TensorInfo* const found = checkpoint.Find(spec.name);
    // Vectors are held in f32 anyway.
    if (found == nullptr || spec.shape.size() < 2) continue;
    if (config.is_quantised(spec.role, spec.layer)) continue;
    const StoredType wanted = StoredTypeOf(config.dtype);
    if (found->dtype == wanted) continue;
    const int64_t from = StoredTypeBytes(found->dtype);
    const int64_t to = StoredTypeBytes(wanted);
    return absl::StrCat("tensor \"", spec.name, "\" is stored in ",
                        std::string(StoredTypeName(found->dtype)), ", config.json says ",
                        std::string(StoredTypeName(wanted)), ": it is converted and computed in ",
                        std::string(StoredTypeName(wanted)),
                        to > from   ? ", exactly, with twice the bytes"
                        : to < from ? ", rounded to the nearest"
                                    : ", rounded where the ranges differ",
                        "; set dtype in config.json to compute in another type");
  }
  return "";
}

}  // namespace tutti::model
