// HMAC-SHA-256 of text that comes in pieces.
//
// Thread: one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace tutti::transport {

class KeyedHash {
 public:
  explicit KeyedHash(std::string_view key);
  ~KeyedHash();
  KeyedHash(const KeyedHash&) = delete;
  KeyedHash& operator=(const KeyedHash&) = delete;

  void Add(std::string_view piece);
  // kProofBytes.  REQUIRES: called once, and last
  std::string Finish();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace tutti::transport
