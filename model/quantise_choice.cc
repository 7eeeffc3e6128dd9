#include "model/quantise_choice.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "model/quantised_roles.h"
#include "model/quantised_tensors.h"
#include "model/weight_map.h"

namespace tutti::model {
namespace {

constexpr int64_t kGroupMax = 1 << 16;

}  // namespace

absl::StatusOr<QuantConfig> ParseQuantiseScheme(std::string_view scheme) {
  QuantConfig config;
  config.method = Method::kCompressedTensors;
  config.packed = PackedFormat::kPacked;
  config.scale_type = DType::kBF16;
  constexpr std::string_view kFour = "int4-g";
  int64_t group = 0;
  if (scheme == "int8") {
    config.bits = 8;
    config.group_size = -1;
    return config;
  }
  if (scheme.starts_with(kFour)) {
    const std::string_view number = scheme.substr(kFour.size());
    const bool is_group =
        absl::SimpleAtoi(absl::string_view(number.data(), number.size()), &group) && group >= 8 &&
        group <= kGroupMax && group % 8 == 0;
    // One text for each: it is part of the fingerprint.
    if (is_group && number == absl::StrCat(group)) {
      config.bits = 4;
      config.group_size = group;
      return config;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--quantize ", std::string(scheme),
                   " is unknown; give int8, or int4-g128 (groups of 128, or of another multiple of "
                   "8)"));
}

absl::Status CheckGroups(const QuantConfig& quant, const std::string& tensor, int64_t in) {
  if (quant.group_size == -1 || in % quant.group_size == 0) return absl::OkStatus();
  return RefuseTensor(tensor,
                      absl::StrCat("has ", in, " inputs, which groups of ", quant.group_size,
                                   " do not divide; choose int8, or int4-gN with another "
                                   "N"));
}

absl::Status ApplyQuantise(const QuantiseChoice& choice, ModelConfig* config) {
  if (choice.scheme.empty()) {
    if (!choice.head) return absl::OkStatus();
    return absl::InvalidArgumentError("--quantize-head says how little without --quantize");
  }
  if (!config->quant.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--quantize: the checkpoint is quantised already: ",
                     DescribeFormats(config->quant, config->num_layers)));
  }
  TUTTI_ASSIGN_OR_RETURN(const QuantConfig quant, ParseQuantiseScheme(choice.scheme));
  uint32_t roles = UsualQuantisedRoles();
  if (choice.head) roles |= 1u << static_cast<unsigned>(Role::kHead);
  for (const CheckpointTensor& tensor : ListCheckpointTensors(*config)) {
    if ((roles >> static_cast<unsigned>(tensor.role) & 1) == 0) continue;
    TUTTI_RETURN_IF_ERROR(CheckGroups(quant, tensor.name, tensor.shape[1]));
  }
  config->quant = QuantFormats({quant}, roles);
  config->quantise = choice;
  if (!choice.head) return absl::OkStatus();
  TUTTI_RETURN_IF_ERROR(CheckGroups(quant, "the head", config->hidden_size));
  // A head of codes is a matrix of its own.
  config->head_of_embedding = config->tie_word_embeddings;
  config->tie_word_embeddings = false;
  return absl::OkStatus();
}

Range ColsOfCodes(const ModelConfig& config, const ShardTensor& part) {
  CHECK(config.makes_codes(part.spec.role, part.spec.layer));
  const int64_t in = part.spec.shape[1];
  const int64_t said = config.quant.Find(part.spec.role, part.spec.layer)->group_size;
  const int64_t group = said == -1 ? in : said;
  return {part.cols.begin / group * group,
          std::min(in, (part.cols.end + group - 1) / group * group)};
}

std::string ServedFingerprint(const std::string& fingerprint, const ModelConfig& config) {
  if (!config.quantise.has_value()) return fingerprint;
  return absl::StrCat(fingerprint, "-", config.quantise->scheme,
                      config.quantise->head ? "-head" : "");
}

}  // namespace tutti::model
