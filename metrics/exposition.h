// The text format of Prometheus (version 0.0.4), written: families one after another, each with all
// of its samples.
//
// Thread: one.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::metrics {

inline constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

enum class Kind { kCounter, kGauge, kHistogram };

// Labels as they are written, so that many samples share the work. Values may hold anything.
class Labels {
 public:
  using Pairs = std::initializer_list<std::pair<std::string_view, std::string_view>>;
  Labels() = default;
  Labels(Pairs pairs);
  // These and more.
  Labels With(Pairs more) const;
  // name="value",name="value"
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Exposition {
 public:
  // A family begins; its name must not have come before. `help` is one line.
  void Begin(std::string_view name, Kind kind, std::string_view help);
  // A sample of the family that has begun.
  void Sample(const Labels& labels, double value) { Sample("", labels, value); }
  // A sample of a name with more behind it: "_bucket".
  void Sample(std::string_view suffix, const Labels& labels, double value);
  // A family with one sample.
  void Single(std::string_view name, Kind kind, std::string_view help, double value) {
    Begin(name, kind, help);
    Sample({}, value);
  }

  std::string Release() { return std::move(text_); }

 private:
  std::string text_;
  std::string name_;
};

// The shortest text that reads as the same number; "+Inf", "NaN".
std::string NumberText(double value);
// The same with a point or an exponent, as bounds are written: "1.0".
std::string BoundText(double value);

}  // namespace tutti::metrics
