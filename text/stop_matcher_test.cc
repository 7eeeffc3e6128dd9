#include "text/stop_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace tutti::text {
namespace {

using testing::HasSubstr;

StopMatcher Make(const std::vector<std::string>& stops, bool include_stop = false) {
  auto matcher = StopMatcher::Create(stops, include_stop);
  EXPECT_TRUE(matcher.ok()) << matcher.status();
  return *std::move(matcher);
}

struct Outcome {
  std::string text;
  int stop = -1;
  bool operator==(const Outcome&) const = default;
};

Outcome Match(StopMatcher matcher, const std::vector<std::string>& pushes) {
  Outcome outcome;
  for (const std::string& push : pushes) {
    const StopMatcher::Result result = matcher.Push(push);
    outcome.text += result.text;
    if (result.stop >= 0) outcome.stop = result.stop;
  }
  outcome.text += matcher.Finish();
  return outcome;
}

// The definition: the match that ends first, of those the longest.
Outcome Whole(const std::vector<std::string>& stops, std::string_view text, bool include_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    int best = -1;
    for (size_t i = 0; i < stops.size(); ++i) {
      const bool here = text.substr(0, end).ends_with(stops[i]);
      if (here && (best < 0 || stops[i].size() > stops[best].size())) best = static_cast<int>(i);
    }
    if (best >= 0) {
      return {std::string(text.substr(0, include_stop ? end : end - stops[best].size())), best};
    }
  }
  return {std::string(text), -1};
}

TEST(StopMatcherTest, WithoutStopsNothingIsHeldBack) {
  StopMatcher matcher = Make({});
  EXPECT_EQ(matcher.Push("abc").text, "abc");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcherTest, HoldsBackWhatMayBecomeAStop) {
  StopMatcher matcher = Make({"\n\nUser:"});
  EXPECT_EQ(matcher.Push("Hi\n").text, "Hi");
  EXPECT_EQ(matcher.Push("\n").text, "");
  EXPECT_EQ(matcher.Push("\n").text, "\n");  // three newlines: the first is free
  EXPECT_EQ(matcher.Push("Use").text, "");
  EXPECT_EQ(matcher.Push("ful").text, "\n\nUseful");
  EXPECT_EQ(matcher.Push("\n\nUser").text, "");
  const StopMatcher::Result result = matcher.Push(": more");
  EXPECT_EQ(result.stop, 0);
  EXPECT_EQ(result.text, "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.Push("more").text, "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcherTest, FinishReleasesTheHeldText) {
  StopMatcher matcher = Make({"END"});
  EXPECT_EQ(matcher.Push("the EN").text, "the ");
  EXPECT_EQ(matcher.Finish(), "EN");
}

TEST(StopMatcherTest, TheStopMayBeIncluded) {
  EXPECT_EQ(Match(Make({"b"}), {"abc"}), (Outcome{"a", 0}));
  EXPECT_EQ(Match(Make({"b"}, true), {"abc"}), (Outcome{"ab", 0}));
}

TEST(StopMatcherTest, TheFirstToEndWinsAndThenTheLongest) {
  EXPECT_EQ(Match(Make({"bcd", "bc"}), {"abcd"}), (Outcome{"a", 1}));
  EXPECT_EQ(Match(Make({"c", "abc", "bc"}), {"xabcd"}), (Outcome{"x", 1}));
  EXPECT_EQ(Match(Make({"abcd", "c"}), {"abce"}), (Outcome{"ab", 1}));
  EXPECT_EQ(Match(Make({"x", "x"}), {"x"}), (Outcome{"", 0}));
}

TEST(StopMatcherTest, AStopThatIsCompleteTooEarlyIsNone) {
  StopMatcher matcher = Make({"END", "D!"});
  EXPECT_EQ(matcher.Push("an END, no EN", /*may_stop=*/false).text, "an END, no ");
  const StopMatcher::Result result = matcher.Push("D! END");
  EXPECT_EQ(result.stop, 0);
  EXPECT_EQ(result.text, "");
  StopMatcher ended = Make({"END", "D!"});
  EXPECT_EQ(ended.Push("an END", /*may_stop=*/false).text, "an ");
  EXPECT_EQ(ended.Push("!").stop, 1);
  StopMatcher held = Make({"END"});
  EXPECT_EQ(held.Push("END", /*may_stop=*/false).text, "");
  EXPECT_EQ(held.Finish(), "END");
}

TEST(StopMatcherTest, NeverCutsACharacter) {
  StopMatcher matcher = Make({"\u00e9\u00e8"});
  EXPECT_EQ(matcher.Push("a\u00e9").text, "a");
  const std::string text = matcher.Push("\u00e9").text;
  EXPECT_EQ(text, "\u00e9");
  EXPECT_EQ(matcher.Push("\u00ea").text, "\u00e9\u00ea");
}

TEST(StopMatcherTest, HowTheTextIsCutDoesNotMatter) {
  Random random(37);
  for (int i = 0; i < 5000; ++i) {
    const auto word = [&](int64_t longest) {
      std::string text;
      for (int64_t n = random.Between(1, longest); n > 0; --n)
        text += static_cast<char>(random.Between('a', 'c'));
      return text;
    };
    std::vector<std::string> stops;
    for (int64_t n = random.Between(1, 4); n > 0; --n) stops.push_back(word(5));
    const std::string text = word(30);
    const bool include = random.Chance(0.5);
    std::vector<std::string> pushes;
    for (size_t at = 0; at < text.size();) {
      const auto length = static_cast<size_t>(random.Between(0, 4));
      pushes.push_back(text.substr(at, length));
      at += length;
    }
    ASSERT_EQ(Match(Make(stops, include), pushes), Whole(stops, text, include))
        << "case " << i << ": " << text;
  }
}

TEST(StopMatcherTest, Refuses) {
  const auto message = [](const std::vector<std::string>& stops) {
    return std::string(StopMatcher::Create(stops, false).status().message());
  };
  EXPECT_THAT(message({"a", ""}), HasSubstr("stop[1]"));
  EXPECT_THAT(message({std::string(kStopStringBytesMax + 1, 'a')}), HasSubstr("stop[0]"));
  EXPECT_THAT(message({"\xFF"}), HasSubstr("stop[0]: not valid UTF-8"));
  EXPECT_THAT(message(std::vector<std::string>(kStopStringsMax + 1, "a")),
              HasSubstr("stop: has 65"));
  EXPECT_TRUE(
      StopMatcher::Create(
          std::vector<std::string>(kStopStringsMax, std::string(kStopStringBytesMax, 'a')), false)
          .ok());
}

}  // namespace
}  // namespace tutti::text
