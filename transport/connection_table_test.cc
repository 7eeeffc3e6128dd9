#include "transport/connection_table.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/descriptor.h"

namespace tutti::transport {
namespace {

Descriptor Socket() { return Descriptor(socket(AF_UNIX, SOCK_STREAM, 0)); }

TEST(ConnectionTableTest, ConnectionsClosedBySomebodyElseAreForgottenBySweeping) {
  ConnectionTable table({.total = 3, .per_account = 2});
  Descriptor a = Socket(), b = Socket(), c = Socket();
  table.Add(a.get(), "x");
  table.Add(b.get(), "x");
  table.Add(c.get(), "y");
  EXPECT_FALSE(table.HasRoom());
  EXPECT_FALSE(table.HasRoomFor("x"));
  EXPECT_TRUE(table.HasRoomFor("y"));
  table.Sweep();
  EXPECT_EQ(table.total(), 3);
  b.Reset();
  table.Sweep();
  EXPECT_EQ(table.total(), 2);
  EXPECT_EQ(table.of("x"), 1);
  // The number is used again, by another socket, of which the table knows nothing.
  const int number = c.get();
  c.Reset();
  const Descriptor other = Socket();
  EXPECT_EQ(dup2(other.get(), number), number);
  table.Sweep();
  EXPECT_EQ(table.of("y"), 0);
  EXPECT_EQ(table.total(), 1);
  close(number);
}

TEST(ConnectionTableTest, ANumberThatIsAcceptedAgainCountsOnce) {
  ConnectionTable table({.total = 3, .per_account = 2});
  Descriptor a = Socket();
  table.Add(a.get(), "x");
  table.Add(a.get(), "y");
  EXPECT_EQ(table.total(), 1);
  EXPECT_EQ(table.of("x"), 0);
  table.Remove(a.get());
  table.Remove(a.get());
  EXPECT_EQ(table.total(), 0);
}

// Both ports of a coordinator together stay below the descriptors it has, whatever those are.
TEST(ConnectionBoundsTest, PortsLeaveDescriptorsForTheRest) {
  for (const int64_t descriptors : {64, 256, 1024, 4096, 20000, 1 << 20}) {
    const ConnectionBounds peers = PeerPortBounds(descriptors);
    const ConnectionBounds clients = PublicPortBounds(descriptors);
    EXPECT_LE(peers.total + clients.total, descriptors - std::min<int64_t>(512, descriptors / 2));
    EXPECT_GE(peers.per_account, 1);
    EXPECT_LE(2 * clients.per_account, clients.total);
    EXPECT_LE(2 * peers.per_account, peers.total);
  }
  EXPECT_EQ(PeerPortBounds(20000).total, 2048);
  EXPECT_EQ(PublicPortBounds(20000).total, 8192);
}

}  // namespace
}  // namespace tutti::transport
