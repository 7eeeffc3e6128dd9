// The messages of an answer so far, for a client that asks for the same answer again.
//
// Thread: one.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

class KeptMessages {
 public:
  explicit KeptMessages(size_t bytes_max) : bytes_max_(bytes_max) {}

  // False, and all are forgotten: they have become more than `bytes_max`.
  bool Add(size_t prompt, const v1::GenerateResponse& message);
  // Messages in an order in which they could have come. Messages may have become one.
  void ForEach(const std::function<void(size_t, const v1::GenerateResponse&)>& visit) const;
  size_t bytes() const { return bytes_; }

 private:
  struct Kept {
    size_t prompt;
    v1::GenerateResponse message;
  };
  size_t bytes_max_;
  std::vector<Kept> kept_;
  std::map<std::pair<size_t, uint32_t>, size_t> last_;  // in `kept_`, by prompt and output
  size_t bytes_ = 0;
};

}  // namespace tutti::gateway
