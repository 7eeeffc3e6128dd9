// For tests: the ids of a text, or none, where the test has failed.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace tutti::text {

inline std::vector<TokenId> Ids(const Tokenizer& tokenizer, std::string_view text) {
  auto ids = tokenizer.Encode(text);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *ids : std::vector<TokenId>();
}

inline std::vector<TokenId> Ids(const Tokenizer& tokenizer, const std::vector<Segment>& segments) {
  auto ids = tokenizer.EncodeSegments(segments);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *ids : std::vector<TokenId>();
}

}  // namespace tutti::text
