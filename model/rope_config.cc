// Rotary embedding as the config.json of Llama-shaped families writes it down: "rope_parameters"
// since transformers 5, "rope_theta" and "rope_scaling" before. A file may have both.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/portable_math.h"
#include "model/family.h"
#include "model/json_document.h"
#include "model/limits.h"

namespace tutti::model {
namespace {

using Scaling = RopeConfig::Scaling;

// The factor by which scores get larger when a context is stretched (YaRN, section 3.4).
double YarnMagnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * Log(factor) + 1;
}

double ReadYarnAttentionFactor(ConfigFields& rope, double factor) {
  if (rope.Has("attention_factor")) {
    return rope.Number("attention_factor", kRopeNumberMin, kRopeFactorMax);
  }
  const double mscale = rope.NumberOr("mscale", 0, kRopeFactorMax, 0);
  const double all_dim = rope.NumberOr("mscale_all_dim", 0, kRopeFactorMax, 0);
  if (mscale == 0 || all_dim == 0) return YarnMagnitude(factor, 1);
  return YarnMagnitude(factor, mscale) / YarnMagnitude(factor, all_dim);
}

// The base of a file that does not say: what transformers takes for all of these families.
constexpr double kUsualTheta = 10000;

void ReadLlama3(ConfigFields& rope, int64_t context, RopeConfig* to) {
  to->scaling = Scaling::kLlama3;
  to->low_freq_factor = rope.Number("low_freq_factor", kRopeNumberMin, kRopeFactorMax);
  to->high_freq_factor = rope.Number("high_freq_factor", kRopeNumberMin, kRopeFactorMax);
  to->original_context = rope.IntOr("original_max_position_embeddings", 1, kContextMax, context);
  if (rope.status().ok() && to->high_freq_factor <= to->low_freq_factor) {
    rope.Invalid(absl::StrCat("high_freq_factor ", to->high_freq_factor,
                              " must be above low_freq_factor ", to->low_freq_factor));
  }
}

void ReadYarn(ConfigFields& rope, int64_t context, RopeConfig* to) {
  to->scaling = Scaling::kYarn;
  to->beta_fast = rope.NumberOr("beta_fast", kRopeNumberMin, kRopeFactorMax, 32);
  to->beta_slow = rope.NumberOr("beta_slow", kRopeNumberMin, kRopeFactorMax, 1);
  to->truncate = rope.BoolOr("truncate", true);
  to->attention_factor = ReadYarnAttentionFactor(rope, to->factor);
  to->original_context = rope.IntOr("original_max_position_embeddings", 1, kContextMax, context);
}

// The members that are read here; any other would change the rotation in a way that is not known.
// "finetuned" tells people of the model's history.
constexpr std::string_view kRopeMembers[] = {"rope_type",
                                             "type",
                                             "rope_theta",
                                             "factor",
                                             "low_freq_factor",
                                             "high_freq_factor",
                                             "beta_fast",
                                             "beta_slow",
                                             "truncate",
                                             "attention_factor",
                                             "mscale",
                                             "mscale_all_dim",
                                             "finetuned",
                                             "original_max_position_embeddings",
                                             "max_position_embeddings",
                                             "partial_rotary_factor"};

void RefuseOthers(ConfigFields& rope) {
  for (const auto& [name, value] : rope.object().items()) {
    if (value.is_null() || std::find(std::begin(kRopeMembers), std::end(kRopeMembers), name) !=
                               std::end(kRopeMembers)) {
      continue;
    }
    rope.Unsupported(absl::StrCat(name, " is not supported"));
  }
}

// "rope_parameters": an object, or one for each type of layers, of which there is full attention
// alone. Null: absent, or an error.
struct RopeParameters {
  const nlohmann::json* object = nullptr;
  std::string name = "rope_parameters";
};
RopeParameters FindParameters(ConfigFields& fields) {
  RopeParameters found;
  found.object = fields.Object(found.name);
  if (found.object == nullptr) return found;
  const bool by_type = std::any_of(found.object->begin(), found.object->end(),
                                   [](const nlohmann::json& member) { return member.is_object(); });
  if (!by_type) return found;
  ConfigFields types(*found.object, absl::StrCat(fields.prefix(), ": ", found.name));
  found.object = types.Object(kFullAttention);
  if (found.object == nullptr) {
    types.Unsupported(absl::StrCat("has objects, but none for ", kFullAttention));
  }
  // Layers of another type would need angles of their own. A type that no layer has is harmless.
  const auto layers = fields.object().find("layer_types");
  for (const auto& [type, parameters] : types.object().items()) {
    const bool used = layers != fields.object().end() && layers->is_array() &&
                      std::find(layers->begin(), layers->end(), type) != layers->end();
    if (used && found.object != nullptr && parameters != *found.object) {
      types.Unsupported(absl::StrCat(Quoted(type), " differs from ", kFullAttention,
                                     ": one for all layers is supported"));
    }
  }
  fields.Adopt(types.status());
  absl::StrAppend(&found.name, ".", kFullAttention);
  return found;
}

// One of the two objects: its scaling, without a base. `context`: the original one of a file that
// does not say; `written`: max_position_embeddings.
RopeConfig ReadScaling(ConfigFields& fields, const nlohmann::json& object, const std::string& name,
                       int64_t context, int64_t written) {
  ConfigFields rope(object, absl::StrCat(fields.prefix(), ": ", name));
  RopeConfig config;
  const std::string type = rope.TextOr("rope_type", rope.TextOr("type", "default"));
  if (rope.TextOr("type", type) != type) rope.Invalid("type and rope_type differ");
  if (type == "linear" || type == "llama3" || type == "yarn" || type == "dynamic") {
    config.factor = rope.Number("factor", 1, kRopeFactorMax);
  }
  if (type == "linear") {
    config.scaling = Scaling::kLinear;
  } else if (type == "dynamic") {
    // transformers looks at max_position_embeddings alone.
    config.scaling = Scaling::kDynamic;
    config.original_context = written;
  } else if (type == "llama3") {
    ReadLlama3(rope, context, &config);
  } else if (type == "yarn") {
    ReadYarn(rope, context, &config);
  } else if (type != "default") {
    rope.Unsupported(absl::StrCat("rope_type ", Quoted(type),
                                  " is not supported; supported: default, dynamic, linear, "
                                  "llama3, yarn"));
  }
  if (rope.NumberOr("partial_rotary_factor", 0, 1, 1) != 1) {
    rope.Unsupported("partial_rotary_factor other than 1 is not supported");
  }
  RefuseOthers(rope);
  fields.Adopt(rope.status());
  return config;
}

double ReadTheta(ConfigFields& fields, const RopeParameters& parameters) {
  std::optional<double> theta;
  if (parameters.object != nullptr) {
    ConfigFields rope(*parameters.object, absl::StrCat(fields.prefix(), ": ", parameters.name));
    if (rope.Has("rope_theta")) theta = rope.Number("rope_theta", kRopeThetaMin, kRopeThetaMax);
    fields.Adopt(rope.status());
  }
  if (fields.Has("rope_theta")) {
    const double outer = fields.Number("rope_theta", kRopeThetaMin, kRopeThetaMax);
    if (theta.value_or(outer) != outer) {
      fields.Invalid("rope_theta and rope_parameters.rope_theta differ");
    }
    theta = outer;
  }
  return theta.value_or(kUsualTheta);
}

// A linear and a dynamic scaling multiply the context that is written down, YaRN's is a multiple of
// the trained one; Llama 3 writes the longer one down.
int64_t ScaledContext(const RopeConfig& rope, int64_t written) {
  const bool multiplies = rope.scaling == Scaling::kLinear || rope.scaling == Scaling::kDynamic;
  const double base = multiplies                       ? static_cast<double>(written)
                      : rope.scaling == Scaling::kYarn ? static_cast<double>(rope.original_context)
                                                       : 0;
  const double scaled = std::min(base * rope.factor, static_cast<double>(kContextMax));
  return std::max(written, static_cast<int64_t>(scaled));
}

}  // namespace

