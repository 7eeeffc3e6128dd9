// Memory of codes that nobody needs any more, for those of the next matrix: to write to pages that
// were written before takes a tenth of the time that new ones take.
//
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::quant {

class SpareCodes {
 public:
  // `size` bytes that may hold anything.
  std::vector<uint8_t> Take(size_t size);
  void GiveBack(std::vector<uint8_t> codes) { spare_.push_back(std::move(codes)); }

 private:
  std::vector<std::vector<uint8_t>> spare_;
};

}  // namespace tutti::quant
