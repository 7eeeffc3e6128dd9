#include "model/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "model/checkpoint_testing.h"

namespace tutti::model {
namespace {

void WriteModel(const TempDir& dir) {
  const ModelConfig config = TinyConfig();
  dir.Write("config.json", ConfigText(config));
  dir.Write("model.safetensors", FileOf(TensorsOf(config)));
  dir.Write("tokenizer.json", R"({"model": {"vocab": {}}})");
}

std::string FingerprintAfter(const std::function<void(const TempDir&)>& change) {
  TempDir dir;
  WriteModel(dir);
  change(dir);
  const auto fingerprint = ModelFingerprint(dir.path());
  EXPECT_TRUE(fingerprint.ok()) << fingerprint.status();
  return fingerprint.value_or("");
}

void FlipByte(const TempDir& dir, int64_t from_end) {
  std::string file = ReadWholeFile(dir.File("model.safetensors"));
  file[file.size() - static_cast<size_t>(from_end)] ^= 1;
  dir.Write("model.safetensors", file);
}

TEST(Fingerprint, IsTheSameForTheSameContents) {
  const std::string base = FingerprintAfter([](const TempDir&) {});
  EXPECT_EQ(base.size(), 32);
  EXPECT_EQ(base.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(FingerprintAfter([](const TempDir& dir) {
              // White space and fields that change nothing; a file that is not the model's.
              std::string text = ConfigText(TinyConfig());
              text.insert(1, "\n \"use_cache\": true, ");
              dir.Write("config.json", text);
              dir.Write("README.md", "hello");
            }),
            base);
}

TEST(Fingerprint, ChangesWithEverythingThatChangesTokens) {
  const std::string base = FingerprintAfter([](const TempDir&) {});
  const std::vector<std::function<void(const TempDir&)>> changes = {
      [](const TempDir& dir) {
        ModelConfig config = TinyConfig();
        config.rope.theta = 20000;
        dir.Write("config.json", ConfigText(config));
      },
      [](const TempDir& dir) { dir.Write("tokenizer.json", R"({"model": {"vocab": {"a": 0}}})"); },
      [](const TempDir& dir) { std::filesystem::remove(dir.File("tokenizer.json")); },
      [](const TempDir& dir) { dir.Write("vocab.json", "{}"); },
      [](const TempDir& dir) { FlipByte(dir, 1); },
      [](const TempDir& dir) { FlipByte(dir, 200 * 24 * 2); },  // first byte of the last tensor
      [](const TempDir& dir) {
        std::vector<TensorInfo> tensors = TensorsOf(TinyConfig());
        std::swap(tensors[1], tensors[2]);
        dir.Write("model.safetensors", FileOf(tensors));
      },
  };
  std::vector<std::string> seen = {base};
  for (size_t i = 0; i < changes.size(); ++i) {
    const std::string changed = FingerprintAfter(changes[i]);
    EXPECT_THAT(seen, testing::Not(testing::Contains(changed))) << "change " << i;
    seen.push_back(changed);
  }
}

TEST(Fingerprint, PassesErrorsOn) {
  TempDir dir;
  EXPECT_EQ(ModelFingerprint(dir.path()).status().code(), absl::StatusCode::kNotFound);
  dir.Write("config.json", ConfigText(TinyConfig()));
  EXPECT_EQ(ModelFingerprint(dir.path()).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tutti::model
