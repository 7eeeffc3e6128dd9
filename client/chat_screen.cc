#include "client/chat_screen.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/format.h"

namespace tutti::client {
namespace {

constexpr absl::string_view kOpen = "<think>";
constexpr absl::string_view kClose = "</think>";
// A word for which so much room is left is written as it comes: few are longer.
constexpr int kLongWord = 24;
constexpr absl::string_view kToLineStart = "\r\x1b[K";

// The size of the UTF-8 character that begins with this byte.
size_t CharacterSize(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// Of East Asian writing and pictures, which take two columns; lines may break before and after.
bool IsWide(absl::string_view character) {
  if (character.size() < 3) return false;
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(character[i]) & 0x3f; };
  if (character.size() == 4) return byte(1) >= 0x1f;  // from U+1F000
  const uint32_t code = (static_cast<uint32_t>(character[0]) & 0x0f) << 12 | byte(1) << 6 | byte(2);
  return (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) ||
         (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
         (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60);
}

// The length of the longest end of `text` that begins `mark`.
size_t BegunMark(absl::string_view text, absl::string_view mark) {
  for (size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (absl::StartsWith(mark, text.substr(text.size() - size))) return size;
  }
  return 0;
}

int64_t WordsIn(absl::string_view text) {
  const auto words = absl::StrSplit(text, absl::ByAnyChar(" \n\t"), absl::SkipEmpty());
  return std::distance(words.begin(), words.end());
}

}  // namespace

bool BeginsWithThoughts(absl::string_view chat_template) {
  const size_t prompt = chat_template.rfind("add_generation_prompt");
  if (prompt == absl::string_view::npos) return false;
  const absl::string_view end = chat_template.substr(prompt);
  return absl::StrContains(end, kOpen) && !absl::StrContains(end, kClose);
}

std::string ChatScreen::Add(absl::string_view text) {
  std::string out;
  if (place_ == Place::kStart && !options_.unfolded) {
    AddToStart(text, &out);
  } else if (place_ == Place::kThoughts && !options_.unfolded) {
    AddToThoughts(text, &out);
  } else {
    AddToAnswer(text, &out);
  }
  return out;
}

void ChatScreen::AddToStart(absl::string_view text, std::string* out) {
  absl::StrAppend(&held_, text);
  const absl::string_view begun = absl::StripLeadingAsciiWhitespace(held_);
  if (begun.size() < kOpen.size() && absl::StartsWith(kOpen, begun)) return;
  const std::string all = std::move(held_);
  held_.clear();
  const absl::string_view from = absl::StripLeadingAsciiWhitespace(all);
  if (absl::StartsWith(from, kOpen)) {
    place_ = Place::kThoughts;
    AddToThoughts(from.substr(kOpen.size()), out);
  } else {
    place_ = Place::kAnswer;
    begun_ = true;
    AddToAnswer(all, out);
  }
}

void ChatScreen::AddToThoughts(absl::string_view text, std::string* out) {
  absl::StrAppend(&held_, text);
  const std::string all = std::move(held_);
  held_.clear();
  const size_t end = all.find(kClose.data(), 0, kClose.size());
  if (end == std::string::npos) {
    const size_t begun = BegunMark(all, kClose);
    absl::StrAppend(&thoughts_, all.substr(0, all.size() - begun));
    held_ = all.substr(all.size() - begun);
    return ShowThoughts(/*done=*/false, out);
  }
  absl::StrAppend(&thoughts_, all.substr(0, end));
  ShowThoughts(/*done=*/true, out);
  place_ = Place::kAnswer;
  AddToAnswer(all.substr(end + kClose.size()), out);
}

void ChatScreen::ShowThoughts(bool done, std::string* out) {
  if (shows_line_) absl::StrAppend(out, kToLineStart);
  shows_line_ = false;
  const int64_t words = WordsIn(thoughts_);
  if (done && words == 0) return;
  std::string line = absl::StrCat(done ? "[thought: " : "[thinking: ", FormatCount(words),
                                  words == 1 ? " word]" : " words]");
  // A line that wraps could not be taken back.
  if (options_.columns > 0) line = line.substr(0, static_cast<size_t>(options_.columns) - 1);
  absl::StrAppend(out, line, done ? "\n" : "");
  shows_line_ = !done;
}

void ChatScreen::AddToAnswer(absl::string_view text, std::string* out) {
  absl::StrAppend(&held_, text);
  std::string all = std::move(held_);
  held_.clear();
  absl::string_view left = all;
  if (!begun_) {
    left = absl::StripLeadingAsciiWhitespace(left);
    begun_ = !left.empty();
  }
  while (!left.empty()) {
    const size_t size = CharacterSize(left[0]);
    if (left.size() < size) break;
    AddCharacter(left.substr(0, size), out);
    left.remove_prefix(size);
  }
  held_ = std::string(left);
  if (!out->empty()) at_line_start_ = out->back() == '\n';
}

void ChatScreen::AddCharacter(absl::string_view character, std::string* out) {
  if (options_.columns <= 0) return absl::StrAppend(out, character);
  if (character == "\n" || character == "\r") {
    EndWord(out);
    absl::StrAppend(out, character);
    column_ = 0;
  } else if (character == " " || character == "\t") {
    EndWord(out);
    // What is at the edge is where the line breaks.
    if (column_ >= options_.columns) return;
    const int width = character == " " ? 1 : 8 - column_ % 8;
    absl::StrAppend(out, character);
    column_ = std::min(column_ + width, options_.columns);
  } else if (IsWide(character)) {
    EndWord(out);
    AddToWord(character, 2, out);
    EndWord(out);
  } else {
    AddToWord(character, 1, out);
  }
}

void ChatScreen::AddToWord(absl::string_view character, int width, std::string* out) {
  if (word_.empty() && !passes_) passes_ = options_.columns - column_ >= kLongWord;
  if (passes_) {
    absl::StrAppend(out, character);
    // The terminal itself goes on in the next line.
    column_ = column_ + width > options_.columns ? width : column_ + width;
    return;
  }
  absl::StrAppend(&word_, character);
  word_width_ += width;
  if (column_ + word_width_ <= options_.columns) return;
  // It does not fit: the rest of it has a line's room.
  if (column_ > 0) absl::StrAppend(out, "\n");
  absl::StrAppend(out, word_);
  column_ = std::min(word_width_, options_.columns);
  word_.clear();
  word_width_ = 0;
  passes_ = true;
}

void ChatScreen::EndWord(std::string* out) {
  absl::StrAppend(out, word_);
  column_ += word_width_;
  word_.clear();
  word_width_ = 0;
  passes_ = false;
}

std::string ChatScreen::End() {
  std::string out;
  if (place_ == Place::kThoughts && !options_.unfolded) {
    absl::StrAppend(&thoughts_, held_);
    ShowThoughts(/*done=*/true, &out);
    return out;
  }
  if (place_ == Place::kStart) {
    begun_ = true;
    place_ = Place::kAnswer;
  }
  const std::string last = std::move(held_);
  held_.clear();
  for (const char byte : last) AddCharacter(absl::string_view(&byte, 1), &out);
  EndWord(&out);
  if (!out.empty()) at_line_start_ = out.back() == '\n';
  if (!at_line_start_) absl::StrAppend(&out, "\n");
  return out;
}

}  // namespace tutti::client
