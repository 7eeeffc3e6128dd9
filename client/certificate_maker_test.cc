#include "client/certificate_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/files_testing.h"
#include "transport/certificate_folder.h"
#include "transport/certificates.h"

namespace tutti::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using transport::Role;

mode_t ModeOf(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(stat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777;
}

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

class CertificateMakerTest : public testing::Test {
 protected:
  CertificateMakerTest() { EXPECT_EQ(InitAuthority(authority_, 10), absl::OkStatus()); }

  const TempDir folder_;
  const std::string authority_ = folder_.File("certs");
};

TEST_F(CertificateMakerTest, MakesWhatOurProcessesTake) {
  const auto made =
      IssueCertificate(authority_, {.name = "node0",
                                    .roles = {Role::kCoordinator, Role::kWorker},
                                    .hosts = {"10.0.0.7", "*.workers.svc", "fd00::7"}});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*made, authority_ + "/node0");
  const auto files = transport::FilesOfFolder(*made);
  ASSERT_TRUE(files.ok()) << files.status();
  const auto certificates = transport::Certificates::Open(*files, /*needs_authority=*/true);
  ASSERT_TRUE(certificates.ok()) << certificates.status();
  EXPECT_THAT((*certificates)->Current()->uris,
              ElementsAre("tutti://coordinator", "tutti://worker/node0"));
  EXPECT_EQ(*transport::NameOfCertificate(*files, Role::kWorker), "node0");
  const auto about = DescribeCertificate(*made + "/tls.crt");
  ASSERT_TRUE(about.ok());
  EXPECT_THAT(*about, AllOf(HasSubstr("DNS:node0"), HasSubstr("IP Address:10.0.0.7"),
                            HasSubstr("DNS:*.workers.svc"), HasSubstr("FD00:0:0:0:0:0:0:7")));
}

TEST_F(CertificateMakerTest, KeysAreTheirOwners) {
  ASSERT_TRUE(IssueCertificate(authority_, {.name = "w1", .roles = {Role::kWorker}}).ok());
  EXPECT_EQ(ModeOf(authority_), 0700u);
  EXPECT_EQ(ModeOf(authority_ + "/ca.key"), 0600u);
  EXPECT_EQ(ModeOf(authority_ + "/w1"), 0700u);
  EXPECT_EQ(ModeOf(authority_ + "/w1/tls.key"), 0600u);
  EXPECT_THAT(FilesIn(authority_), UnorderedElementsAre("ca.crt", "ca.key", "w1"));
  EXPECT_THAT(FilesIn(authority_ + "/w1"), UnorderedElementsAre("ca.crt", "tls.crt", "tls.key"));
}

TEST_F(CertificateMakerTest, WritesOverNothing) {
  const std::string before = ReadWholeFile(authority_ + "/ca.key");
  EXPECT_THAT(InitAuthority(authority_ + "/", 10).ToString(), HasSubstr("is there already"));
  EXPECT_EQ(ReadWholeFile(authority_ + "/ca.key"), before);
  ASSERT_TRUE(IssueCertificate(authority_, {.name = "w1", .roles = {Role::kWorker}}).ok());
  const std::string key = ReadWholeFile(authority_ + "/w1/tls.key");
  EXPECT_EQ(IssueCertificate(authority_, {.name = "w1", .roles = {Role::kWorker}}).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadWholeFile(authority_ + "/w1/tls.key"), key);
  EXPECT_THAT(FilesIn(folder_.path()), ElementsAre("certs")) << "nothing half made is left";
  EXPECT_EQ(InitAuthority(folder_.File("no/where"), 10).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(CertificateMakerTest, RefusesWhatCannotBeInACertificate) {
  for (const char* name : {"", "..", ".x", "a/b", "a,URI:tutti://coordinator", "a b"}) {
    EXPECT_EQ(
        IssueCertificate(authority_, {.name = name, .roles = {Role::kClient}}).status().code(),
        absl::StatusCode::kInvalidArgument)
        << name;
  }
  for (const char* host : {"", "node0:50051", "a,URI:tutti://coordinator", "http://a", "*", "*.*.a",
                           "10.0.0.7/8", "a\nb"}) {
    EXPECT_THAT(
        IssueCertificate(authority_, {.name = "x", .roles = {Role::kClient}, .hosts = {host}})
            .status()
            .ToString(),
        HasSubstr("neither a host's name nor an IP address"))
        << host;
  }
  EXPECT_EQ(InitAuthority(folder_.File("other"), 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      IssueCertificate(folder_.path(), {.name = "x", .roles = {Role::kClient}}).status().ToString(),
      AllOf(HasSubstr("NOT_FOUND"), HasSubstr("tutti certs init")));
}

TEST_F(CertificateMakerTest, AnAuthoritysKeyIsItsOwn) {
  const std::string other = folder_.File("other");
  ASSERT_EQ(InitAuthority(other, 10), absl::OkStatus());
  std::filesystem::copy_file(other + "/ca.key", authority_ + "/ca.key",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(IssueCertificate(authority_, {.name = "x", .roles = {Role::kClient}}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tutti::client
