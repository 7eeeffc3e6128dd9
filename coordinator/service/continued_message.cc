#include "coordinator/service/continued_message.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tutti::coordinator {
namespace {

// The space at its end tells whether the template trims what a message ends with.
constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kMarkWord = kMark.substr(0, kMark.size() - 1);

absl::Status NotFound(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   ": the chat template leaves out or changes the text of the last message, so the "
                   "prompt cannot end with it; send the prompt as text"));
}

}  // namespace

void MarkEnd(nlohmann::ordered_json* messages) {
  std::string& content = messages->back()["content"].get_ref<std::string&>();
  content.append(kMark);
}

absl::Status CutAtMark(const std::string& content, const std::string& path,
                       std::vector<text::Segment>* segments) {
  // The mark is a piece of a user's text; the last one is ours.
  size_t at = std::string::npos;
  while (!segments->empty()) {
    const text::Segment& last = segments->back();
    at = last.from_user ? last.text.rfind(kMarkWord) : std::string::npos;
    if (at != std::string::npos) break;
    segments->pop_back();
  }
  if (segments->empty()) return NotFound(path);
  std::string& text = segments->back().text;
  const bool trims = std::string_view(text).substr(at, kMark.size()) != kMark;
  text.resize(at);
  while (!segments->empty()) {
    std::string& end = segments->back().text;
    if (trims) absl::StripTrailingAsciiWhitespace(&end);
    if (!end.empty()) break;
    segments->pop_back();
  }
  std::string whole;
  for (const text::Segment& segment : *segments) whole += segment.text;
  const absl::string_view bare = absl::StripAsciiWhitespace(content);
  if (whole.find(std::string_view(bare.data(), bare.size())) == std::string::npos) {
    return NotFound(path);
  }
  return absl::OkStatus();
}

}  // namespace tutti::coordinator
