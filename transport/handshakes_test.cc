#include "transport/handshakes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kLine[] =
    "Handshake failed with fatal error SSL_ERROR_SSL: error:0A000086:SSL routines::certificate "
    "verify failed.";
constexpr char kWhy[] =
    "TLS handshake: its certificate was not signed by our authority, or has run out";

struct Told {
  std::vector<std::string> lines;
  HandshakePort::OnFailure callback() {
    return [this](const std::string& peer, const std::string& why) {
      lines.push_back(peer + ": " + why);
    };
  }
};

TEST(Handshakes, AreBlamedOnTheOneConnectionInQuestion) {
  Told told;
  HandshakePort port(told.callback());
  port.Began("ipv4:10.0.0.1:1");
  port.Succeeded("ipv4:10.0.0.1:1");
  port.Began("ipv4:10.0.0.2:2");
  ReadHandshakeLog("something else");
  EXPECT_THAT(told.lines, IsEmpty());
  ReadHandshakeLog(kLine);
  EXPECT_THAT(told.lines, ElementsAre(std::string("ipv4:10.0.0.2:2: ") + kWhy));
  ReadHandshakeLog(kLine);  // a dialer's, perhaps: of this port none is in question
  EXPECT_EQ(told.lines.size(), 1u);
}

TEST(Handshakes, OfSeveralInQuestionNobodyIsBlamed) {
  Told workers, clients;
  HandshakePort for_workers(workers.callback());
  HandshakePort for_clients(clients.callback());
  for_workers.Began("a");
  for_workers.Began("b");
  ReadHandshakeLog(kLine);
  EXPECT_THAT(workers.lines, ElementsAre(std::string(": ") + kWhy));
  for_workers.Succeeded("a");
  for_clients.Began("c");
  ReadHandshakeLog(kLine);
  EXPECT_EQ(workers.lines.size(), 2u);
  EXPECT_THAT(clients.lines, ElementsAre(std::string(": ") + kWhy));
}

TEST(Handshakes, OfAPortThatHasGoneAreNobodys) {
  Told told;
  {
    HandshakePort port(told.callback());
    port.Began("a");
  }
  ReadHandshakeLog(kLine);
  EXPECT_THAT(told.lines, IsEmpty());
  HandshakePort silent(nullptr);
  silent.Began("b");
  ReadHandshakeLog(kLine);
}

TEST(Handshakes, ReasonsAreInWordsThatHelp) {
  EXPECT_EQ(HandshakeFailureIn("Handshake failed with fatal error SSL_ERROR_SSL: "
                               "error:0A0000C7:SSL routines::peer did not return a certificate."),
            "TLS handshake: it showed no certificate");
  EXPECT_EQ(HandshakeFailureIn("Handshake failed with fatal error SSL_ERROR_SSL: "
                               "error:0A000418:SSL routines::tlsv1 alert unknown ca."),
            "TLS handshake: it does not trust our certificate: its authority is another one");
  EXPECT_EQ(HandshakeFailureIn("Handshake failed with fatal error SSL_ERROR_SSL: "
                               "error:0A000042:SSL routines::no shared cipher."),
            "TLS handshake: no shared cipher");
  EXPECT_EQ(HandshakeFailureIn("Could not load any root certificate."), "");
}

}  // namespace
}  // namespace tutti::transport
