// What a draft model is refused for, before any worker loads it.
#include "coordinator/service/draft_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/files_testing.h"
#include "coordinator/model_testing.h"

namespace tutti::coordinator {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// The demo's files in `dir`, but for those of these names.
void LinkDemo(const TempDir& dir, std::initializer_list<std::string_view> without) {
  for (const auto& entry : std::filesystem::directory_iterator(DemoModelDir())) {
    const std::string name = entry.path().filename();
    const bool left_out = std::find(without.begin(), without.end(), name) != without.end();
    if (!entry.is_regular_file() || left_out) continue;
    std::filesystem::create_symlink(std::filesystem::absolute(entry.path()), dir.File(name));
  }
}

nlohmann::json DemoJson(const std::string& name) {
  std::ifstream file(absl::StrCat(DemoModelDir(), "/", name));
  return nlohmann::json::parse(file);
}

class DraftModelTest : public testing::Test {
 protected:
  void SetUp() override {
    auto model = ServedModel::Load(DemoModelDir(), "demo", 0);
    ASSERT_TRUE(model.ok()) << model.status();
    served_ = *std::move(model);
  }

  std::string Refusal(const std::string& given) {
    return std::string(LoadDraftModel(given, *served_).status().message());
  }

  std::unique_ptr<ServedModel> served_;
};

TEST_F(DraftModelTest, AModelMayBeItsOwn) {
  const auto draft = LoadDraftModel(DemoModelDir(), *served_);
  ASSERT_TRUE(draft.ok()) << draft.status();
  EXPECT_EQ(draft->fingerprint, served_->fingerprint);
  EXPECT_EQ(draft->config.num_layers, served_->config.num_layers);
  EXPECT_THAT(draft->introduction, Not(HasSubstr("its context ends")));
}

TEST_F(DraftModelTest, SaysWhereItsContextEnds) {
  TempDir dir;
  LinkDemo(dir, {"config.json"});
  nlohmann::json config = DemoJson("config.json");
  config["max_position_embeddings"] = 64;
  dir.Write("config.json", config.dump());
  const auto draft = LoadDraftModel(dir.path(), *served_);
  ASSERT_TRUE(draft.ok()) << draft.status();
  EXPECT_THAT(draft->introduction, HasSubstr("its context ends at 64"));
}

TEST_F(DraftModelTest, HasTheModelsOwnTokens) {
  TempDir dir;
  LinkDemo(dir, {"tokenizer.json"});
  nlohmann::json tokenizer = DemoJson("tokenizer.json");
  nlohmann::json& added = tokenizer["added_tokens"];
  ASSERT_GE(added.size(), 2u);
  const int64_t id = added[0]["id"];
  added[0]["content"] = "<|another|>";
  dir.Write("tokenizer.json", tokenizer.dump());
  EXPECT_THAT(Refusal(dir.path()),
              AllOf(StartsWith("--draft-model: "), HasSubstr(dir.path()),
                    HasSubstr(absl::StrCat("token ", id, " is \"<|another|>\"")),
                    HasSubstr("a draft model has the model's own vocabulary")));
}

// Models of a family differ in a few tokens that came later.
TEST_F(DraftModelTest, MayLackAFewTokens) {
  TempDir dir;
  LinkDemo(dir, {"tokenizer.json"});
  nlohmann::json tokenizer = DemoJson("tokenizer.json");
  tokenizer["added_tokens"].erase(tokenizer["added_tokens"].size() - 1);
  dir.Write("tokenizer.json", tokenizer.dump());
  const auto draft = LoadDraftModel(dir.path(), *served_);
  EXPECT_TRUE(draft.ok()) << draft.status();
}

TEST_F(DraftModelTest, MayNotLackMany) {
  TempDir dir;
  LinkDemo(dir, {"tokenizer.json"});
  nlohmann::json tokenizer = DemoJson("tokenizer.json");
  nlohmann::json& merges = tokenizer["model"]["merges"];
  nlohmann::json& vocab = tokenizer["model"]["vocab"];
  // The latest merges, and the tokens that they make.
  for (int i = 0; i < 100; ++i) {
    const nlohmann::json last = merges.back();
    const std::string pair = last.is_string()
                                 ? last.get<std::string>()
                                 : last[0].get<std::string>() + " " + last[1].get<std::string>();
    const size_t space = pair.find(' ');
    vocab.erase(pair.substr(0, space) + pair.substr(space + 1));
    merges.erase(merges.size() - 1);
  }
  dir.Write("tokenizer.json", tokenizer.dump());
  EXPECT_THAT(Refusal(dir.path()),
              AllOf(StartsWith("--draft-model: "), HasSubstr("of the model's "),
                    HasSubstr(" are not there")));
}

TEST_F(DraftModelTest, NamesTheFileThatIsMissing) {
  const struct {
    std::string_view file;
    std::string_view said;
  } kCases[] = {{"config.json", "config.json"},
                {"tokenizer.json", "tokenizer.json"},
                {"model.safetensors", "model.safetensors"}};
  for (const auto& one : kCases) {
    TempDir dir;
    LinkDemo(dir, {one.file});
    EXPECT_THAT(Refusal(dir.path()), AllOf(StartsWith("--draft-model: "), HasSubstr(one.said)));
  }
  EXPECT_THAT(Refusal("/nowhere"), AllOf(StartsWith("--draft-model: "), HasSubstr("/nowhere")));
  EXPECT_THAT(Refusal("Nobody/Nothing"),
              AllOf(StartsWith("--draft-model: "), HasSubstr("hf download Nobody/Nothing")));
}

// Without tokenizers the sizes are all there is to compare.
TEST_F(DraftModelTest, WithoutTokenizersSizesAreEqual) {
  TempDir dir;
  LinkDemo(dir, {"tokenizer.json"});
  served_->tokenizer.reset();
  EXPECT_TRUE(LoadDraftModel(dir.path(), *served_).ok());
  served_->config.vocab_size += 64;
  EXPECT_THAT(Refusal(dir.path()), HasSubstr("vocab_size is "));
}

// Qwen2's models may be drafts of Qwen2.5's and Qwen3's, which have tokens more; the original
// Qwen's may not.
TEST(DraftVocabularyTest, OfRealModels) {
  const std::string data = TestData();
  if (data.empty()) GTEST_SKIP() << "TUTTI_TESTDATA is not set";
  // The later ones have files of their own for what they added only.
  const auto load = [&](const std::string& name) {
    TempDir dir;
    const std::string base = name == "qwen1" ? name : "qwen2";
    for (const std::string& from : {base, name}) {
      for (const auto& entry :
           std::filesystem::directory_iterator(absl::StrCat(data, "/tokenizers/", from))) {
        const std::string link = dir.File(entry.path().filename());
        if (!std::filesystem::exists(link)) std::filesystem::create_symlink(entry.path(), link);
      }
    }
    auto tokenizer = text::Tokenizer::Load(dir.path());
    EXPECT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status();
    return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
  };
  const auto qwen2 = load("qwen2");
  const auto qwen25 = load("qwen2.5");
  const auto qwen3 = load("qwen3");
  const auto qwen1 = load("qwen1");
  ASSERT_TRUE(qwen2 != nullptr && qwen25 != nullptr && qwen3 != nullptr && qwen1 != nullptr);
  EXPECT_TRUE(CheckSameTokens(*qwen25, *qwen3).ok());
  EXPECT_TRUE(CheckSameTokens(*qwen3, *qwen25).ok());
  EXPECT_TRUE(CheckSameTokens(*qwen2, *qwen25).ok());
  EXPECT_FALSE(CheckSameTokens(*qwen1, *qwen25).ok());
}

}  // namespace
}  // namespace tutti::coordinator
