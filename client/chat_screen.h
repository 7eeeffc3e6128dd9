// An answer on a person's terminal as it comes: no word is broken at the right edge, and what the
// model thinks before it answers is folded into one line.
//
// Nothing is taken back but the one line of thoughts: a word that may not fit in its line waits
// until it is whole.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tutti::client {

// Whether answers begin within the thoughts: the template itself opens them.
bool BeginsWithThoughts(absl::string_view chat_template);

class ChatScreen {
 public:
  struct Options {
    int columns = 80;              // of the terminal; 0: not known, and nothing is wrapped
    bool begins_thinking = false;  // BeginsWithThoughts
    bool unfolded = false;         // thoughts are shown as any text
  };
  explicit ChatScreen(const Options& options)
      : options_(options),
        place_(options.begins_thinking ? Place::kThoughts : Place::kStart),
        begun_(options.unfolded) {}

  // What to write to the terminal for more of the answer: UTF-8 over all pieces, without
  // sequences that control the terminal.
  std::string Add(absl::string_view text);
  // What ends the answer: the last word, a line end.
  std::string End();

  // So far, without the marks around them.
  const std::string& thoughts() const { return thoughts_; }
  bool thinks() const { return place_ == Place::kThoughts; }

 private:
  enum class Place : uint8_t { kStart, kThoughts, kAnswer };

  void AddToStart(absl::string_view text, std::string* out);
  void AddToThoughts(absl::string_view text, std::string* out);
  void ShowThoughts(bool done, std::string* out);
  void AddToAnswer(absl::string_view text, std::string* out);
  void AddCharacter(absl::string_view character, std::string* out);
  void AddToWord(absl::string_view character, int width, std::string* out);
  void EndWord(std::string* out);

  const Options options_;
  Place place_;
  std::string held_;  // of a mark that is not whole yet, or of a character
  std::string thoughts_;
  bool shows_line_ = false;  // of thoughts, which has no end yet
  bool at_line_start_ = true;
  bool begun_;  // the answer, after the blank lines behind thoughts
  // Of the line that the cursor is in.
  int column_ = 0;
  std::string word_;  // not written yet
  int word_width_ = 0;
  bool passes_ = false;  // the word is written as it comes
};

}  // namespace tutti::client
