// Python's str methods, with the origin of every byte kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

enum class Side { kLeft, kRight, kBoth };

// Without the characters of `chars` at its ends; without whitespace when `chars` is absent.
Text Strip(const Text& text, std::optional<std::string_view> chars, Side side);

// The first `count` occurrences replaced, all when negative.
// Errors: ResourceExhausted.
absl::StatusOr<Text> Replace(const Text& text, std::string_view old, const Text& by, int64_t count,
                             Work* work);

// str.upper, lower, capitalize and title. TitleWords is Jinja's filter title, where words end only
// at spaces and at - ( { [ <.
Text Upper(const Text& text);
Text Lower(const Text& text);
Text Capitalize(const Text& text);
Text Title(const Text& text);
Text TitleWords(const Text& text);

// str.splitlines.
std::vector<Text> SplitLines(const Text& text, bool keep_ends);

// The parts between occurrences of `separator`, or between runs of whitespace when absent; at most
// `max` cuts unless negative, counted from the right if `from_right`. Errors: InvalidArgument when
// `separator` is empty; ResourceExhausted.
absl::StatusOr<Value> Split(const Text& text, std::optional<std::string_view> separator,
                            int64_t max, bool from_right, Work* work);

// The places where text[begin:end:step] begins and ends by Python's slice.indices(), for `size`
// items.
struct SliceBounds {
  int64_t begin = 0, end = 0;
};
SliceBounds BoundsOfSlice(size_t size, std::optional<int64_t> begin, std::optional<int64_t> end,
                          int64_t step);

// text[begin:end:step] of Python, in characters; absent as in Python. REQUIRES: step != 0
absl::StatusOr<Text> SliceText(const Text& text, std::optional<int64_t> begin,
                               std::optional<int64_t> end, int64_t step, Work* work);

// The indices that [begin:end:step] selects of `size` items, in order.  REQUIRES: step != 0
std::vector<size_t> SliceIndices(size_t size, std::optional<int64_t> begin,
                                 std::optional<int64_t> end, int64_t step);

}  // namespace tutti::text::jinja
