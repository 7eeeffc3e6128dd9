// Rows of logits that are hard on a selection: ties, a single value, all orders, the ends of f32.
#pragma once

#include <string>
#include <vector>

namespace tutti::worker {

struct HardRow {
  std::string name;
  std::vector<float> logits;
};

// `size` logits each.
std::vector<HardRow> HardRows(int size);

}  // namespace tutti::worker
