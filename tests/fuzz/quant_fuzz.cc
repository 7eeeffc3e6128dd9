// A quantised matrix from outside: a line with what config.json says of it, and a safetensors file
// with its tensors under the name "x". Refused, or a matrix whose every group exists.
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "model/safetensors.h"
#include "quant/quant_reader.h"

namespace {

using tutti::model::TensorInfo;

class InMemory final : public tutti::quant::TensorSource {
 public:
  InMemory(std::string_view file, std::vector<TensorInfo> tensors)
      : file_(file), tensors_(std::move(tensors)) {}
  const TensorInfo* Find(std::string_view name) const override {
    for (const TensorInfo& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  absl::StatusOr<std::vector<std::byte>> Read(std::string_view name) const override {
    const TensorInfo& tensor = *Find(name);
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes));
    if (!bytes.empty()) std::memcpy(bytes.data(), file_.data() + tensor.offset, bytes.size());
    return bytes;
  }

 private:
  const std::string_view file_;
  const std::vector<TensorInfo> tensors_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t line = all.find('\n');
  if (line == std::string_view::npos) return 0;
  const auto json =
      tutti::model::ParseJson(all.substr(0, line), "config.json", tutti::model::kConfigBytesMax);
  if (!json.ok()) return 0;
  const auto configs = tutti::model::ParseQuantConfigs(*json, "config.json");
  if (!configs.ok()) return 0;
  const std::string_view file = all.substr(line + 1);
  const auto bytes = static_cast<int64_t>(file.size());
  const auto header = tutti::model::SafetensorsHeaderBytes(file.substr(0, 8), bytes);
  if (!header.ok()) return 0;
  auto tensors =
      tutti::model::ParseSafetensorsHeader(file.substr(8, static_cast<size_t>(*header)), bytes);
  if (!tensors.ok()) return 0;
  const InMemory source(file, *std::move(tensors));
  const auto find = [&](const std::string& name) { return source.Find(name); };
  if (!tutti::model::IsQuantised(find, "x")) return 0;
  for (const tutti::model::QuantConfig& config : *configs) {
    const auto matrix = tutti::quant::ReadQuantMatrix(source, "x", config);
    if (!matrix.ok()) continue;
    std::vector<float> row(static_cast<size_t>(matrix->in));
    for (int64_t n = 0; n < matrix->out; ++n) matrix->Dequantise(n, row.data());
    for (const int32_t group : matrix->group_of) CHECK(group >= 0 && group < matrix->groups);
  }
  return 0;
}
