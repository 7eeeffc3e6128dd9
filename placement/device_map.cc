#include "placement/device_map.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/byte_size.h"
#include "base/plain_name.h"
#include "model/partition.h"
#include "nlohmann/json.hpp"
#include "placement/nearest_name.h"

namespace tutti::placement {
namespace {

using Json = nlohmann::json;

constexpr const char* kModes[] = {"auto", "balanced", "balanced_low_0", "sequential"};

// Our own form: a list of stages.
class StageListParser {
 public:
  StageListParser(const std::string& file, const model::ModelConfig& model, int64_t num_devices)
      : file_(file), model_(model), num_devices_(num_devices) {}

  absl::StatusOr<DeviceMap> Parse(const Json& list) {
    if (!list.is_array() || list.empty()) {
      return Bad("must be a JSON array like [{\"worker\": \"w0\", \"layers\": 12}, …], or a ",
                 "HuggingFace device map");
    }
    DeviceMap map;
    int64_t layers = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(MappedStage stage, ReadStage(i, list[i]));
      layers += stage.num_layers;
      map.stages.push_back(std::move(stage));
    }
    if (layers == model_.num_layers) return map;
    const int64_t nearest = map.stages.back().num_layers + model_.num_layers - layers;
    return Bad("the layers add up to ", layers, ", the model has ", model_.num_layers,
               nearest >= 1 ? absl::StrCat("; the nearest valid choice is [", list.size() - 1,
                                           "].layers ", nearest)
                            : "");
  }

 private:
  template <class... Parts>
  absl::Status Bad(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat("device map ", file_, ": ", parts...));
  }

  absl::StatusOr<MappedStage> ReadStage(size_t i, const Json& entry) {
    MappedStage stage;
    if (!entry.is_object() || !entry.contains("worker")) return NoWorker(i);
    const Json& worker = entry["worker"];
    const Json one = Json::array({worker});
    for (const Json& name : worker.is_array() ? worker : one) {
      TUTTI_ASSIGN_OR_RETURN(MappedDevice device, ReadDevice(i, name));
      if (std::find(named_.begin(), named_.end(), device) != named_.end()) {
        return Bad("[", i, "].worker: ", DescribeDevice(device), " is named twice");
      }
      named_.push_back(device);
      stage.devices.push_back(std::move(device));
    }
    if (stage.devices.empty()) return NoWorker(i);
    if (!entry.contains("layers") || !entry["layers"].is_number_unsigned() ||
        entry["layers"].get<uint64_t>() < 1 ||
        entry["layers"].get<uint64_t>() > static_cast<uint64_t>(model_.num_layers)) {
      return Bad("[", i, "].layers must be a number from 1 to ", model_.num_layers);
    }
    stage.num_layers = entry["layers"].get<int32_t>();
    if (const absl::Status status = model::CheckRanks(model_, stage.ranks()); !status.ok()) {
      return Bad("[", i, "].worker: ", status.message());
    }
    return stage;
  }

  absl::StatusOr<MappedDevice> ReadDevice(size_t i, const Json& name) const {
    if (name.is_string() && IsPlainName(name.get<std::string>())) {
      return MappedDevice{.index = -1, .name = name.get<std::string>()};
    }
    if (!name.is_number_unsigned() || name.get<uint64_t>() > kDeviceNumberMax) return NoWorker(i);
    const auto index = name.get<int64_t>();
    if (num_devices_ < 0 || index < num_devices_) return MappedDevice{.index = index, .name = {}};
    return Bad("[", i, "].worker: device ", index, " is not there; there are ", num_devices_,
               ", the nearest is ", num_devices_ - 1);
  }

  absl::Status NoWorker(size_t i) const {
    return Bad("[", i, "].worker must be a worker id ([A-Za-z0-9._-]{1,128}), a device's number, ",
               "or a list of them");
  }

  const std::string& file_;
  const model::ModelConfig& model_;
  const int64_t num_devices_;
  std::vector<MappedDevice> named_;
};

