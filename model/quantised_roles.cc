#include "model/quantised_roles.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "model/quantised_tensors.h"
#include "model/weight_map.h"
#include "text/text_file.h"

namespace tutti::model {
namespace {

constexpr uint32_t Bit(Role role) { return 1u << static_cast<unsigned>(role); }

// Parts of one product are multiplied together.
constexpr uint32_t kProducts[] = {Bit(Role::kQuery) | Bit(Role::kKey) | Bit(Role::kValue),
                                  Bit(Role::kGate) | Bit(Role::kUp),
                                  Bit(Role::kExpertGate) | Bit(Role::kExpertUp)};

constexpr Role kRoles[] = {Role::kEmbedding,       Role::kQuery,    Role::kKey,        Role::kValue,
                           Role::kAttentionOutput, Role::kGate,     Role::kUp,         Role::kDown,
                           Role::kExpertGate,      Role::kExpertUp, Role::kExpertDown, Role::kHead};

std::string AllOf(const std::vector<QuantConfig>& formats) {
  return absl::StrJoin(formats, ", and ", [](std::string* text, const QuantConfig& format) {
    absl::StrAppend(text, DescribeQuantConfig(format));
  });
}

std::string Named(const QuantConfig* format) {
  return format == nullptr ? "not quantised" : DescribeQuantConfig(*format);
}

class FormatFinder {
 public:
  FormatFinder(const Checkpoint& checkpoint, ModelConfig* config)
      : checkpoint_(checkpoint), config_(*config), found_(config->quant) {
    found_.Clear(config_.num_layers);
    seen_.resize(static_cast<size_t>(config_.num_layers) + 1);
    for (Row& row : seen_) row.fill(kUnseen);
  }

  absl::Status Run() {
    for (const WeightSpec& spec : ListWeights(config_, WholeModel(config_))) {
      if (spec.shape.size() > 1) TUTTI_RETURN_IF_ERROR(Look(spec));
    }
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      for (const uint32_t product : kProducts) {
        TUTTI_RETURN_IF_ERROR(CheckProduct(layer, product));
      }
    }
    if (config_.quant.empty()) return absl::OkStatus();
    for (const Role role : kRoles) PutAll(role);
    // A head of codes is a matrix of its own: the embedding's rows are expanded.
    if (config_.tie_word_embeddings && found_.Find(Role::kHead, -1) != nullptr) {
      config_.tie_word_embeddings = false;
      config_.head_of_embedding = true;
    }
    config_.quant = std::move(found_);
    return absl::OkStatus();
  }

 private:
  // Numbers of formats by role.
  using Row = std::array<int, static_cast<size_t>(Role::kHead) + 1>;
  static constexpr int kUnseen = -1;

  int& Seen(Role role, int64_t layer) {
    return seen_[static_cast<size_t>(layer + 1)][static_cast<size_t>(role)];
  }

  absl::Status Look(const WeightSpec& spec) {
    const auto find = [&](const std::string& name) { return checkpoint_.Find(name); };
    const std::string prefix = QuantPrefix(spec.name);
    int number = 0;
    if (IsQuantised(find, prefix)) {
      TUTTI_ASSIGN_OR_RETURN(number, NumberOfCodes(find, spec, prefix));
    } else if (checkpoint_.Find(spec.name) == nullptr) {
      return absl::OkStatus();
    }
    int& seen = Seen(spec.role, spec.layer);
    if (seen != kUnseen && seen != number) {
      return absl::UnimplementedError(absl::StrCat(
          checkpoint_.dir(), ": tensor ", Quoted(spec.name), " (", std::string(RoleName(spec.role)),
          ") is ", Named(found_.ByNumber(static_cast<uint8_t>(number))),
          ", those of other experts of its layer are ",
          Named(found_.ByNumber(static_cast<uint8_t>(seen))),
          ": all experts of a layer are served alike only"));
    }
    seen = number;
    return absl::OkStatus();
  }

