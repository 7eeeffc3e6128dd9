#include "base/utf8.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Utf8, NoCharacterIsCut) {
  EXPECT_EQ(WholeCharacters("mm\xc3\xbc", 4), "mm\xc3\xbc");
  EXPECT_EQ(WholeCharacters("mm\xc3\xbc", 3), "mm");
  EXPECT_EQ(WholeCharacters("mm\xc3\xbc", 2), "mm");
  EXPECT_EQ(WholeCharacters("\xF0\x9F\x99\x82", 3), "");
  EXPECT_EQ(WholeCharacters("\xbc\xbc", 1), "");
  EXPECT_EQ(WholeCharacters("", 0), "");
}

TEST(Utf8, CharactersAreCounted) {
  EXPECT_EQ(CountCharacters(""), 0u);
  EXPECT_EQ(CountCharacters("h\u00e9\u2603\U0001F642"), 4u);
}

}  // namespace
}  // namespace tutti
