#include "text/jinja/text.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::text::jinja {

Text::Text(std::string bytes, bool from_user) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), from_user});
}

bool Text::AnyFromUser() const {
  return std::any_of(runs_.begin(), runs_.end(), [](const Run& run) { return run.from_user; });
}

void Text::Append(std::string_view bytes, bool from_user) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (runs_.empty() || runs_.back().from_user != from_user) runs_.push_back({0, from_user});
  runs_.back().end = bytes_.size();
}

void Text::Append(const Text& other, size_t begin, size_t length) {
  CHECK(begin + length <= other.size()) << begin << " + " << length << " of " << other.size();
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                              [](size_t offset, const Run& run) { return offset < run.end; });
  const size_t end = begin + length;
  while (begin < end) {
    const size_t run_end = std::min(run->end, end);
    Append(std::string_view(other.bytes_).substr(begin, run_end - begin), run->from_user);
    begin = run_end;
    ++run;
  }
}

Text Text::Substr(size_t begin, size_t length) const {
  Text part;
  part.Append(*this, begin, length);
  return part;
}

}  // namespace tutti::text::jinja
