#include "transport/cluster_secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "absl/strings/escaping.h"
#include "base/files_testing.h"
#include "transport/keyed_hash.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

using ::testing::HasSubstr;

std::string SecretFile(const TempDir& folder, size_t bytes, mode_t mode = 0600) {
  folder.Write("secret", std::string(bytes, 'k'));
  chmod(folder.File("secret").c_str(), mode);
  return folder.File("secret");
}

TEST(ClusterSecretTest, IsReadFromAFileOfItsOwner) {
  const TempDir folder;
  EXPECT_TRUE(ClusterSecret::Read(SecretFile(folder, kSecretBytesMin)).ok());
  EXPECT_TRUE(ClusterSecret::Read(SecretFile(folder, kSecretBytesMax, 0400)).ok());
}

TEST(ClusterSecretTest, OtherFilesAreRefusedWithARemedyAndNeverQuoted) {
  const TempDir folder;
  for (const auto& [bytes, mode, words] :
       {std::tuple<int64_t, mode_t, std::string>{kSecretBytesMin - 1, 0600, "31 bytes"},
        {kSecretBytesMax + 1, 0600, "more bytes than allowed"},
        {kSecretBytesMax * 1000, 0600, "more bytes than allowed"},
        {0, 0600, "0 bytes"},
        {32, 0640, "mode 0640"},
        {32, 0604, "chmod 0600"}}) {
    const auto secret = ClusterSecret::Read(SecretFile(folder, static_cast<size_t>(bytes), mode));
    ASSERT_FALSE(secret.ok()) << words;
    const std::string message(secret.status().message());
    EXPECT_THAT(message, HasSubstr(words));
    EXPECT_THAT(message, HasSubstr(folder.File("secret")));
    EXPECT_THAT(message, testing::Not(HasSubstr("kkkk")));
  }
  const auto missing = ClusterSecret::Read(folder.File("none"));
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("head -c 32 /dev/urandom"));
  EXPECT_FALSE(ClusterSecret::Read(folder.path()).ok()) << "a folder";
}

// As Kubernetes mounts it for a pod that does not run as root.
TEST(ClusterSecretTest, RootsFileMayBeReadByAGroupButNotByOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const TempDir folder;
  chmod(folder.path().c_str(), 0755);
  constexpr gid_t kGroup = 65532;
  for (const auto& [mode, good] :
       {std::pair<mode_t, bool>{0440, true}, {0640, true}, {0460, false}, {0444, false}}) {
    const std::string path = SecretFile(folder, 32, mode);
    ASSERT_EQ(chown(path.c_str(), 0, kGroup), 0);
    ASSERT_EQ(setegid(kGroup), 0);
    ASSERT_EQ(seteuid(65532), 0);
    const auto secret = ClusterSecret::Read(path);
    ASSERT_EQ(seteuid(0), 0);
    ASSERT_EQ(setegid(0), 0);
    EXPECT_EQ(secret.ok(), good) << secret.status();
  }
}

TEST(ClusterSecretTest, AWrittenOneIsReadAndNeverReplaced) {
  const TempDir folder;
  ASSERT_TRUE(ClusterSecret::Write(folder.File("made")).ok());
  const auto secret = ClusterSecret::Read(folder.File("made"));
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_TRUE(absl::IsAlreadyExists(ClusterSecret::Write(folder.File("made"))));
}

TEST(ClusterSecretTest, AProofIsGoodForOneEndListenerAndLink) {
  const ClusterSecret secret(std::string(32, 'a')), other(std::string(32, 'b'));
  std::set<std::string> proofs;
  for (const ClusterSecret* known : {&secret, &other}) {
    for (const LinkEnd end : {LinkEnd::kDialer, LinkEnd::kListener}) {
      for (const char* name : {"tutti://worker/w1", "tutti://coordinator"}) {
        proofs.insert(known->Proof(end, name, "n1", "n2"));
        proofs.insert(known->Proof(end, name, "n2", "n1"));
        proofs.insert(known->Proof(end, name, "n1n", "2"));
      }
    }
  }
  EXPECT_EQ(proofs.size(), 24u);
  for (const std::string& proof : proofs) EXPECT_EQ(proof.size(), 32u);
  EXPECT_TRUE(EqualProofs("abc", "abc"));
  EXPECT_FALSE(EqualProofs("abc", "abd"));
  EXPECT_FALSE(EqualProofs("abc", "ab"));
  EXPECT_NE(RandomNonce(), RandomNonce());
}

TEST(ClusterSecretTest, KeysDependOnTheSecretAndThePurpose) {
  const ClusterSecret secret(std::string(32, 's'));
  const std::string key = secret.KeyFor("a");
  EXPECT_EQ(key.size(), static_cast<size_t>(kProofBytes));
  EXPECT_EQ(ClusterSecret(std::string(32, 's')).KeyFor("a"), key);
  EXPECT_NE(ClusterSecret(std::string(32, 't')).KeyFor("a"), key);
  EXPECT_NE(secret.KeyFor("b"), key);
}

// RFC 4231, test case 2.
TEST(KeyedHashTest, IsHmacSha256WhateverThePieces) {
  for (const size_t piece : {1, 5, 100}) {
    KeyedHash hash("Jefe");
    const std::string text = "what do ya want for nothing?";
    for (size_t at = 0; at < text.size(); at += piece) hash.Add(text.substr(at, piece));
    EXPECT_EQ(absl::BytesToHexString(hash.Finish()),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  }
}

}  // namespace
}  // namespace tutti::transport
