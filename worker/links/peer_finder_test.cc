#include "worker/links/peer_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/limits.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

v1::AssignShard Shard(const std::vector<std::pair<std::string, std::string>>& peers) {
  v1::AssignShard shard;
  for (const auto& [id, address] : peers) {
    v1::PeerAddress* const peer = shard.add_peers();
    peer->set_worker_id(id);
    peer->set_address(address);
  }
  return shard;
}

PeerTable TableOf(const std::string& entry) {
  PeerTable table;
  EXPECT_EQ(table.Add(entry), absl::OkStatus());
  return table;
}

TEST(PeerFinder, AnAnnouncedAddressIsDialledAsThatWorkers) {
  PeerFinder finder({.table = {}, .policy = {}, .peers_are_proved = true});
  finder.Learn(Shard({{"w1", "10.80.0.2:50060"}}), "10.80.0.1:50060");
  const auto found = finder.Find("w1");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->target.address, "10.80.0.2:50060");
  EXPECT_EQ(found->target.listener, "tutti://worker/w1");
  // Its certificate need not name the address, but the worker.
  EXPECT_EQ(found->target.server_name, "w1");
  EXPECT_EQ(found->address, "10.80.0.2:50060");
  EXPECT_THAT(finder.Find("w2").status().ToString(),
              AllOf(HasSubstr("NOT_FOUND"), HasSubstr("\"w2\" has announced no address")));
  finder.Learn(Shard({{"w2", "10.80.0.3:50060"}}), "10.80.0.1:50060");
  EXPECT_FALSE(finder.Find("w1").ok()) << "of the shard before";
}

TEST(PeerFinder, WhatMayNotBeDialledIsRefusedByNameAndAddress) {
  PeerFinder finder({.table = {}, .policy = {}, .peers_are_proved = true});
  finder.Learn(Shard({{"w1", "192.168.0.2:50060"}, {"w2", "unix:/run/x"}, {"w3", "w3:1"}}),
               "10.80.0.1:50060");
  EXPECT_THAT(
      finder.Find("w1").status().ToString(),
      AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("worker \"w1\" announces"),
            HasSubstr("192.168.0.2:50060"), HasSubstr("10.0.0.0/8"), HasSubstr("--peer-network")));
  EXPECT_THAT(finder.Find("w2").status().ToString(),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("\"w2\"")));
  EXPECT_THAT(finder.Find("w3").status().ToString(), HasSubstr("--peer-name"));
  // Without an address of its own it is near to nobody.
  finder.Learn(Shard({{"w1", "10.80.0.2:50060"}}), "");
  EXPECT_THAT(finder.Find("w1").status().ToString(), HasSubstr("(it may: nothing)"));
}

TEST(PeerFinder, ATableIsStrict) {
  const v1::AssignShard shard = Shard({{"w1", "10.80.0.9:1"}, {"w2", "10.80.0.2:50060"}});
  PeerFinder strict(
      {.table = TableOf("w1=10.80.0.1:50060"), .policy = {}, .peers_are_proved = true});
  strict.Learn(shard, "10.80.0.1:50060");
  const auto told = strict.Find("w1");
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->address, "10.80.0.1:50060") << "the operator's word before the worker's";
  EXPECT_EQ(told->target.server_name, "") << "its certificate must name the address";
  EXPECT_THAT(strict.Find("w2").status().ToString(), HasSubstr("peer table"));
  PeerRules both = {.table = TableOf("w1=10.80.0.1:50060"), .policy = {}, .peers_are_proved = true};
  ASSERT_EQ(both.policy.AddNetwork("10.80.0.0/24"), absl::OkStatus());
  PeerFinder wider(both);
  wider.Learn(shard, "");
  EXPECT_EQ(wider.Find("w1")->address, "10.80.0.1:50060");
  EXPECT_EQ(wider.Find("w2")->address, "10.80.0.2:50060");
}

TEST(PeerFinder, NothingAnnouncedIsDialledWhereNobodyProvesItsName) {
  PeerFinder finder({.table = {}, .policy = {}, .peers_are_proved = false});
  finder.Learn(Shard({{"w1", "127.0.0.1:50060"}}), "127.0.0.1:50061");
  EXPECT_THAT(finder.Find("w1").status().ToString(), HasSubstr("peer table"));
}

TEST(PeerFinder, WhatACoordinatorTellsIsBounded) {
  std::vector<std::pair<std::string, std::string>> peers;
  for (size_t i = 0; i <= kNeighboursMax; ++i) {
    peers.emplace_back("w" + std::to_string(i), "10.0.0.1:50060");
  }
  peers[0] = {std::string(100'000, '\n'), "10.0.0.1:1"};
  peers[1] = {"w1", std::string(100'000, '\n')};
  PeerFinder finder({.table = {}, .policy = {}, .peers_are_proved = true});
  finder.Learn(Shard(peers), "10.0.0.2:50060");
  EXPECT_TRUE(finder.Find("w2").ok());
  EXPECT_FALSE(finder.Find("w" + std::to_string(kNeighboursMax)).ok());
  EXPECT_LT(finder.Find("w1").status().message().size(), 1000u);
  EXPECT_LT(finder.Find(std::string(100'000, 'x')).status().message().size(), 1000u);
}

}  // namespace
}  // namespace tutti::worker
