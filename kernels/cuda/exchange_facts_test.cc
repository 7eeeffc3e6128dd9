#include "kernels/cuda/exchange_facts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/nccl_library.h"

namespace tutti::kernels::cuda {
namespace {

ExchangeFacts Rank(int number) {
  ExchangeFacts facts = {.scope = DeviceExchangeScope::kMachine,
                         .nccl_version = 21803,
                         .machine = {1, 2, 3},
                         .founded = number == 0};
  facts.device[0] = std::byte(number + 1);
  facts.group[5] = std::byte(number);
  return facts;
}

std::string WhyNoGroup(std::span<const ExchangeFacts> ranks) {
  std::vector<std::string> names;
  for (size_t rank = 0; rank < ranks.size(); ++rank) names.push_back("w" + std::to_string(rank));
  return cuda::WhyNoGroup(ranks, names);
}

std::vector<ExchangeFacts> Ranks(int count) {
  std::vector<ExchangeFacts> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(Rank(rank));
  return ranks;
}

TEST(ExchangeFactsTest, ComesBackAsItWasWritten) {
  std::vector<std::byte> bytes(kExchangeFactsBytes);
  WriteFacts(Rank(0), bytes);
  const auto facts = ReadFacts(bytes);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->scope, DeviceExchangeScope::kMachine);
  EXPECT_EQ(facts->nccl_version, 21803);
  EXPECT_EQ(facts->machine, Rank(0).machine);
  EXPECT_EQ(facts->device, Rank(0).device);
  EXPECT_TRUE(facts->founded);
  EXPECT_EQ(facts->group, Rank(0).group);
}

// Any bytes may come; those that are taken are read as something that WriteFacts writes.
TEST(ExchangeFactsTest, OtherBytesAreRefused) {
  std::vector<std::byte> bytes(kExchangeFactsBytes);
  EXPECT_FALSE(ReadFacts(bytes).ok());
  Random random(7);
  int taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    WriteFacts(Rank(0), bytes);
    // The fields before the free-form ones.
    bytes[random.Between(0, 15)] = std::byte(random.Between(0, 255));
    const auto facts = ReadFacts(bytes);
    if (!facts.ok()) continue;
    ++taken;
    std::vector<std::byte> again(kExchangeFactsBytes);
    WriteFacts(*facts, again);
    EXPECT_EQ(bytes, again);
  }
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, 15'000);
}

TEST(ExchangeFactsTest, AGroupOfDistinctGpusOfOneMachine) {
  for (const int count : {2, 4, 8}) EXPECT_EQ(WhyNoGroup(Ranks(count)), "") << count;
}

TEST(ExchangeFactsTest, SaysWhyNot) {
  const auto with = [](int rank, const auto& change) {
    std::vector<ExchangeFacts> ranks = Ranks(4);
    change(ranks[rank]);
    return WhyNoGroup(ranks);
  };
  EXPECT_EQ(with(2, [](auto& facts) { facts.scope = DeviceExchangeScope::kOff; }),
            "w2 was started with --device-exchange off");
  EXPECT_EQ(with(3, [](auto& facts) { facts.nccl_version = 0; }), "w3 has no NCCL it can use");
  EXPECT_EQ(with(1, [](auto& facts) { facts.scope = DeviceExchangeScope::kNetwork; }),
            "w0 and w1 were started with different values of --device-exchange");
  EXPECT_EQ(with(1, [](auto& facts) { facts.nccl_version = 22005; }),
            "w0 has NCCL 2.18.3, w1 has 2.20.5");
  EXPECT_EQ(with(3, [](auto& facts) { facts.device = Rank(1).device; }), "w1 and w3 share a GPU");
  EXPECT_NE(with(2, [](auto& facts) { facts.machine[2] = 9; }).find("w0 and w2 are on"),
            std::string::npos);
}

TEST(ExchangeFactsTest, OverANetworkMachinesMayDiffer) {
  std::vector<ExchangeFacts> ranks = Ranks(2);
  for (ExchangeFacts& facts : ranks) facts.scope = DeviceExchangeScope::kNetwork;
  ranks[1].machine = {7, 8, 9};
  EXPECT_EQ(WhyNoGroup(ranks), "");
}

TEST(ExchangeFactsTest, ThisMachineStaysTheSame) {
  EXPECT_EQ(ThisMachine(), ThisMachine());
  EXPECT_NE(ThisMachine(), MachineKey());
}

TEST(NcclLibraryTest, SaysWhenThereIsNone) {
  const auto nccl = OpenNcclLibrary("/nowhere/libnccl.so.2", [](int) { return 0; });
  EXPECT_EQ(nccl.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(nccl.status().message().find("/nowhere/libnccl.so.2"), std::string::npos)
      << nccl.status();
}

TEST(NcclLibraryTest, RefusesALibraryWithoutItsFunctions) {
  const auto nccl = OpenNcclLibrary("libm.so.6", [](int) { return 0; });
  EXPECT_EQ(nccl.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(nccl.status().message().find("libm.so.6 has no function ncclGetVersion"),
            std::string::npos)
      << nccl.status();
}

// Of sockets of this process.
std::set<std::string> OwnInodes() {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string what = std::filesystem::read_symlink(entry.path(), gone).string();
    if (what.starts_with("socket:[")) inodes.insert(what.substr(8, what.size() - 9));
  }
  return inodes;
}

// Local addresses of sockets of this process that listen, as the kernel prints them.
std::multiset<std::string> Listening() {
  std::multiset<std::string> addresses;
  const std::set<std::string> own = OwnInodes();
  for (const char* const table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line, number, local, remote, state, other, inode;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      fields >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) fields >> other;  // queues, timers, user
      fields >> inode;
      if (state == "0A" && own.contains(inode)) addresses.insert(local);
    }
  }
  return addresses;
}

// The real library, where there is one: it has the functions declared, and a group is founded on
// loopback when it is told so (worker/service/main.cc).
TEST(NcclLibraryTest, OpensTheLibraryOfThisMachine) {
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  const auto nccl = OpenNcclLibrary(NcclLibraryPath(), [](int) { return 0; });
  if (absl::IsUnavailable(nccl.status())) GTEST_SKIP() << nccl.status().message();
  ASSERT_TRUE(nccl.ok()) << nccl.status();
  EXPECT_GE((*nccl)->version(), kNcclVersionMin);
  const std::multiset<std::string> before = Listening();
  const auto group = (*nccl)->NewGroup();
  ASSERT_TRUE(group.ok()) << group.status();
  int founded = 0;
  for (const std::string& address : Listening()) {
    if (before.contains(address)) continue;
    ++founded;
    EXPECT_EQ(address.substr(0, 8), "0100007F") << address;
  }
  EXPECT_GE(founded, 1);
}

}  // namespace
}  // namespace tutti::kernels::cuda
