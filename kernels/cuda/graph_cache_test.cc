#include "kernels/cuda/graph_cache.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/runtime_testing.h"

namespace tutti::kernels::cuda {
namespace {

using ::testing::ElementsAre;

class GraphCacheTest : public ::testing::Test {
 protected:
  // Starts a list of launches numbered `first` and on; returns the device's log of it.
  std::vector<std::string> Run(int64_t first, int64_t count = 4, float value = 0) {
    LaunchList list;
    for (int64_t i = 0; i < count; ++i) list.Append(FakeLaunch(first + i, value));
    return Run(&list);
  }
  std::vector<std::string> Run(LaunchList* list) {
    device_.log.clear();
    cache_->Start(list);
    return device_.log;
  }
  void Limit(const GraphCache::Limits& limits) {
    cache_ = std::make_unique<GraphCache>(&device_, limits);
  }
  // Starts it often enough to be a graph.
  void Learn(int64_t first) {
    Run(first);
    Run(first);
  }
  bool IsGraph(int64_t first) { return Run(first).size() == 1; }

  FakeDevice device_;
  std::unique_ptr<GraphCache> cache_ = std::make_unique<GraphCache>(&device_, GraphCache::Limits());
};

TEST_F(GraphCacheTest, AListIsAGraphFromTheSecondTimeOn) {
  EXPECT_THAT(Run(1), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(Run(1), ElementsAre("[1 2 3 4]"));
  EXPECT_THAT(Run(1), ElementsAre("[1 2 3 4]"));
  EXPECT_EQ(device_.graphs_made, 1);
  const LaunchCounts counts = cache_->counts();
  EXPECT_EQ(counts.kernels, 12);
  EXPECT_EQ(counts.kernels_by_graphs, 8);
  EXPECT_EQ(counts.graph_starts, 2);
  EXPECT_EQ(counts.graphs_made, 1);
  EXPECT_EQ(counts.graphs, 1);
  EXPECT_EQ(counts.graph_bytes, device_.graph_bytes);
}

TEST_F(GraphCacheTest, ShortListsAreNotWorthIt) {
  for (int i = 0; i < 5; ++i) EXPECT_THAT(Run(1, 3), ElementsAre("1", "2", "3"));
  EXPECT_EQ(cache_->counts().kernels_of_short_lists, 15);
}

// A list with any difference, however small, is not taken for the one that is known.
TEST_F(GraphCacheTest, AListThatDiffersAnywhereIsNotReplayed) {
  const auto list_with = [](const auto& change) {
    LaunchList list;
    for (int64_t i = 0; i < 4; ++i) {
      FakeArgument argument = {.number = i, .value = 1};
      KernelLaunch launch = FakeLaunch(0, 0);
      launch.argument = &argument;
      if (i == 2) change(&launch, &argument);
      list.Append(launch);
    }
    return list;
  };
  LaunchList known = list_with([](KernelLaunch*, FakeArgument*) {});
  Run(&known);
  ASSERT_EQ(Run(&known).size(), 1u);
  const auto expect_unknown = [&](const char* what, const auto& change) {
    LaunchList list = list_with(change);
    EXPECT_EQ(Run(&list).size(), 4u) << what;
  };
  for (size_t byte = 0; byte < sizeof(FakeArgument); ++byte) {
    expect_unknown("a byte of the argument", [byte](KernelLaunch*, FakeArgument* argument) {
      reinterpret_cast<unsigned char*>(argument)[byte] ^= 1;
    });
  }
  static const char other = 0;
  expect_unknown("kernel", [](KernelLaunch* launch, FakeArgument*) { launch->kernel = &other; });
  expect_unknown("grid.x", [](KernelLaunch* launch, FakeArgument*) { ++launch->grid.x; });
  expect_unknown("grid.y", [](KernelLaunch* launch, FakeArgument*) { ++launch->grid.y; });
  expect_unknown("threads", [](KernelLaunch* launch, FakeArgument*) { launch->threads = 64; });
  expect_unknown("shared", [](KernelLaunch* launch, FakeArgument*) { launch->shared_bytes = 4; });
  expect_unknown("size", [](KernelLaunch* launch, FakeArgument*) { launch->argument_bytes = 8; });
  LaunchList longer = list_with([](KernelLaunch*, FakeArgument*) {});
  longer.Append(FakeLaunch(4, 0));
  EXPECT_EQ(Run(&longer).size(), 5u);
  EXPECT_EQ(device_.graphs_made, 1);
  EXPECT_EQ(Run(&known).size(), 1u);
}

// The address of an argument and the memory around it are not part of the launch.
TEST_F(GraphCacheTest, OnlyTheArgumentItselfCounts) {
  for (int i = 0; i < 3; ++i) {
    alignas(8) unsigned char memory[64];
    std::memset(memory, 17 * i, sizeof(memory));
    auto* const argument = new (memory + 8 * i) FakeArgument{.number = 1, .value = 2};
    LaunchList list;
    KernelLaunch launch = FakeLaunch(0, 0);
    launch.argument = argument;
    launch.argument_bytes = 12;  // not a multiple of the lists' alignment
    for (int n = 0; n < 4; ++n) list.Append(launch);
    EXPECT_EQ(Run(&list).size(), i == 0 ? 4u : 1u);
  }
}

TEST_F(GraphCacheTest, TheGraphUsedLongestAgoIsDropped) {
  Limit({.graphs = 3});
  for (const int64_t first : {10, 20, 30}) Learn(first);
  EXPECT_TRUE(IsGraph(10));
  Learn(40);
  EXPECT_EQ(device_.graphs_live, 3);
  EXPECT_TRUE(IsGraph(10));
  EXPECT_TRUE(IsGraph(30));
  EXPECT_TRUE(IsGraph(40));
  // The dropped one begins again.
  EXPECT_FALSE(IsGraph(20));
  EXPECT_TRUE(IsGraph(20));
  EXPECT_EQ(device_.graphs_live, 3);
}

TEST_F(GraphCacheTest, KeysAndDeviceMemoryAreBounded) {
  LaunchList list;
  for (int i = 0; i < 4; ++i) list.Append(FakeLaunch(i, 0));
  const auto bytes = static_cast<int64_t>(list.bytes().size());
  Limit({.key_bytes = 2 * bytes});
  for (const int64_t first : {10, 20, 30}) Learn(first);
  EXPECT_EQ(device_.graphs_live, 2);
  Run(100, 9);
  EXPECT_EQ(Run(100, 9).size(), 9u) << "longer than all keys together may be";

  Limit({.device_bytes = 10'000});
  device_.graph_bytes = 4'000;
  for (const int64_t first : {10, 20, 30, 40}) {
    Learn(first);
    EXPECT_LE(cache_->counts().graph_bytes, 10'000 + 4'000);
  }
  EXPECT_EQ(device_.graphs_live, 3);
}

// A neighbour that loads a model while a graph is made, or leaves: neither is the graph's memory.
TEST_F(GraphCacheTest, MemoryThatANeighbourTakesIsNotTheGraphs) {
  device_.graph_bytes = int64_t{8} << 30;
  for (const int64_t first : {10, 20, 30, 40}) Learn(first);
  EXPECT_EQ(device_.graphs_live, 4) << "the cache was emptied";
  EXPECT_LT(cache_->counts().graph_bytes, 4 * (int64_t{3} << 20));
  device_.graph_bytes = -(int64_t{8} << 30);
  const int64_t before = cache_->counts().graph_bytes;
  Learn(50);
  EXPECT_GT(cache_->counts().graph_bytes, before);
}

TEST_F(GraphCacheTest, NoGraphTakesTheLastOfTheMemory) {
  device_.free_bytes = kGraphFreeBytesMin - 1;
  ::testing::internal::CaptureStderr();
  Learn(10);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("bytes of the GPU are free, graphs leave 67108864 to others"));
  EXPECT_EQ(device_.graphs_made, 0);
}

// A step has many lists, and all of them come again before one of them does: none may push another
// out as long as there is room.
TEST_F(GraphCacheTest, AsManyListsAreRememberedAsThereIsRoomFor) {
  Limit({.lists_seen = 500});
  for (int64_t list = 0; list < 500; ++list) Run(10 * list);
  for (int64_t list = 0; list < 500; ++list) EXPECT_TRUE(IsGraph(10 * list)) << list;
}

TEST_F(GraphCacheTest, ListsSeenOnceAreForgottenWhenThereAreMany) {
  Limit({.lists_seen = 1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(IsGraph(10));
    EXPECT_FALSE(IsGraph(20));
  }
  EXPECT_FALSE(IsGraph(10));
  EXPECT_TRUE(IsGraph(10));
}

TEST_F(GraphCacheTest, WithoutGraphsEverythingStartsAlone) {
  Limit({.graphs = 0});
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(IsGraph(10));
  EXPECT_EQ(device_.graphs_made, 0);
  EXPECT_EQ(cache_->counts().kernels, 12);
}

// A device that cannot make graphs is asked once, and those made before go on.
TEST_F(GraphCacheTest, ADeviceThatCannotIsNotAskedAgain) {
  Learn(10);
  device_.graph_error = absl::ResourceExhaustedError("no room for graphs");
  Run(20);
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(Run(20), ElementsAre("20", "21", "22", "23"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("no room for graphs"));
  EXPECT_EQ(cache_->counts().graph_error, "no room for graphs");
  device_.graph_error = absl::OkStatus();
  Learn(30);
  EXPECT_FALSE(IsGraph(30));
  EXPECT_FALSE(IsGraph(20));
  EXPECT_TRUE(IsGraph(10));
  EXPECT_EQ(device_.graphs_made, 1);
}

TEST_F(GraphCacheTest, GraphsEndWithTheCache) {
  Learn(10);
  EXPECT_EQ(device_.graphs_live, 1);
  cache_.reset();
  EXPECT_EQ(device_.graphs_live, 0);
}

}  // namespace
}  // namespace tutti::kernels::cuda
