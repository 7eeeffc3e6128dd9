#include "model/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/files_testing.h"

namespace tutti::model {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string Refusal(const std::string& given) {
  const absl::Status status = CheckModelFolder(given);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << given;
  return std::string(status.message());
}

TEST(CheckModelFolder, TakesAFolderWithAConfig) {
  const TempDir folder;
  folder.Write("config.json", "{}");
  EXPECT_EQ(CheckModelFolder(folder.path()), absl::OkStatus());
  EXPECT_EQ(CheckModelFolder(folder.path() + "/"), absl::OkStatus());
}

TEST(CheckModelFolder, ANameOfTheHubIsNotDownloaded) {
  EXPECT_EQ(Refusal("Qwen/Qwen3-0.6B"),
            "\"Qwen/Qwen3-0.6B\" is no folder here, and Tutti downloads nothing: fetch the model "
            "first (hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B), and give its "
            "folder, Qwen3-0.6B");
  EXPECT_THAT(Refusal("https://huggingface.co/Qwen/Qwen3-0.6B"), HasSubstr("downloads nothing"));
  EXPECT_THAT(Refusal("/no/such/folder"),
              EndsWith("is no folder: there is nothing of that name; give that of a HuggingFace "
                       "checkpoint"));
  const std::string here = std::filesystem::current_path().string();
  EXPECT_THAT(Refusal("Qwen3-0.6B"), HasSubstr("nothing of that name in " + here));
  EXPECT_THAT(Refusal("./Qwen/x"), HasSubstr("nothing of that name in " + here));
  EXPECT_THAT(Refusal("~/models/demo"), HasSubstr("only where a word begins with it"));
  EXPECT_THAT(Refusal(""), HasSubstr("is no folder"));
}

TEST(CheckModelFolder, SaysWhatIsThereInstead) {
  const TempDir folder;
  EXPECT_THAT(Refusal(folder.path()), HasSubstr("is an empty folder"));
  folder.Write("model.safetensors", "x");
  EXPECT_THAT(Refusal(folder.path()), EndsWith("has no config.json, so it is no checkpoint"));
  EXPECT_THAT(Refusal(folder.File("model.safetensors")),
              EndsWith("is a file; give the folder of the model, " + folder.path()));
  folder.Write("m.GGUF", "x");
  EXPECT_THAT(Refusal(folder.File("m.GGUF")), HasSubstr("is a GGUF file"));
  folder.Write("config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0f\n");
  EXPECT_THAT(Refusal(folder.path()), HasSubstr("pointers of Git LFS"));
  std::filesystem::create_symlink("gone", folder.File("link"));
  EXPECT_THAT(Refusal(folder.File("link")), EndsWith("is a link to gone, which is not there"));
}

TEST(CheckModelFolder, FindsTheModelThatWasMeant) {
  const TempDir folder;
  std::filesystem::create_directories(folder.File("snapshots/abc"));
  folder.Write("snapshots/abc/config.json", "{}");
  EXPECT_THAT(Refusal(folder.path()), EndsWith("; perhaps " + folder.File("snapshots/abc")));
  const TempDir models;
  std::filesystem::create_directories(models.File("demo"));
  models.Write("demo/config.json", "{}");
  EXPECT_THAT(Refusal(models.path()), EndsWith("; perhaps " + models.File("demo")));
}

}  // namespace
}  // namespace tutti::model