  absl::StatusOr<int> NumberOfCodes(TensorFinder find, const WeightSpec& spec,
                                    const std::string& prefix) {
    const std::string what = absl::StrCat(checkpoint_.dir(), ": tensors of ", Quoted(prefix), " (",
                                          std::string(RoleName(spec.role)), ")");
    if (config_.quant.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what,
                       " are quantised, but config.json has no quantization_config that says "
                       "how; bring back the file as it was published"));
    }
    if (std::find(std::begin(kRoles), std::end(kRoles), spec.role) == std::end(kRoles)) {
      return absl::UnimplementedError(absl::StrCat(
          what,
          " are quantised, which is served of the matrices of layers, the embedding and the head"));
    }
    TUTTI_ASSIGN_OR_RETURN(const QuantConfig format, Choose(find, spec, prefix, what));
    return found_.NumberOf(format);
  }

  // The one of the formats of config.json that the tensors have, with the type of their scales.
  // Where they fit several, it is that with most tensors: zero points tell from none.
  absl::StatusOr<QuantConfig> Choose(TensorFinder find, const WeightSpec& spec,
                                     const std::string& prefix, const std::string& what) const {
    const std::vector<QuantConfig>& said = config_.quant.said();
    absl::Status first;
    std::vector<QuantConfig> best;
    size_t most = 0;
    for (QuantConfig format : said) {
      const auto matrix =
          FindQuantisedMatrix(find, prefix, format, spec.tensor_rows, spec.shape[1]);
      if (!matrix.ok()) {
        if (first.ok()) first = matrix.status();
        continue;
      }
      format.scale_type = HeldScaleType(format, *matrix);
      if (matrix->tensors.size() < most) continue;
      if (matrix->tensors.size() > most) best.clear();
      most = matrix->tensors.size();
      if (std::find(best.begin(), best.end(), format) == best.end()) best.push_back(format);
    }
    if (best.size() == 1) return best.front();
    if (best.empty() && said.size() == 1) return first;
    if (best.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " fit none of the ", said.size(),
                       " formats of config.json; the first: ", std::string(first.message())));
    }
    return absl::UnimplementedError(
        absl::StrCat(what,
                     " fit several formats of config.json, which nothing but names of layers "
                     "tells apart: ",
                     DescribeQuantConfig(best[0]), ", and ", DescribeQuantConfig(best[1])));
  }

  absl::Status CheckProduct(int64_t layer, uint32_t product) {
    const Role* first = nullptr;
    for (const Role& role : kRoles) {
      if ((product & Bit(role)) == 0 || Seen(role, layer) == kUnseen) continue;
      if (first == nullptr) first = &role;
      const int number = Seen(role, layer), other = Seen(*first, layer);
      if (number == other) continue;
      return absl::UnimplementedError(absl::StrCat(
          checkpoint_.dir(), ": layer ", layer, ": of one product (query, key and value, or gate ",
          "and up) ", std::string(RoleName(*first)), " is ",
          Named(found_.ByNumber(static_cast<uint8_t>(other))), ", ", std::string(RoleName(role)),
          " is ", Named(found_.ByNumber(static_cast<uint8_t>(number))),
          ": they are served alike only"));
    }
    return absl::OkStatus();
  }

  // Layers that this checkpoint lacks are taken to be as those that it has.
  void PutAll(Role role) {
    const bool of_layers = (UsualQuantisedRoles() & Bit(role)) != 0;
    const int64_t begin = of_layers ? 0 : -1, end = of_layers ? config_.num_layers : 0;
    int any = 0;
    for (int64_t layer = end - 1; layer >= begin; --layer) {
      if (Seen(role, layer) != kUnseen) any = Seen(role, layer);
    }
    for (int64_t layer = begin; layer < end; ++layer) {
      const int seen = Seen(role, layer);
      found_.Put(role, layer, static_cast<uint8_t>(seen == kUnseen ? any : seen));
    }
  }

  const Checkpoint& checkpoint_;
  ModelConfig& config_;
  QuantFormats found_;
  std::vector<Row> seen_;  // of what is in no layer, then layer by layer
};

}  // namespace

absl::Status FindQuantisedRoles(const Checkpoint& checkpoint, ModelConfig* config) {
  return FormatFinder(checkpoint, config).Run();
}

absl::Status LoadQuantizeConfig(const std::string& dir, ModelConfig* config) {
  const std::string file = dir + "/quantize_config.json";
  if (!text::IsThere(file)) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(const std::string text, text::ReadTextFile(file, kConfigBytesMax));
  TUTTI_ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(text, file, kConfigBytesMax));
  TUTTI_ASSIGN_OR_RETURN(std::vector<QuantConfig> said, ParseQuantConfigs(root, file));
  if (config->quant.empty()) {
    config->quant = QuantFormats(std::move(said), UsualQuantisedRoles());
    return absl::OkStatus();
  }
  if (said == config->quant.said()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file, " says ", AllOf(said), ", config.json says ", AllOf(config->quant.said()),
                   " (or they differ in sym, desc_act or the layout); "
                   "remove the one that is wrong"));
}

}  // namespace tutti::model
