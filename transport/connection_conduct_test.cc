// The choice of who is cut, and above all who is not: times and sizes of honest clients and of
// floods.
#include "transport/connection_conduct.h"

#include <gtest/gtest.h>

#include "transport/limits.h"

namespace tutti::transport {
namespace {

using std::chrono::milliseconds;
constexpr int64_t kKiB = 1 << 10;
constexpr int64_t kMiB = 1 << 20;

// A connection and what its looks see.
struct Watched {
  // So many bytes more came since the last look, of which `unread` lie there.
  bool Look(int64_t bytes, int64_t unread = 0, milliseconds after = kLookInterval) {
    now += after;
    socket.received += bytes;
    socket.unread = unread;
    return conduct.Judge(socket, standing, now);
  }
  Instant now{};
  Conduct conduct{now};
  SocketState socket;
  Conduct::Standing standing;
};

TEST(ConductTest, BytesThatBecomeNoRequestEndTheConnection) {
  Watched flood;
  EXPECT_TRUE(flood.Look(kDebtBytesMax));
  EXPECT_FALSE(flood.Look(kKiB));
}

TEST(ConductTest, RequestsOfAnySizeAndNumberAreHonest) {
  Watched client;
  for (int i = 0; i < 10'000; ++i) {
    client.standing.credited += 80 * kKiB;
    ASSERT_TRUE(client.Look(80 * kKiB)) << i;
  }
}

TEST(ConductTest, ALargeRequestOverASlowLineIsHonest) {
  Watched client;
  client.standing.reading = 1;
  for (int i = 0; i < 80; ++i) ASSERT_TRUE(client.Look(100 * kKiB)) << i;
  client.standing.reading = 0;
  client.standing.credited += 80 * 100 * kKiB;
  EXPECT_TRUE(client.Look(kKiB));
  EXPECT_LE(client.conduct.debt_bytes(), kKiB);
}

TEST(ConductTest, ALargeRequestThatFillsTheSocketForAMomentIsHonest) {
  Watched client;
  client.standing.reading = 1;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(client.Look(kMiB, /*unread=*/kMiB)) << i;
  EXPECT_TRUE(client.Look(0, 0));
}

TEST(ConductTest, BehindARequestThatNeverComesAFloodIsSeenByTheThreadThatItKeeps) {
  Watched flood;
  flood.standing.reading = 1;
  int looks = 0;
  while (flood.Look(256 * kKiB, /*unread=*/kMiB)) ASSERT_LT(++looks, 100);
  EXPECT_LE(looks * kLookInterval, kCaptiveMax + 2 * kLookInterval);
}

TEST(ConductTest, WhereOthersFloodedAFloodEndsSooner) {
  Watched flood;
  flood.standing.reading = 1;
  flood.standing.is_slowed = true;
  int looks = 0;
  while (flood.Look(256 * kKiB, /*unread=*/kMiB)) ASSERT_LT(++looks, 100);
  EXPECT_LE(looks * kLookInterval, kSlowedCaptiveMax + 2 * kLookInterval);
}

TEST(ConductTest, AClientWhoseBytesNobodyReadsForLongIsNotToBlame) {
  Watched client;
  client.standing.reading = 1;
  ASSERT_TRUE(client.Look(kMiB, kMiB));
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(client.Look(0, kMiB)) << i;
}

// gRPC reads all of a message before it finds it too large, and its sender waits to hear so.
TEST(ConductTest, AMessageThatWasTooLargeIsSetAside) {
  Watched client;
  for (int message = 1; message <= 3; ++message) {
    client.standing.reading = 1;
    for (int i = 0; i < 9; ++i) ASSERT_TRUE(client.Look(kMiB)) << i;
    client.standing.reading = 0;
    client.standing.lost = message;
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(client.Look(100)) << message;
  }
  EXPECT_FALSE(client.Look(kDebtBytesMax + kKiB)) << "nothing was lost of these";
}

TEST(ConductTest, MessagesThatAreTooLargeOneAfterTheOtherEndTheConnection) {
  Watched flood;
  int64_t bytes = 0;
  for (flood.standing.lost = 1; flood.Look(9 * kMiB); ++flood.standing.lost) {
    ASSERT_LT(bytes += 9 * kMiB, kLostBytesMax + 2 * 9 * kMiB);
  }
  EXPECT_GT(bytes, kLostBytesMax);
}

TEST(ConductTest, NothingIsSetAsideForManySmallCallsOrWhereOthersFlooded) {
  Watched flood;
  flood.standing.lost = 2;
  EXPECT_FALSE(flood.Look(kDebtBytesMax + kKiB)) << "too little for two";
  Watched slowed;
  slowed.standing.is_slowed = true;
  slowed.standing.lost = 1;
  EXPECT_FALSE(slowed.Look(9 * kMiB));
}

TEST(ConductTest, BehindAnIdleStreamOneMessageMayComeAndNoFlood) {
  Watched client;
  client.standing.waiting = 1;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(client.Look(kMiB)) << i;
  client.standing.credited += 8 * kMiB;
  ASSERT_TRUE(client.Look(kKiB));
  int64_t bytes = 0;
  while (client.Look(kMiB)) ASSERT_LT(bytes += kMiB, kMessageDebtBytesMax + 2 * kMiB);
  EXPECT_GE(bytes, 2 * kMessageBytesMax - kMiB);
}

TEST(ConductTest, BehindARequestThatNeverComesAFloodThatTakesBreathHasABound) {
  Watched flood;
  flood.standing.reading = 1;
  int64_t bytes = 0;
  while (flood.Look(64 * kKiB)) ASSERT_LT(bytes += 64 * kKiB, kMessageDebtBytesMax + kMiB);
  EXPECT_GE(bytes, kMessageDebtBytesMax) << "one that is too large must hear so";
}

TEST(ConductTest, CallsWithoutAMessageByTheThousandAreNoThousandMessages) {
  Watched flood;
  flood.standing.reading = 4096;
  int64_t bytes = 0;
  while (flood.Look(256 * kKiB)) ASSERT_LT(bytes += 256 * kKiB, kMessagesDebtBytesMax + kMiB);
}

TEST(ConductTest, SixteenOfTheLargestAtOnceAreHonest) {
  Watched client;
  client.standing.reading = 16;
  // With the headers of frames and of TLS.
  for (int i = 0; i < 128; ++i) ASSERT_TRUE(client.Look(kMiB + kMiB / 100)) << i;
  client.standing.reading = 0;
  client.standing.credited += 128 * kMiB + 128 * kMiB / kCallCreditDivisor;
  EXPECT_TRUE(client.Look(kKiB));
}

TEST(ConductTest, WhereOthersFloodedOneOfTheLargestMayCome) {
  Watched client;
  client.standing.is_slowed = true;
  client.standing.reading = 10;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(client.Look(kMiB)) << i;
  EXPECT_FALSE(client.Look(kMiB));
}

// Of a client behind the address of a flood: six of 3.9 MB end together.
TEST(ConductTest, WhereOthersFloodedSeveralLargeMessagesAreLentTheirBytes) {
  Watched client;
  client.standing.is_slowed = true;
  client.standing.lendable = 16 * kMiB;
  client.standing.reading = 6;
  for (int i = 0; i < 23; ++i) ASSERT_TRUE(client.Look(kMiB, /*unread=*/kMiB)) << i;
  EXPECT_GT(client.conduct.borrowed(), 13 * kMiB);
  client.standing.reading = 0;
  client.standing.credited += 24 * kMiB;
  EXPECT_TRUE(client.Look(0, 0));
  EXPECT_EQ(client.conduct.borrowed(), 0);
  // And no more than these, whoever they are of.
  Watched other = client;
  for (Watched* const flood : {&client, &other}) {
    flood->standing.reading = flood == &client ? 6 : 2;
    int64_t bytes = 0;
    while (flood->Look(kMiB)) ASSERT_LT(bytes += kMiB, 40 * kMiB);
    EXPECT_EQ(bytes / kMiB, flood == &client ? 24 : 16);
  }
}

TEST(ConductTest, WhoseBytesAreReadAsFastAsMessagesAreKeepsNoThread) {
  Watched client;
  client.standing.is_slowed = true;
  client.standing.reading = 1;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(client.Look(700 * kKiB, /*unread=*/kMiB)) << i;
  Watched slower;
  slower.standing = client.standing;
  int looks = 0;
  while (slower.Look(500 * kKiB, /*unread=*/kMiB)) ASSERT_LT(++looks, 10);
  EXPECT_LE(looks, kSlowedCaptiveLooks);
}

// Of settings, each is acknowledged, and read as fast as messages are.
TEST(ConductTest, AFloodThatIsAcknowledgedIsSeenByTheThreadThatItKeeps) {
  for (const bool is_slowed : {false, true}) {
    Watched flood;
    flood.standing.is_slowed = is_slowed;
    int looks = 0;
    do {
      flood.socket.sent += 2 * kMiB;
      ASSERT_LT(++looks, 100);
    } while (flood.Look(2 * kMiB, /*unread=*/kMiB));
    EXPECT_LE(looks * kLookInterval,
              (is_slowed ? kSlowedCaptiveMax : kCaptiveMax) + 2 * kLookInterval);
  }
}

TEST(ConductTest, ABusyMachineIsNobodysMalice) {
  for (const bool is_slowed : {false, true}) {
    Watched client;
    client.standing.is_slowed = is_slowed;
    client.standing.reading = 1;
    client.standing.busy = milliseconds(2);  // in 25: as others leave us
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(client.Look(100 * kKiB, /*unread=*/kMiB)) << i;
  }
}

// The bytes that a flood gets through in ten minutes: `burst` bytes at every `every`th look, of
// which nothing becomes a request, and a lost message for each; `reading` others are on their way.
int64_t BytesOfFlood(int64_t burst, int every, int32_t reading) {
  Watched flood;
  flood.standing.reading = reading;
  int64_t bytes = 0;
  for (int look = 0; look < 10 * 60 * 40; ++look) {
    const bool sends = look % every == 0;
    if (sends) ++flood.standing.lost;
    if (!flood.Look(sends ? burst : 0)) break;
    if (sends) bytes += burst;
  }
  return bytes;
}

TEST(ConductTest, LostMessagesLiftTheBoundForTheFirstAndForALittle) {
  // As many resets as explain the bytes: one for each 256 KiB.
  EXPECT_LE(BytesOfFlood(kDebtBytesMax + kKiB, 2, 0), kLostBytesMax * 5 / 4);
  // A call without a message, a new one each second.
  EXPECT_LE(BytesOfFlood(2 * kMiB, 40, 1), 2 * (kLostBytesMax + kMessageDebtBytesMax));
  // But who keeps to what is paid off may go on.
  EXPECT_EQ(BytesOfFlood(kDebtBytesMax + kKiB, 200, 0), 120 * (kDebtBytesMax + kKiB));
}

// The connection of all clients of a gateway: one stops an answer while its prompt is still on its
// way.
TEST(ConductTest, UploadsThatAreGivenUpAreHonest) {
  EXPECT_EQ(BytesOfFlood(2 * kMiB, 5 * 40, 0), 120 * 2 * kMiB);
  EXPECT_EQ(BytesOfFlood(4 * kMiB, 20 * 40, 0), 30 * 4 * kMiB);
  EXPECT_EQ(BytesOfFlood(kMiB, 2 * 40, 0), 300 * kMiB);
}

TEST(ConductTest, CreditIsNotSaved) {
  Watched flood;
  flood.standing.credited = 100 * kMiB;
  EXPECT_TRUE(flood.Look(kKiB));
  EXPECT_FALSE(flood.Look(kDebtBytesMax + 4 * kKiB));
}

TEST(ConductTest, WhoReadsALongAnswerAcknowledgesIt) {
  Watched client;
  for (int i = 0; i < 10'000; ++i) {
    client.socket.sent += 50;
    ASSERT_TRUE(client.Look(95)) << i;
  }
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(client.Look(95)) << i;  // and pings, for a while
}

TEST(ConductTest, PingsAndHealthChecksAreForgivenWithTime) {
  Watched client;
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(client.Look(300, 0, milliseconds(100))) << i;
}

}  // namespace
}  // namespace tutti::transport
