#include "worker/links/link_collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "model/work_space.h"
#include "transport/limits.h"
#include "worker/ranks_testing.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

std::vector<float> Values(int rank, int64_t count) {
  Random random(static_cast<uint64_t>(rank) + 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(random.Between(-9999, 9999)),
                       static_cast<int>(random.Between(-20, 20)));
  }
  return values;
}

float Tree(const std::vector<std::vector<float>>& values, size_t i, int first, int count) {
  if (count == 1) return values[first][i];
  return Tree(values, i, first, count / 2) + Tree(values, i, first + count / 2, count / 2);
}

absl::StatusOr<std::span<const float>> SumOf(LinkCollective* collective,
                                             const std::vector<float>& values) {
  TUTTI_ASSIGN_OR_RETURN(const auto bytes, collective->Acquire(values.size() * sizeof(float)));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return collective->Sum();
}

TEST(LinkCollective, SumsInOneTreeOnEveryRank) {
  for (const int ranks : {1, 2, 4, 8}) {
    TestRanks stage(ranks);
    // Payloads arrive in pieces of any size, also within a value.
    stage.meddle = [](int, RankFrameChannel::Received* frame) {
      const std::span<const std::byte> whole = frame->payload.chunks[0];
      if (whole.size() < 16) return;
      frame->payload.chunks = {whole.first(1), whole.subspan(1, 6), {}, whole.subspan(7)};
    };
    for (const int64_t count : {1, 3, 1000, 300'000}) {  // the last in two frames
      std::vector<std::vector<float>> values;
      for (int rank = 0; rank < ranks; ++rank) values.push_back(Values(rank, count));
      stage.Run([&](int rank) {
        LinkCollective* collective = stage.collective(rank);
        ASSERT_TRUE(collective->Reserve(ranks, count * 4).ok());
        for (uint64_t step = 1; step <= 3; ++step) {
          collective->BeginStep(step);
          const auto sum = SumOf(collective, values[rank]);
          ASSERT_TRUE(sum.ok()) << sum.status();
          for (size_t i = 0; i < static_cast<size_t>(count); i += 1 + i / 50) {
            ASSERT_EQ(std::bit_cast<uint32_t>((*sum)[i]),
                      std::bit_cast<uint32_t>(Tree(values, i, 0, ranks)));
          }
        }
      });
    }
  }
}

TEST(LinkCollective, GathersBlocksOfAnySize) {
  for (const int ranks : {2, 4, 8}) {
    TestRanks stage(ranks);
    std::vector<int64_t> begin = {0};
    for (int rank = 0; rank < ranks; ++rank) begin.push_back(begin.back() + rank % 3 * 7);
    stage.Run([&](int rank) {
      LinkCollective* collective = stage.collective(rank);
      ASSERT_TRUE(collective->Reserve(ranks, begin.back()).ok());
      const auto bytes = collective->Acquire(begin.back());
      ASSERT_TRUE(bytes.ok());
      std::memset(bytes->data() + begin[rank], rank + 1, begin[rank + 1] - begin[rank]);
      const absl::Status status = collective->Gather(begin);
      ASSERT_TRUE(status.ok()) << status;
      for (int other = 0; other < ranks; ++other) {
        for (int64_t i = begin[other]; i < begin[other + 1]; ++i) {
          ASSERT_EQ((*bytes)[i], std::byte(other + 1));
        }
      }
    });
  }
}

// Payload, and a header of a few dozen bytes, log2(ranks) times.
TEST(LinkCollective, SendsEachVectorOncePerDoubling) {
  for (const int ranks : {2, 4, 8}) {
    TestRanks stage(ranks);
    stage.Run([&](int rank) {
      ASSERT_TRUE(stage.collective(rank)->Reserve(ranks, 4096).ok());
      ASSERT_TRUE(SumOf(stage.collective(rank), Values(rank, 1024)).ok());
    });
    for (int rank = 0; rank < ranks; ++rank) {
      const auto counters = stage.collective(rank)->traffic();
      EXPECT_EQ(counters.frames_out, std::countr_zero(static_cast<unsigned>(ranks)));
      EXPECT_LE(counters.bytes_out, counters.frames_out * (4096 + 48));
      EXPECT_EQ(counters.bytes_in, counters.bytes_out);
    }
  }
}

// Rank 0 must find the fault that `meddle` makes in rank 1's first frame, and name rank 1.
absl::Status SumWith(const std::function<void(RankFrameChannel::Received*)>& meddle) {
  TestRanks stage(2);
  stage.meddle = [&](int from, RankFrameChannel::Received* frame) {
    if (from == 1) meddle(frame);
  };
  absl::Status status;
  stage.Run([&](int rank) {
    LinkCollective* collective = stage.collective(rank);
    EXPECT_TRUE(collective->Reserve(2, 4096).ok());
    collective->BeginStep(5);
    const auto sum = SumOf(collective, Values(rank, 1024));
    if (rank == 0) status = sum.status();
  });
  return status;
}

TEST(LinkCollective, RefusesWhatDoesNotBelong) {
  EXPECT_TRUE(SumWith([](auto*) {}).ok());
  static std::byte wrong[4096];
  const absl::Status corrupt =
      SumWith([](auto* received) { received->payload = {.chunks = {wrong}, .owner = nullptr}; });
  EXPECT_EQ(corrupt.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(corrupt.message()), HasSubstr("rank 1"));
  const auto with = [](const std::function<void(v1::RankExchange*)>& change) {
    return SumWith([&](auto* received) { change(received->frame.mutable_rank_exchange()); }).code();
  };
  EXPECT_EQ(with([](auto* e) { e->set_step(4); }), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(with([](auto* e) { e->set_sequence(2); }), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(with([](auto* e) { e->set_offset(4); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(with([](auto* e) { e->set_total_bytes(8); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SumWith([](auto* r) { r->payload = {}; }).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SumWith([](auto* r) { r->frame.mutable_step_done(); }).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(LinkCollective, ASilentRankIsNamed) {
  TestRanks stage(2);
  stage.patience = std::chrono::milliseconds(20);
  ASSERT_TRUE(stage.collective(0)->Reserve(2, 64).ok());
  const absl::Status status = SumOf(stage.collective(0), {1, 2}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
}

// Frames that the transport keeps hold their memory; the rest goes round.
TEST(LinkCollective, NeverWritesWhatIsStillBeingSent) {
  TestRanks stage(2);
  Mutex mutex;
  std::vector<std::shared_ptr<const void>> kept;
  std::vector<std::pair<const std::byte*, std::vector<std::byte>>> copies;
  stage.meddle = [&](int from, RankFrameChannel::Received* frame) {
    if (from != 0 || !kept.empty()) return;
    const MutexLock lock(&mutex);
    kept.push_back(frame->payload.owner);
    const auto bytes = frame->payload.chunks[0];
    copies.emplace_back(bytes.data(), std::vector<std::byte>(bytes.begin(), bytes.end()));
  };
  stage.Run([&](int rank) {
    LinkCollective* collective = stage.collective(rank);
    ASSERT_TRUE(collective->Reserve(2, 4096).ok());
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(SumOf(collective, Values(10 * i + rank, 1024)).ok());
    }
  });
  for (const auto& [at, bytes] : copies) {
    EXPECT_EQ(std::memcmp(at, bytes.data(), bytes.size()), 0);
  }
}

}  // namespace
}  // namespace tutti::worker
