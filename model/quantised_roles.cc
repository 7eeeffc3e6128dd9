#include "model/quantised_roles.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "model/quantised_tensors.h"
#include "model/weight_map.h"
#include "text/text_file.h"

namespace tutti::model {
namespace {

constexpr uint32_t Bit(Role role) { return 1u << static_cast<unsigned>(role); }

constexpr uint32_t kInLayers = Bit(Role::kQuery) | Bit(Role::kKey) | Bit(Role::kValue) |
                               Bit(Role::kAttentionOutput) | Bit(Role::kGate) | Bit(Role::kUp) |
                               Bit(Role::kDown) | Bit(Role::kExpertGate) | Bit(Role::kExpertUp) |
                               Bit(Role::kExpertDown);

// Parts of one product are multiplied together.
constexpr uint32_t kProducts[] = {Bit(Role::kQuery) | Bit(Role::kKey) | Bit(Role::kValue),
                                  Bit(Role::kGate) | Bit(Role::kUp),
                                  Bit(Role::kExpertGate) | Bit(Role::kExpertUp)};

class RoleFinder {
 public:
  RoleFinder(const Checkpoint& checkpoint, ModelConfig* config)
      : checkpoint_(checkpoint), config_(*config) {}

  absl::Status Run() {
    for (const WeightSpec& spec : ListWeights(config_, WholeModel(config_))) {
      if (spec.shape.size() > 1) TUTTI_RETURN_IF_ERROR(Look(spec));
    }
    for (const uint32_t product : kProducts) {
      if ((quantised_ & product) != 0 && (plain_ & product) != 0) {
        return absl::UnimplementedError(
            absl::StrCat(checkpoint_.dir(),
                         ": of the matrices of one product (query, key and value, or gate "
                         "and up) some are quantised and others are not"));
      }
    }
    if (!config_.quant.has_value()) return absl::OkStatus();
    config_.quantised_roles = quantised_;
    return absl::OkStatus();
  }

 private:
  absl::Status Look(const WeightSpec& spec) {
    const auto find = [&](const std::string& name) { return checkpoint_.Find(name); };
    const std::string prefix = QuantPrefix(spec.name);
    if (!IsQuantised(find, prefix)) {
      if (checkpoint_.Find(spec.name) != nullptr) plain_ |= Bit(spec.role);
    } else {
      TUTTI_RETURN_IF_ERROR(LookAtCodes(find, spec, prefix));
      quantised_ |= Bit(spec.role);
    }
    if ((plain_ & quantised_ & Bit(spec.role)) == 0) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat(
        checkpoint_.dir(), ": tensor ", Quoted(spec.name), " is ",
        IsQuantised(find, prefix) ? "quantised, others" : "not quantised, others", " of its role (",
        std::string(RoleName(spec.role)), ") ", IsQuantised(find, prefix) ? "are not" : "are",
        ": only a role as a whole is served so"));
  }

  absl::Status LookAtCodes(TensorFinder find, const WeightSpec& spec, const std::string& prefix) {
    const std::string what = absl::StrCat(checkpoint_.dir(), ": tensors of ", Quoted(prefix), " (",
                                          std::string(RoleName(spec.role)), ")");
    if (!config_.quant.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what,
                       " are quantised, but config.json has no quantization_config that says "
                       "how; bring back the file as it was published"));
    }
    if ((Bit(spec.role) & (kInLayers | Bit(Role::kHead))) == 0 ||
        (spec.role == Role::kHead && config_.tie_word_embeddings)) {
      return absl::UnimplementedError(absl::StrCat(what,
                                                   " are quantised, which is served of the "
                                                   "matrices of layers and of the head"));
    }
    TUTTI_ASSIGN_OR_RETURN(
        const QuantisedMatrix matrix,
        FindQuantisedMatrix(find, prefix, *config_.quant, spec.tensor_rows, spec.shape[1]));
    const DType scales = HeldScaleType(*config_.quant, matrix);
    if (quantised_ == 0) config_.quant->scale_type = scales;
    if (config_.quant->scale_type == scales) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat(what,
                                                 " have scales in another type than those "
                                                 "of the matrices before"));
  }

  const Checkpoint& checkpoint_;
  ModelConfig& config_;
  uint32_t quantised_ = 0, plain_ = 0;
};

}  // namespace

uint32_t UsualQuantisedRoles() { return kInLayers; }

absl::Status FindQuantisedRoles(const Checkpoint& checkpoint, ModelConfig* config) {
  return RoleFinder(checkpoint, config).Run();
}

absl::Status LoadQuantizeConfig(const std::string& dir, ModelConfig* config) {
  const std::string file = dir + "/quantize_config.json";
  if (!text::IsThere(file)) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(const std::string text, text::ReadTextFile(file, kConfigBytesMax));
  TUTTI_ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(text, file, kConfigBytesMax));
  TUTTI_ASSIGN_OR_RETURN(const QuantConfig said, ParseQuantConfig(root, file));
  if (!config->quant.has_value()) {
    config->quant = said;
    config->quantised_roles = UsualQuantisedRoles();
    return absl::OkStatus();
  }
  if (said == *config->quant) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file, " says ", DescribeQuantConfig(said), ", config.json says ",
                   DescribeQuantConfig(*config->quant),
                   " (or they differ in sym, desc_act or the layout); "
                   "remove the one that is wrong"));
}

}  // namespace tutti::model
