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

TEST(ConnectionTableTest, EndingAllLeavesAloneWhoHasTheNumberOfAClosedConnection) {
  ConnectionTable table({.total = 3, .per_account = 3});
  int ours[2], others[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ours), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
  const Descriptor our_end(ours[0]), other_end(others[0]), far(ours[1]), other_far(others[1]);
  Descriptor closed = Socket();
  const int number = closed.get();
  table.Add(our_end.get(), "x");
  table.Add(number, "x");
  closed.Reset();
  ASSERT_EQ(dup2(other_end.get(), number), number);
  ASSERT_EQ(write(our_end.get(), "w", 1), 1);
  table.EndAll();
  char byte = 0;
  EXPECT_EQ(recv(far.get(), &byte, 1, 0), 1) << "what was written before arrives";
  EXPECT_EQ(recv(far.get(), &byte, 1, 0), 0);
  EXPECT_EQ(recv(other_far.get(), &byte, 1, MSG_DONTWAIT), -1);
  close(number);
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
  EXPECT_EQ(PortBoundsBeside(1000, 300).total, 200);
  EXPECT_EQ(PortBoundsBeside(1000, 300).per_account, 100);
  EXPECT_EQ(PortBoundsBeside(1000, 4000).total, 1) << "a port without any could not say so";
  EXPECT_EQ(PeerPortBounds(20000).total, 2048);
  EXPECT_EQ(PublicPortBounds(20000).total, 8192);
}

}  // namespace
}  // namespace tutti::transport
