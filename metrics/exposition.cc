#include "metrics/exposition.h"

#include <array>
#include <charconv>
#include <cmath>

namespace tutti::metrics {
namespace {

// Below it every whole number is exact.
constexpr double kWholeMax = 9007199254740992.0;

void AppendNumber(double value, std::string* text) {
  if (std::isnan(value)) {
    text->append("NaN");
    return;
  }
  if (std::isinf(value)) {
    text->append(value > 0 ? "+Inf" : "-Inf");
    return;
  }
  std::array<char, 40> digits;
  std::to_chars_result end{};
  if (std::floor(value) == value && std::abs(value) < kWholeMax) {
    end = std::to_chars(digits.data(), digits.data() + digits.size(), static_cast<int64_t>(value));
  } else {
    end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  }
  text->append(digits.data(), end.ptr);
}

void AppendEscaped(std::string_view value, bool in_quotes, std::string* text) {
  for (const char c : value) {
    if (c == '\\') {
      text->append("\\\\");
    } else if (c == '\n') {
      text->append("\\n");
    } else if (c == '"' && in_quotes) {
      text->append("\\\"");
    } else {
      text->push_back(c);
    }
  }
}

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kCounter:
      return "counter";
    case Kind::kGauge:
      return "gauge";
    case Kind::kHistogram:
      return "histogram";
  }
  return "untyped";
}

}  // namespace

Labels::Labels(Pairs pairs) {
  for (const auto& [name, value] : pairs) {
    if (!text_.empty()) text_.push_back(',');
    text_.append(name).append("=\"");
    AppendEscaped(value, /*in_quotes=*/true, &text_);
    text_.push_back('"');
  }
}

Labels Labels::With(Pairs more) const {
  const Labels added(more);
  Labels all = *this;
  if (!all.text_.empty() && !added.text_.empty()) all.text_.push_back(',');
  all.text_.append(added.text_);
  return all;
}

void Exposition::Begin(std::string_view name, Kind kind, std::string_view help) {
  name_ = name;
  text_.append("# HELP ").append(name).push_back(' ');
  AppendEscaped(help, /*in_quotes=*/false, &text_);
  text_.append("\n# TYPE ").append(name).append(" ").append(KindName(kind)).append("\n");
}

void Exposition::Sample(std::string_view suffix, const Labels& labels, double value) {
  text_.append(name_).append(suffix);
  if (!labels.text().empty()) text_.append("{").append(labels.text()).append("}");
  text_.push_back(' ');
  AppendNumber(value, &text_);
  text_.push_back('\n');
}

std::string NumberText(double value) {
  std::string text;
  AppendNumber(value, &text);
  return text;
}

std::string BoundText(double value) {
  std::string text = NumberText(value);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace tutti::metrics
