#include "transport/certificate_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files_testing.h"
#include "transport/grpc/certificates_testing.h"

namespace tutti::transport {
namespace {

using ::testing::HasSubstr;

TEST(CertificateFolder, NamesItsFiles) {
  const TempDir folder;
  for (const char* name : {"ca.crt", "tls.crt"}) folder.Write(name, "");
  EXPECT_THAT(FilesOfFolder(folder.path()).status().ToString(), HasSubstr("has no tls.key"));
  folder.Write("tls.key", "");
  EXPECT_EQ(FilesOfFolder(folder.path())->key, folder.File("tls.key"));
  TlsFiles files{.certificate = "own.crt", .key = "own.key", .authority = ""};
  EXPECT_EQ(FillFromFolder(folder.path(), &files), absl::OkStatus());
  EXPECT_EQ(files.certificate, "own.crt");
  EXPECT_EQ(files.authority, folder.File("ca.crt"));
  TlsFiles none;
  EXPECT_EQ(FillFromFolder("", &none), absl::OkStatus());
  EXPECT_FALSE(none.any());
}

TEST(CertificateFolder, TheAuthoritysIsNoProcesss) {
  const TempDir folder;
  for (const char* name : {"ca.crt", "tls.crt", "tls.key", "ca.key"}) folder.Write(name, "");
  EXPECT_THAT(FilesOfFolder(folder.path()).status().ToString(), HasSubstr("the authority's own"));
  EXPECT_THAT(FilesOfFolder(folder.File("nowhere")).status().ToString(), HasSubstr("no folder"));
}

TEST(CertificateFolder, TheNameIsThatOfTheCertificate) {
  TestAuthority authority("folder");
  const auto name = [&](const std::string& uri) {
    return NameOfCertificate(authority.Issue("x", "DNS:x", uri), Role::kWorker).value();
  };
  EXPECT_EQ(name("tutti://worker/w7"), "w7");
  EXPECT_EQ(name("tutti://coordinator,URI:tutti://worker/w7"), "w7");
  EXPECT_EQ(name("tutti://client/w7"), "");
  EXPECT_EQ(name("tutti://worker/w7,URI:tutti://worker/w8"), "") << "either";
}

}  // namespace
}  // namespace tutti::transport
