#include "model/hub_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/files_testing.h"
#include "program/scoped_variable_testing.h"

namespace tutti::model {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr char kName[] = "Qwen/Qwen3-0.6B";
constexpr char kCommit[] = "0123456789abcdef0123456789abcdef01234567";

// A cache of the hub's tools below HF_HOME.
class HubCacheTest : public ::testing::Test {
 protected:
  HubCacheTest() { std::filesystem::create_directories(Snapshot(kCommit)); }

  std::string Repository() const { return home_.File("hub/models--Qwen--Qwen3-0.6B"); }
  std::string Snapshot(const std::string& commit) const {
    return Repository() + "/snapshots/" + commit;
  }
  void Fetch(const std::string& reference) {
    const std::string below = "hub/models--Qwen--Qwen3-0.6B/";
    std::filesystem::create_directories(
        std::filesystem::path(Repository() + "/refs/" + reference).parent_path());
    home_.Write(below + "refs/" + reference, kCommit);
    home_.Write(below + "snapshots/" + kCommit + "/config.json", "{}");
  }
  static std::string Refusal(const std::string& given, const std::string& revision = "") {
    const auto found = FindModel(given, revision);
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument) << given;
    return std::string(found.status().message());
  }

  const TempDir home_;
  const ScopedVariable hf_home_{"HF_HOME", home_.path()};
  const ScopedVariable hf_cache_{"HF_HUB_CACHE", ""};
  const ScopedVariable old_cache_{"HUGGINGFACE_HUB_CACHE", ""};
};

TEST_F(HubCacheTest, AModelIsFoundByItsName) {
  Fetch("main");
  const auto found = FindModel(kName, "");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, Snapshot(kCommit));
  EXPECT_EQ(NameOfModel(*found), kName);
}

TEST_F(HubCacheTest, ItsRevisionsToo) {
  Fetch("v1.0");
  Fetch("refs/pr/1");
  for (const char* revision : {"v1.0", "refs/pr/1", kCommit}) {
    const auto found = FindModel(kName, revision);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, Snapshot(kCommit));
  }
  EXPECT_EQ(Refusal(kName),
            "--model: \"Qwen/Qwen3-0.6B\" is in the hub's cache without main (with refs/pr/1, "
            "v1.0), and Tutti downloads nothing. This fetches it: hf download Qwen/Qwen3-0.6B");
  EXPECT_THAT(Refusal(kName, "v2"), EndsWith("hf download Qwen/Qwen3-0.6B --revision v2"));
}

TEST_F(HubCacheTest, TheLineThatFetchesIt) {
  EXPECT_EQ(Refusal("Qwen/Qwen3-8B"),
            "--model: \"Qwen/Qwen3-8B\" is no folder here and not in the hub's cache (" +
                home_.File("hub") +
                "), and Tutti downloads nothing. This fetches it: hf download Qwen/Qwen3-8B");
  home_.Write("hub/models--Qwen--Qwen3-0.6B/snapshots/" + std::string(kCommit) + "/merges.txt", "");
  EXPECT_THAT(Refusal(kName, kCommit), HasSubstr("only in part"));
}

TEST_F(HubCacheTest, NoPathLeavesTheCache) {
  Fetch("main");
  for (const char* revision : {"..", "../main", "a/../../b", "/etc", "a//b", "a b", "."}) {
    EXPECT_THAT(Refusal(kName, revision), HasSubstr("is no branch, tag or commit"));
  }
  home_.Write("hub/models--Qwen--Qwen3-0.6B/refs/main", "../../../../etc");
  EXPECT_THAT(Refusal(kName), HasSubstr("without main"));
}

TEST_F(HubCacheTest, WhereTheCacheIs) {
  Fetch("main");
  {
    const ScopedVariable moved("HF_HUB_CACHE", home_.File("elsewhere"));
    EXPECT_THAT(Refusal(kName), HasSubstr(home_.File("elsewhere")));
  }
  const ScopedVariable no_home("HF_HOME", "");
  {
    const ScopedVariable cache("XDG_CACHE_HOME", "/xdg");
    EXPECT_THAT(Refusal(kName), HasSubstr("(/xdg/huggingface/hub)"));
  }
  const ScopedVariable no_cache("XDG_CACHE_HOME", "");
  const ScopedVariable home("HOME", "/home/somebody");
  EXPECT_THAT(Refusal(kName), HasSubstr("(/home/somebody/.cache/huggingface/hub)"));
  const ScopedVariable tilde("HF_HOME", "~/models");
  EXPECT_THAT(Refusal(kName), HasSubstr("(/home/somebody/models/hub)"));
}

TEST_F(HubCacheTest, AFolderGoesFirst) {
  const TempDir folder;
  folder.Write("config.json", "{}");
  const auto found = FindModel(folder.path(), "");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, folder.path());
  EXPECT_EQ(NameOfModel("/models/demo/"), "demo");
  EXPECT_THAT(Refusal(folder.path(), "main"), HasSubstr("is a folder; a revision is for"));
  EXPECT_THAT(Refusal("/no/such/folder"), HasSubstr("there is nothing of that name"));
}

}  // namespace
}  // namespace tutti::model
