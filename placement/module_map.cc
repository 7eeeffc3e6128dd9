#include "placement/module_map.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "model/weight_map.h"
#include "nlohmann/json.hpp"
#include "placement/nearest_name.h"

namespace tutti::placement {
namespace {

using Json = nlohmann::json;

// Modules without weights that maps name all the same.
constexpr const char* kWeightless[] = {"rotary_emb", "rotary_pos_emb", "drop", "act_fn"};

std::string Text(const MappedDevice& device) {
  return device.index >= 0 ? absl::StrCat(device.index) : absl::StrCat("\"", device.name, "\"");
}

std::string ParentOf(const std::string& module) {
  const size_t dot = module.rfind('.');
  return dot == std::string::npos ? std::string() : module.substr(0, dot);
}

// The head's numbers are the embedding's, and its module may have no weights of its own.
bool HeadIsEmbedding(const model::ModelConfig& model) {
  return model.tie_word_embeddings || model.head_of_embedding;
}

// The model's modules, from its weights.
class Modules {
 public:
  explicit Modules(const model::ModelConfig& model) {
    layers_.resize(model.num_layers);
    for (const model::WeightSpec& spec : model::ListWeights(model, model::WholeModel(model))) {
      const std::string module = ParentOf(spec.name);
      for (std::string name = module; !name.empty(); name = ParentOf(name)) known_.insert(name);
      if (spec.layer >= 0) {
        layers_[spec.layer].weights.push_back(module);
        const std::string infix = absl::StrCat(".", spec.layer, ".");
        layers_[spec.layer].name = spec.name.substr(0, spec.name.find(infix) + infix.size() - 1);
      } else if (spec.role == model::Role::kEmbedding) {
        embedding_ = module;
      } else if (spec.role == model::Role::kHead) {
        head_ = HeadIsEmbedding(model) ? "lm_head" : module;
      } else {
        norm_ = module;
      }
    }
    known_.insert(head_);
  }

  struct Layer {
    std::string name;
    std::vector<std::string> weights;  // the modules that hold them
  };
  const std::vector<Layer>& layers() const { return layers_; }
  const std::string& embedding() const { return embedding_; }
  const std::string& norm() const { return norm_; }
  const std::string& head() const { return head_; }

  bool Has(const std::string& module) const {
    if (module.empty() || known_.count(module) > 0) return true;
    const std::string parent = ParentOf(module);
    const std::string last = module.substr(parent.empty() ? 0 : parent.size() + 1);
    return known_.count(parent) > 0 &&
           std::find(std::begin(kWeightless), std::end(kWeightless), last) != std::end(kWeightless);
  }

  // The known module whose name takes the fewest edits; short of the experts of a mixture.
  std::string Nearest(const std::string& module) const {
    std::string nearest;
    size_t fewest = std::string::npos;
    for (const std::string& name : known_) {
      if (absl::StrContains(name, ".experts.")) continue;
      const size_t edits = EditsBetween(module, name);
      if (edits >= fewest) continue;
      fewest = edits;
      nearest = name;
    }
    return nearest;
  }

 private:
  std::set<std::string> known_;
  std::vector<Layer> layers_;
  std::string embedding_;
  std::string norm_;
  std::string head_;
};

class Parser {
 public:
  Parser(const std::string& file, const model::ModelConfig& model, int64_t num_devices)
      : file_(file), model_(model), num_devices_(num_devices), modules_(model) {}

  absl::StatusOr<ModuleMap> Parse(const std::string& text) {
    TUTTI_RETURN_IF_ERROR(Read(text));
    TUTTI_RETURN_IF_ERROR(PlaceLayers());
    TUTTI_RETURN_IF_ERROR(CheckEnds());
    return std::move(result_);
  }

 private:
  template <class... Parts>
  absl::Status Bad(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat("device map ", file_, ": ", parts...));
  }