absl::StatusOr<DeviceMap> FromModules(const std::string& text, const std::string& file,
                                      const model::ModelConfig& model, int64_t num_devices) {
  TUTTI_ASSIGN_OR_RETURN(ModuleMap modules, ParseModuleMap(text, file, model, num_devices));
  DeviceMap map{.notes = std::move(modules.notes)};
  for (ModuleMap::Stage& stage : modules.stages) {
    if (stage.device.index < 0 && !IsPlainName(stage.device.name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "device map ", file, ": \"", absl::CHexEscape(stage.device.name),
          "\" is not a device; write 0, \"cuda:0\" or a worker id ([A-Za-z0-9._-]{1,128})"));
    }
    map.stages.push_back({.devices = {std::move(stage.device)}, .num_layers = stage.num_layers});
  }
  return map;
}

}  // namespace

std::string DescribeDevice(const MappedDevice& device) {
  return device.index >= 0 ? absl::StrCat("device ", device.index) : device.name;
}

std::string DescribeDevices(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    shown.push_back(absl::StrCat(i, " (", names[i], ")"));
  }
  const std::string count = names.size() == 1
                                ? "there is 1 device"
                                : absl::StrCat("there are ", names.size(), " devices");
  return absl::StrCat(count, names.empty() ? "" : ": ", absl::StrJoin(shown, ", "),
                      names.size() > kShown ? ", …" : "");
}

bool NamesNumbers(const DeviceMap& map) {
  for (const MappedStage& stage : map.stages) {
    for (const MappedDevice& device : stage.devices) {
      if (device.index >= 0) return true;
    }
  }
  return false;
}

absl::StatusOr<std::vector<int64_t>> ResolveDevices(const DeviceMap& map,
                                                    const std::vector<std::string>& names) {
  const auto count = static_cast<int64_t>(names.size());
  std::vector<int64_t> resolved;
  for (const MappedStage& stage : map.stages) {
    for (const MappedDevice& device : stage.devices) {
      int64_t index = device.index;
      if (index < 0) index = std::find(names.begin(), names.end(), device.name) - names.begin();
      if (index >= count) {
        std::string nearest;
        if (count > 0) {
          nearest = absl::StrCat("; the nearest is ", device.index >= 0
                                                          ? absl::StrCat(count - 1)
                                                          : NearestName(device.name, names));
        }
        return absl::NotFoundError(absl::StrCat(DescribeDevice(device),
                                                " of the device map is not there; ",
                                                DescribeDevices(names), nearest));
      }
      if (std::find(resolved.begin(), resolved.end(), index) != resolved.end()) {
        return absl::InvalidArgumentError(absl::StrCat("the device map names device ", index, " (",
                                                       names[index],
                                                       ") twice, by its number and by its name"));
      }
      resolved.push_back(index);
    }
  }
  return resolved;
}

absl::StatusOr<DeviceMap> ParseDeviceMap(const std::string& text, const std::string& file,
                                         const model::ModelConfig& model, int64_t num_devices) {
  if (static_cast<int64_t>(text.size()) > kModuleMapBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("device map ", file, ": larger than ", FormatBytes(kModuleMapBytesMax)));
  }
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start != std::string::npos && text[start] == '{') {
    return FromModules(text, file, model, num_devices);
  }
  // No map is nested deeper than a list of stages with a list of workers each.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= 3; };
  return StageListParser(file, model, num_devices)
      .Parse(Json::parse(text, shallow, /*allow_exceptions=*/false));
}

absl::StatusOr<DeviceMap> ReadDeviceMap(const std::string& value, const model::ModelConfig& model,
                                        int64_t num_devices) {
  if (value.empty()) return DeviceMap{};
  if (const std::optional<DeviceMapMode> mode = ParseDeviceMapMode(value)) {
    return DeviceMap{.mode = *mode};
  }
  std::error_code error;
  const auto size = std::filesystem::file_size(value, error);
  std::ifstream in(value, std::ios::binary);
  if (error || !in) {
    return absl::NotFoundError(absl::StrCat(
        "--device-map ", absl::CHexEscape(value), ": neither auto, balanced, balanced_low_0 nor ",
        "sequential, nor a file that can be read; the nearest mode is ",
        NearestName(value, {std::begin(kModes), std::end(kModes)})));
  }
  if (size > static_cast<uintmax_t>(kModuleMapBytesMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("device map ", value, ": larger than ", FormatBytes(kModuleMapBytesMax)));
  }
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return ParseDeviceMap(text, value, model, num_devices);
}

}  // namespace tutti::placement
