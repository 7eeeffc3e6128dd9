#include "worker/sampling/hard_rows_testing.h"

#include <cmath>
#include <functional>
#include <limits>

#include "base/random.h"

namespace tutti::worker {

std::vector<HardRow> HardRows(int size) {
  std::vector<HardRow> rows;
  const auto add = [&](std::string name, const std::function<double(int)>& logit) {
    HardRow row = {.name = std::move(name)};
    for (int i = 0; i < size; ++i) row.logits.push_back(static_cast<float>(logit(i)));
    rows.push_back(std::move(row));
  };
  Random random(7);
  const auto noise = [&random] { return 8 * random.Uniform() - 4; };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  add("all equal", [](int) { return -3.25; });
  add("two values", [](int i) { return i % 3 == 0 ? 1.5 : 1.25; });
  add("ascending", [](int i) { return i * 1e-3; });
  add("descending", [](int i) { return 2 - i * 1e-3; });
  add("neighbours", [](int i) { return 1 + (i * 7 % 1000) * 0x1p-23; });
  add("denormals", [](int i) { return static_cast<double>(kSmallest) * (i * 13 % 501 - 250); });
  add("both zeros", [](int i) { return i % 2 == 0 ? 0.0 : -0.0; });
  add("the ends", [](int i) { return i % 5 == 4 ? 3.4e38 : i % 5 == 2 ? -3.4e38 : i; });
  add("many of no weight", [&](int i) { return i % 4 == 1 ? noise() : -kInfinity; });
  add("noise", [&](int) { return noise(); });
  add("one above a plain", [size](int i) { return i == size / 2 ? 9 : -4; });
  add("few values", [&](int) { return std::floor(noise()) / 4; });
  return rows;
}

}  // namespace tutti::worker