  absl::Status Read(const std::string& text) {
    if (static_cast<int64_t>(text.size()) > kModuleMapBytesMax) {
      return Bad("larger than ", kModuleMapBytesMax, " bytes");
    }
    // The parser keeps the last of two equal keys, so they are counted on the way.
    std::set<std::string> keys;
    std::string twice;
    const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (depth == 1 && event == Json::parse_event_t::key &&
          !keys.insert(parsed.get<std::string>()).second) {
        twice = parsed.get<std::string>();
      }
      return depth <= 2;
    };
    const Json map = Json::parse(text, watch, /*allow_exceptions=*/false);
    if (!map.is_object() || map.empty()) {
      return Bad("must be a JSON object like {\"", modules_.layers().front().name,
                 "\": 0, …}, module names to devices");
    }
    if (!twice.empty()) return Bad("\"", twice, "\" is given twice; keep one of them");
    for (const auto& [module, value] : map.items()) {
      TUTTI_ASSIGN_OR_RETURN(map_[module], ReadDevice(module, value));
      if (modules_.Has(module)) continue;
      return Bad("the model has no module \"", module, "\"; the nearest is \"",
                 modules_.Nearest(module), "\"");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<MappedDevice> ReadDevice(const std::string& module, const Json& value) const {
    MappedDevice device;
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    absl::string_view digits = name;
    absl::ConsumePrefix(&digits, "cuda:");
    if (value.is_number_unsigned() && value.get<uint64_t>() <= kDeviceNumberMax) {
      device.index = value.get<int64_t>();
    } else if (name == "cuda") {
      device.index = 0;
    } else if (absl::SimpleAtoi(digits, &device.index) && device.index >= 0) {
      device.name.clear();
    } else if (name == "cpu" || name == "disk" || name == "meta" || name == "mps") {
      return Bad(
          "\"", module, "\" goes to \"", name,
          "\": nothing is offloaded, every layer is served by a worker; give a number from 0",
          num_devices_ > 0 ? absl::StrCat(" to ", num_devices_ - 1) : "");
    } else if (!name.empty() && num_devices_ < 0) {
      device = {.index = -1, .name = name};
    } else {
      return Bad("\"", module, "\": ", value.dump(-1, ' ', false, Json::error_handler_t::replace),
                 " is not a device; write 0, \"cuda:0\" and so on");
    }
    if (num_devices_ >= 0 && device.index >= num_devices_) {
      return Bad("\"", module, "\" goes to device ", device.index, "; there are ", num_devices_,
                 ", the last is ", num_devices_ - 1);
    }
    return device;
  }

  // The place where the longest prefix of `module` goes.
  std::optional<MappedDevice> Find(std::string module) const {
    while (true) {
      const auto found = map_.find(module);
      if (found != map_.end()) return found->second;
      if (module.empty()) return std::nullopt;
      module = ParentOf(module);
    }
  }

  absl::Status PlaceLayers() {
    for (size_t i = 0; i < modules_.layers().size(); ++i) {
      const Modules::Layer& layer = modules_.layers()[i];
      std::optional<MappedDevice> device;
      for (const std::string& module : layer.weights) {
        const std::optional<MappedDevice> here = Find(module);
        if (!here.has_value()) return NoDevice(module, device);
        if (device.has_value() && *here != *device) {
          return Bad("\"", module, "\" goes to device ", Text(*here), " and \"",
                     layer.weights.front(), "\" to ", Text(*device),
                     "; a layer is never split: the nearest valid choice is \"", layer.name,
                     "\": ", Text(*device));
        }
        device = here;
      }
      TUTTI_RETURN_IF_ERROR(Append(layer.name, *device));
    }
    return absl::OkStatus();
  }

  // A module that no prefix covers. The device of the module before it is the nearest.
  absl::Status NoDevice(const std::string& module,
                        const std::optional<MappedDevice>& in_layer) const {
    MappedDevice nearest{.index = 0};
    if (!result_.stages.empty()) nearest = result_.stages.back().device;
    if (in_layer.has_value()) nearest = *in_layer;
    return Bad("\"", module, "\" is given no device; the nearest valid choice is \"", module,
               "\": ", Text(nearest));
  }

  absl::Status Append(const std::string& layer, const MappedDevice& device) {
    std::vector<ModuleMap::Stage>& stages = result_.stages;
    if (stages.empty() || stages.back().device != device) {
      for (const ModuleMap::Stage& stage : stages) {
        if (stage.device != device) continue;
        return Bad("\"", layer, "\" goes back to device ", Text(device), ", after device ",
                   Text(stages.back().device),
                   "; a device holds layers that follow each other: the nearest valid choice is \"",
                   layer, "\": ", Text(stages.back().device));
      }
      stages.push_back({.device = device, .num_layers = 0});
    }
    ++stages.back().num_layers;
    return absl::OkStatus();
  }

  absl::Status CheckEnds() {
    const MappedDevice first = result_.stages.front().device;
    const MappedDevice last = result_.stages.back().device;
    TUTTI_RETURN_IF_ERROR(CheckEnd(modules_.embedding(), modules_.layers().front().name, first));
    TUTTI_RETURN_IF_ERROR(CheckEnd(modules_.norm(), modules_.layers().back().name, last));
    if (!HeadIsEmbedding(model_)) {
      return CheckEnd(modules_.head(), modules_.layers().back().name, last);
    }
    // Tied matrices share a device in Accelerate; here both ends hold one.
    const std::optional<MappedDevice> head = Find(modules_.head());
    if (head.has_value() && *head != last && *head != first) {
      return Bad("\"", modules_.head(), "\" goes to device ", Text(*head),
                 ", where neither the first nor the last layer is; the nearest valid choice is \"",
                 modules_.head(), "\": ", Text(last));
    }
    if (first != last) {
      result_.notes.push_back(absl::StrCat("the head is tied to the embedding: devices ",
                                           Text(first), " and ", Text(last), " both hold it"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckEnd(const std::string& module, const std::string& layer,
                        const MappedDevice& wanted) const {
    const std::optional<MappedDevice> device = Find(module);
    if (!device.has_value()) return NoDevice(module, wanted);
    if (*device == wanted) return absl::OkStatus();
    return Bad("\"", module, "\" goes to device ", Text(*device), " and \"", layer, "\" to ",
               Text(wanted), "; they are in one stage: the nearest valid choice is \"", module,
               "\": ", Text(wanted));
  }

  const std::string& file_;
  const model::ModelConfig& model_;
  const int64_t num_devices_;
  const Modules modules_;
  std::map<std::string, MappedDevice> map_;
  ModuleMap result_;
};

}  // namespace

absl::StatusOr<ModuleMap> ParseModuleMap(const std::string& text, const std::string& file,
                                         const model::ModelConfig& model, int64_t num_devices) {
  return Parser(file, model, num_devices).Parse(text);
}

}  // namespace tutti::placement