void ReadRope(ConfigFields& fields, ModelConfig* config) {
  if (fields.NumberOr("partial_rotary_factor", 0, 1, 1) != 1) {
    fields.Unsupported("partial_rotary_factor other than 1 is not supported");
  }
  const int64_t written = config->max_position_embeddings;
  const int64_t context = fields.IntOr("original_max_position_embeddings", 1, kContextMax, written);
  const nlohmann::json* scaling = fields.Object("rope_scaling");
  const RopeParameters parameters = FindParameters(fields);
  if (parameters.object != nullptr) {
    config->rope = ReadScaling(fields, *parameters.object, parameters.name, context, written);
  }
  if (scaling != nullptr) {
    const RopeConfig older = ReadScaling(fields, *scaling, "rope_scaling", context, written);
    if (parameters.object != nullptr && older != config->rope) {
      fields.Invalid("rope_scaling and rope_parameters differ");
    }
    config->rope = older;
  }
  config->rope.theta = ReadTheta(fields, parameters);
  config->rope.rotary_dim = config->head_dim;
  if (config->rope.scaling == Scaling::kYarn && config->rope.theta <= 1) {
    fields.Invalid("rope_theta must be above 1 for rope_type yarn");
  }
  if (config->rope.scaling == Scaling::kDynamic && config->head_dim < 4) {
    fields.Invalid("head_dim must be 4 or more for rope_type dynamic");
  }
  config->max_position_embeddings = ScaledContext(config->rope, config->max_position_embeddings);
}

}  // namespace tutti::model
