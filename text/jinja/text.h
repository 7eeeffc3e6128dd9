// A string that remembers which of its bytes came from the user.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::text::jinja {

// Valid UTF-8 in runs of one origin each. Everything a template does with strings keeps the origin
// of every byte, so that in the end only text of the template itself can become special tokens.
class Text {
 public:
  struct Run {
    size_t end = 0;  // offset behind its last byte
    bool from_user = false;
  };

  Text() = default;
  Text(std::string bytes, bool from_user);

  std::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool AnyFromUser() const;
  // Bytes of memory it takes.
  size_t memory() const { return bytes_.size() + runs_.size() * sizeof(Run); }
  // In order; adjacent runs differ in origin, none is empty.
  const std::vector<Run>& runs() const { return runs_; }

  void Append(std::string_view bytes, bool from_user);
  void Append(const Text& other) { Append(other, 0, other.size()); }
  // Appends other.Substr(begin, length).
  void Append(const Text& other, size_t begin, size_t length);

  // REQUIRES: begin + length <= size(), both at the boundaries of characters
  Text Substr(size_t begin, size_t length) const;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace tutti::text::jinja
