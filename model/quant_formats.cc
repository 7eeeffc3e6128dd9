#include "model/quant_formats.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace tutti::model {
namespace {

// "layers 0, 3 to 5" of ascending numbers.
std::string LayersText(const std::vector<int64_t>& layers) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    ranges.push_back(end == i + 1 ? absl::StrCat(layers[i])
                                  : absl::StrCat(layers[i], " to ", layers[end - 1]));
    i = end;
  }
  return absl::StrCat(layers.size() == 1 ? "layer " : "layers ", absl::StrJoin(ranges, ", "));
}

// The formats of a layer, each with its roles.
std::string LayerText(const QuantFormats& formats, int64_t layer) {
  std::vector<std::pair<const QuantConfig*, std::vector<std::string>>> parts;
  for (int i = 0; i <= static_cast<int>(Role::kHead); ++i) {
    const Role role = static_cast<Role>(i);
    const QuantConfig* const format = formats.Find(role, layer);
    if (format == nullptr) continue;
    const auto known = std::find_if(parts.begin(), parts.end(),
                                    [&](const auto& part) { return part.first == format; });
    auto& part = known == parts.end() ? parts.emplace_back(format, 0) : *known;
    part.second.emplace_back(RoleName(role));
  }
  if (parts.empty()) return "not quantised";
  std::vector<std::string> texts;
  for (const auto& [format, roles] : parts) {
    texts.push_back(absl::StrCat(absl::StrJoin(roles, ", "), ": ", DescribeQuantConfig(*format)));
  }
  return absl::StrJoin(texts, "; ");
}

}  // namespace

uint32_t UsualQuantisedRoles() {
  uint32_t roles = 0;
  for (const Role role :
       {Role::kQuery, Role::kKey, Role::kValue, Role::kAttentionOutput, Role::kGate, Role::kUp,
        Role::kDown, Role::kExpertGate, Role::kExpertUp, Role::kExpertDown}) {
    roles |= 1u << static_cast<unsigned>(role);
  }
  return roles;
}

QuantFormats::QuantFormats(std::vector<QuantConfig> said, uint32_t roles) : said_(std::move(said)) {
  CHECK(!said_.empty());
  const uint8_t first = NumberOf(said_.front());
  for (size_t i = 0; i < taken_.size(); ++i) {
    if ((roles >> i & 1) != 0) taken_[i] = first;
  }
}

const QuantFormats::Row& QuantFormats::RowOf(int64_t layer) const {
  const auto row = static_cast<size_t>(layer + 1);
  return row < rows_.size() ? rows_[row] : taken_;
}

const QuantConfig* QuantFormats::Find(Role role, int64_t layer) const {
  return ByNumber(RowOf(layer)[static_cast<size_t>(role)]);
}

bool QuantFormats::any() const {
  const auto has = [](const Row& row) { return row != Row{}; };
  return rows_.empty() ? has(taken_) : std::any_of(rows_.begin(), rows_.end(), has);
}

void QuantFormats::Clear(int64_t num_layers) {
  formats_.clear();
  taken_ = {};
  rows_.assign(static_cast<size_t>(num_layers) + 1, Row{});
}

uint8_t QuantFormats::NumberOf(const QuantConfig& format) {
  const auto known = std::find(formats_.begin(), formats_.end(), format);
  const auto number = static_cast<size_t>(known - formats_.begin()) + 1;
  if (known == formats_.end()) formats_.push_back(format);
  CHECK(number <= std::numeric_limits<uint8_t>::max()) << "formats are at most kQuantFormatsMax";
  return static_cast<uint8_t>(number);
}

const QuantConfig* QuantFormats::ByNumber(uint8_t number) const {
  return number == 0 ? nullptr : &formats_[number - size_t{1}];
}

void QuantFormats::Put(Role role, int64_t layer, uint8_t number) {
  rows_[static_cast<size_t>(layer + 1)][static_cast<size_t>(role)] = number;
}

std::string DescribeFormats(const QuantFormats& formats, int64_t num_layers) {
  std::vector<std::vector<int64_t>> kinds;
  const QuantConfig* only = nullptr;
  bool one = true;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    const auto alike = std::find_if(kinds.begin(), kinds.end(), [&](const auto& layers) {
      return formats.Alike(layers.front(), layer);
    });
    if (alike == kinds.end()) {
      kinds.push_back({layer});
    } else {
      alike->push_back(layer);
    }
  }
  for (int i = 0; i <= static_cast<int>(Role::kHead); ++i) {
    if ((UsualQuantisedRoles() >> i & 1) == 0) continue;
    const QuantConfig* const format = formats.Find(static_cast<Role>(i), 0);
    if (format != nullptr && only == nullptr) only = format;
    one = one && (format == nullptr || format == only);
  }
  if (kinds.size() == 1 && one && only != nullptr) return DescribeQuantConfig(*only);
  std::vector<std::string> texts;
  for (const auto& layers : kinds) {
    texts.push_back(absl::StrCat(LayersText(layers), ": ", LayerText(formats, layers.front())));
  }
  return absl::StrJoin(texts, "; ");
}

}  // namespace tutti::model
