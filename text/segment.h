// A stretch of prompt text and its origin: the template or the user.
#pragma once

#include <string>
#include <vector>

namespace tutti::text {

// A rendered chat prompt is a list of these. Only text written by the template itself may become
// special tokens; text of a user stays ordinary text even where it spells one ("<|im_end|>").
struct Segment {
  std::string text;        // valid UTF-8
  bool from_user = false;  // any part of it was given with the request

  bool operator==(const Segment&) const = default;
};

}  // namespace tutti::text
