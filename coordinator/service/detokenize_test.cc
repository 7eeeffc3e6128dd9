#include "coordinator/service/detokenize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model_testing.h"
#include "door/limits.h"

namespace tutti::coordinator {
namespace {

using ::testing::HasSubstr;

class DetokenizeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = LoadDemoModel().release(); }
  static void TearDownTestSuite() { delete model_; }

  static v1::DetokenizeRequest Of(const std::vector<int32_t>& ids) {
    v1::DetokenizeRequest request;
    request.mutable_ids()->Add(ids.begin(), ids.end());
    return request;
  }
  absl::Status Try(const v1::DetokenizeRequest& request) {
    response_.Clear();
    return Detokenize(request, *model_, &response_);
  }

  static const ServedModel* model_;
  v1::DetokenizeResponse response_;
};
const ServedModel* DetokenizeTest::model_ = nullptr;

TEST_F(DetokenizeTest, GivesBackWhatWasTokenized) {
  for (const std::string text :
       {"", "hello", " two  spaces ", "12 + 30 = 42\n", "naïve 🙂 日本語"}) {
    const auto ids = model_->EncodeText(text, {}, "text");
    ASSERT_TRUE(ids.ok()) << ids.status();
    ASSERT_TRUE(Try(Of({ids->begin(), ids->end()})).ok());
    EXPECT_EQ(response_.text(), text);
    EXPECT_EQ(response_.tokens_size(), static_cast<int>(ids->size()));
  }
}

TEST_F(DetokenizeTest, SpecialTokensAreLeftOutUnlessWanted) {
  const auto end = model_->tokenizer->SpecialId("<|im_end|>");
  ASSERT_TRUE(end.has_value());
  v1::DetokenizeRequest request = Of({*end});
  ASSERT_TRUE(Try(request).ok());
  EXPECT_EQ(response_.text(), "");
  request.set_skip_special_tokens(false);
  ASSERT_TRUE(Try(request).ok());
  EXPECT_EQ(response_.text(), "<|im_end|>");
}

TEST_F(DetokenizeTest, APartOfACharacterIsReplaced) {
  const auto ids = model_->EncodeText("🙂", {}, "text");
  ASSERT_TRUE(ids.ok() && ids->size() > 1) << "the demo model spells it in bytes";
  ASSERT_TRUE(Try(Of({ids->front()})).ok());
  EXPECT_EQ(response_.text(), "\xef\xbf\xbd");
}

TEST_F(DetokenizeTest, IdsOutsideTheVocabularyAreRefusedByTheirIndex) {
  const int32_t size = model_->config.vocab_size;
  EXPECT_TRUE(Try(Of({0, size - 1})).ok());
  for (const int32_t bad : {size, -1, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(Try(Of({0, bad})),
              absl::InvalidArgumentError(
                  absl::StrCat("ids[1] is ", bad, ", the vocabulary has ids 0 to ", size - 1)));
  }
  EXPECT_TRUE(absl::IsNotFound(Try([] {
    v1::DetokenizeRequest request = Of({0});
    request.set_model("other");
    return request;
  }())));
}

TEST_F(DetokenizeTest, HoldsItsLimits) {
  // An id of a special token: it has a spelling, and no text.
  const std::vector<int32_t> one = {*model_->tokenizer->SpecialId("<|im_end|>")};
  const auto spelling = static_cast<int64_t>(model_->tokenizer->TokenText(one[0])->size());
  const int64_t most = door::kPromptBytesMax / spelling;
  ASSERT_LT(most, door::kDetokenizeIdsMax);
  EXPECT_TRUE(Try(Of(std::vector<int32_t>(most, one[0]))).ok());
  const absl::Status text = Try(Of(std::vector<int32_t>(most + 1, one[0])));
  EXPECT_EQ(text.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(text.message()), HasSubstr(absl::StrCat("from ids[", most, "]")));
  // Ids of one byte each: their count.
  const auto ids = model_->EncodeText("a", {}, "text");
  ASSERT_TRUE(ids.ok() && ids->size() == 1);
  EXPECT_TRUE(Try(Of(std::vector<int32_t>(door::kDetokenizeIdsMax, ids->front()))).ok());
  EXPECT_EQ(response_.text().size(), static_cast<size_t>(door::kDetokenizeIdsMax));
  EXPECT_EQ(Try(Of(std::vector<int32_t>(door::kDetokenizeIdsMax + 1, ids->front()))),
            absl::InvalidArgumentError("ids has 1048577 ids, the limit is 1048576"));
}

}  // namespace
}  // namespace tutti::coordinator
