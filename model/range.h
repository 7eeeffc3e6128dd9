// A range of rows, columns or bytes.
#pragma once

#include <cstdint>

namespace tutti::model {

// Half-open.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

}  // namespace tutti::model
