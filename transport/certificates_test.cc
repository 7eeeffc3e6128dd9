#include "transport/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "transport/grpc/certificates_testing.h"

namespace tutti::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const TlsFiles& files) {
  const auto opened = Certificates::Open(files, /*needs_authority=*/true);
  return opened.ok() ? "" : std::string(opened.status().message());
}

TEST(CertificatesTest, NamesAreRead) {
  TestAuthority authority("names");
  const TlsFiles files = authority.Issue("w1", "DNS:localhost");
  const auto certificates = Certificates::Open(files, true);
  ASSERT_TRUE(certificates.ok()) << certificates.status();
  EXPECT_THAT((*certificates)->Current()->uris, ElementsAre("tutti://worker/w1"));
  EXPECT_TRUE((*certificates)->CheckUri("tutti://worker/w1").ok());
  const absl::Status other = (*certificates)->CheckUri("tutti://worker/w7");
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.message()), HasSubstr("it has tutti://worker/w1"));
}

TEST(CertificatesTest, WhatCannotBeUsedIsSaidWithFileAndDates) {
  TestAuthority authority("bad");
  const TlsFiles good = authority.Issue("good", "DNS:localhost");
  const TlsFiles other = authority.Issue("other", "DNS:localhost");
  EXPECT_EQ(ErrorOf(good), "");
  const TlsFiles expired = authority.Issue("expired", "DNS:localhost", "", {-7200, -3600});
  EXPECT_THAT(ErrorOf(expired), HasSubstr(expired.certificate + " has expired; it is valid from "));
  EXPECT_THAT(ErrorOf(expired), HasSubstr("GMT"));
  const TlsFiles early = authority.Issue("early", "DNS:localhost", "", {3600, 7200});
  EXPECT_THAT(ErrorOf(early), HasSubstr(early.certificate + " is not valid yet"));
  TlsFiles mixed = good;
  mixed.key = other.key;
  EXPECT_THAT(ErrorOf(mixed),
              HasSubstr("the key " + other.key + " is not that of the certificate"));
  TlsFiles swapped = good;
  std::swap(swapped.key, swapped.certificate);
  EXPECT_THAT(ErrorOf(swapped), HasSubstr("holds no certificate"));
  for (std::string TlsFiles::*file :
       {&TlsFiles::certificate, &TlsFiles::key, &TlsFiles::authority}) {
    TlsFiles incomplete = good;
    (incomplete.*file).clear();
    EXPECT_THAT(ErrorOf(incomplete), HasSubstr("is given"));
    incomplete.*file = "/nonexistent.pem";
    EXPECT_THAT(ErrorOf(incomplete), HasSubstr("/nonexistent.pem"));
  }
}

TEST(CertificatesTest, AreReadAgainWhenTheyChangeAndOnlyWhole) {
  TestAuthority authority("turned");
  const TlsFiles files = authority.Issue("now", "DNS:localhost");
  const auto certificates = *Certificates::Open(files, true);
  const auto first = certificates->Current();
  EXPECT_EQ(certificates->Current(), first) << "nothing has changed";
  const TlsFiles next = authority.Issue("next", "DNS:localhost");
  std::filesystem::rename(next.key, files.key);
  EXPECT_EQ(certificates->Current(), first) << "the key alone is of no use";
  std::filesystem::rename(next.certificate, files.certificate);
  const auto second = certificates->Current();
  EXPECT_THAT(second->uris, ElementsAre("tutti://worker/next"));
  std::ofstream(files.certificate, std::ios::trunc) << "-----BEGIN nothing";
  EXPECT_EQ(certificates->Current(), second);
  std::filesystem::remove(files.certificate);
  EXPECT_EQ(certificates->Current(), second);
}

}  // namespace
}  // namespace tutti::transport
