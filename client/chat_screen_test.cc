#include "client/chat_screen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tutti::client {
namespace {

// A terminal that goes on in the next line by itself, of characters of one column.
class SmallTerminal {
 public:
  explicit SmallTerminal(size_t columns) : columns_(columns) {}
  void Write(const std::string& text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') {
        lines_.emplace_back();
      } else if (text[i] == '\r') {
        at_start_ = true;
      } else if (text.compare(i, 3, "\x1b[K") == 0) {
        if (at_start_) lines_.back().clear();
        at_start_ = false;
        i += 2;
      } else {
        if (lines_.back().size() == columns_) lines_.emplace_back();
        lines_.back() += text[i];
      }
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  const size_t columns_;
  bool at_start_ = false;
  std::vector<std::string> lines_{""};
};

std::vector<std::string> Shown(const std::vector<std::string>& pieces,
                               const ChatScreen::Options& options) {
  ChatScreen screen(options);
  SmallTerminal terminal(static_cast<size_t>(options.columns));
  for (const std::string& piece : pieces) terminal.Write(screen.Add(piece));
  terminal.Write(screen.End());
  return terminal.lines();
}

using Lines = std::vector<std::string>;

TEST(ChatScreen, NoWordIsBroken) {
  EXPECT_EQ(Shown({"one two three"}, {.columns = 8}), (Lines{"one two ", "three", ""}));
  EXPECT_EQ(Shown({"one", " tw", "o t", "hree fo", "ur\nfive"}, {.columns = 8}),
            (Lines{"one two ", "three ", "four", "five", ""}));
  // One that fills the line, and one that no line holds.
  EXPECT_EQ(Shown({"12345678 a"}, {.columns = 8}), (Lines{"12345678", "a", ""}));
  EXPECT_EQ(Shown({"a 0123456789 b"}, {.columns = 8}), (Lines{"a ", "01234567", "89 b", ""}));
}

TEST(ChatScreen, WordsStandWholeHoweverTheyCome) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const int columns = 10 + static_cast<int>(random() % 60);
    std::vector<std::string> words;
    for (int i = 0; i < 40; ++i) {
      words.emplace_back(1 + random() % 10, static_cast<char>('a' + random() % 26));
    }
    const std::string text = absl::StrJoin(words, " ");
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 6;
      pieces.push_back(text.substr(at, size));
      at += size;
    }
    const Lines lines = Shown(pieces, {.columns = columns});
    EXPECT_EQ(lines, Shown({text}, {.columns = columns}));
    std::vector<std::string> seen;
    for (const std::string& line : lines) {
      for (const auto word : absl::StrSplit(line, ' ', absl::SkipEmpty())) seen.emplace_back(word);
    }
    EXPECT_EQ(seen, words) << columns;
  }
}

TEST(ChatScreen, ThoughtsAreOneLine) {
  const std::string answer = "<think>\nLet me see.\n</think>\n\nForty two.";
  const Lines folded = {"[thought: 3 words]", "Forty two.", ""};
  EXPECT_EQ(Shown({answer}, {}), folded);
  for (size_t cut = 1; cut < answer.size(); ++cut) {
    EXPECT_EQ(Shown({answer.substr(0, cut), answer.substr(cut)}, {}), folded) << cut;
  }
  std::vector<std::string> bytes;
  for (const char byte : answer) bytes.emplace_back(1, byte);
  EXPECT_EQ(Shown(bytes, {}), folded);
  ChatScreen screen({});
  (void)screen.Add(answer);
  EXPECT_EQ(screen.thoughts(), "\nLet me see.\n");
}

TEST(ChatScreen, ThoughtsThatTheTemplateHasBegun) {
  EXPECT_EQ(Shown({"Well.\n</think>\nYes."}, {.begins_thinking = true}),
            (Lines{"[thought: 1 word]", "Yes.", ""}));
  EXPECT_EQ(Shown({"cut off here"}, {.begins_thinking = true}), (Lines{"[thought: 3 words]", ""}));
  EXPECT_EQ(Shown({"<think>\n\n</think>\n\nYes."}, {}), (Lines{"Yes.", ""}));
}

TEST(ChatScreen, OthersAreAsTheyAre) {
  EXPECT_EQ(Shown({"<thin", "g> a <think> b"}, {}), (Lines{"<thing> a <think> b", ""}));
  EXPECT_EQ(Shown({"  indented"}, {}), (Lines{"  indented", ""}));
  EXPECT_EQ(Shown({"<think>a</think>b"}, {.unfolded = true}), (Lines{"<think>a</think>b", ""}));
  EXPECT_EQ(Shown({"<th"}, {}), (Lines{"<th", ""}));
}

TEST(ChatScreen, WritingWithoutBlanksBreaksAnywhere) {
  const auto written = [](int columns, const std::vector<std::string>& pieces) {
    ChatScreen screen({.columns = columns});
    std::string all;
    for (const std::string& piece : pieces) all += screen.Add(piece);
    return all + screen.End();
  };
  EXPECT_EQ(written(5, {"日本語"}), "日本\n語\n");
  // A character that comes in two pieces.
  const std::string text = "é";
  EXPECT_EQ(written(80, {text.substr(0, 1), text.substr(1)}), "é\n");
}

TEST(BeginsWithThoughts, AsTheTemplateSays) {
  EXPECT_TRUE(BeginsWithThoughts("{% if add_generation_prompt %}<|a|><think>\n{% endif %}"));
  EXPECT_FALSE(
      BeginsWithThoughts("{% if add_generation_prompt %}<|a|>{% if not enable_thinking "
                         "%}<think>\n\n</think>\n\n{% endif %}{% endif %}"));
  EXPECT_FALSE(BeginsWithThoughts("<think>{% if add_generation_prompt %}<|a|>{% endif %}"));
}

}  // namespace
}  // namespace tutti::client
