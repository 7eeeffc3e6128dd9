// The exchange over emulated NCCL and the emulated GPU.
#include "kernels/cuda/nccl_exchange.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/emulated/emulated_backend.h"
#include "kernels/cuda/emulated/nccl_emulated.h"

namespace tutti::kernels::cuda {
namespace {

// One rank: a device, and its exchange.
struct Rank {
  Rank(int number, const std::shared_ptr<EmulatedNccl>& nccl, Duration patience)
      : runtime(MakeEmulatedRuntime()) {
    NcclOptions options = {.call_patience = patience};
    options.device_id[0] = std::byte(number);
    options.open_nccl = [nccl] { return absl::StatusOr<std::shared_ptr<Nccl>>(nccl); };
    options.open_runtime = MakeEmulatedRuntime;
    exchange = std::make_unique<NcclExchange>(runtime.get(), std::move(options));
  }
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<NcclExchange> exchange;
};

class Ranks {
 public:
  explicit Ranks(int count, Duration patience = std::chrono::seconds(60)) {
    for (int rank = 0; rank < count; ++rank) ranks_.emplace_back(rank, nccl, patience);
  }
  int count() const { return static_cast<int>(ranks_.size()); }
  Rank& operator[](int rank) { return ranks_[rank]; }

  void OnEach(const std::function<void(int)>& fn) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count(); ++rank) threads.emplace_back(fn, rank);
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<std::byte> Descriptions() {
    std::vector<std::byte> all(count() * kExchangeFactsBytes);
    for (int rank = 0; rank < count(); ++rank) {
      const absl::Status described = ranks_[rank].exchange->membership()->Describe(
          DeviceExchangeScope::kMachine, rank == 0,
          std::span(all).subspan(rank * kExchangeFactsBytes, kExchangeFactsBytes));
      EXPECT_TRUE(described.ok()) << described;
    }
    return all;
  }
  absl::Status Form(int rank, const std::vector<std::byte>& descriptions) {
    TUTTI_RETURN_IF_ERROR(ranks_[rank].exchange->membership()->Form(descriptions, count(), rank));
    return Wait(rank);
  }
  absl::Status Wait(int rank) {
    while (true) {
      TUTTI_ASSIGN_OR_RETURN(const bool formed, ranks_[rank].exchange->membership()->Formed());
      if (formed) return absl::OkStatus();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void FormAll() {
    const auto descriptions = Descriptions();
    std::vector<std::string> names;
    for (int rank = 0; rank < count(); ++rank) names.push_back("rank " + std::to_string(rank));
    EXPECT_EQ(ranks_[0].exchange->membership()->WhyNot(descriptions, names), "");
    OnEach([&](int rank) {
      const absl::Status formed = Form(rank, descriptions);
      EXPECT_TRUE(formed.ok()) << formed;
    });
  }

  std::shared_ptr<EmulatedNccl> nccl = std::make_shared<EmulatedNccl>();

 private:
  std::vector<Rank> ranks_;
};

// [rows, cols] on a rank's device.
class DeviceMatrix {
 public:
  DeviceMatrix(Runtime* runtime, const std::vector<float>& values, int64_t cols)
      : runtime_(runtime),
        count_(static_cast<int64_t>(values.size())),
        data_(*runtime->Allocate(std::max<int64_t>(count_, 1) * 4)) {
    runtime->Upload(data_, count_ * 4, values.data(), count_ * 4, count_ * 4, 1);
    view = {.data = data_,
            .dtype = DType::kF32,
            .device = {DeviceKind::kCuda, 0},
            .rows = count_ / cols,
            .cols = cols,
            .row_stride = cols};
  }
  ~DeviceMatrix() { runtime_->Free(data_); }
  std::vector<float> Values() {
    std::vector<float> values(static_cast<size_t>(count_));
    runtime_->Download(values.data(), count_ * 4, data_, count_ * 4, count_ * 4, 1);
    return values;
  }
  TensorView view;

 private:
  Runtime* const runtime_;
  const int64_t count_;
  void* const data_;
};

std::vector<float> RandomValues(int64_t count, int rank) {
  Random random(99, static_cast<uint64_t>(rank));
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.Uniform() * 2 - 1) * 1e3f;
  return values;
}

float Tree(const std::vector<std::vector<float>>& ranks, size_t i, size_t begin, size_t end) {
  if (end - begin == 1) return ranks[begin][i];
  const size_t middle = (begin + end) / 2;
  return Tree(ranks, i, begin, middle) + Tree(ranks, i, middle, end);
}

TEST(NcclExchangeTest, SumsAreTheTreeOfTheRanks) {
  for (const int count : {2, 4, 8}) {
    Ranks ranks(count);
    ranks.FormAll();
    // Whole, by parts, in several slices; odd sizes.
    for (const int64_t values : {int64_t{1}, int64_t{77}, kWholeValuesMax, kWholeValuesMax + 1,
                                 int64_t{300'001}, SliceValuesMax(count) + 70'000}) {
      if (values > 1'000'000 && count != 2) continue;
      std::vector<std::vector<float>> given;
      for (int rank = 0; rank < count; ++rank) given.push_back(RandomValues(values, rank));
      std::vector<std::vector<float>> sums(count);
      ranks.OnEach([&](int rank) {
        DeviceMatrix x(ranks[rank].runtime.get(), given[rank], values);
        const absl::Status status = ranks[rank].exchange->Sum(x.view);
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_TRUE(*ranks[rank].exchange->AllDone());
        sums[rank] = x.Values();
      });
      int64_t wrong = 0;
      for (size_t i = 0; i < static_cast<size_t>(values); ++i) {
        wrong += sums[0][i] != Tree(given, i, 0, given.size());
      }
      EXPECT_EQ(wrong, 0) << values << " values over " << count;
      for (int rank = 1; rank < count; ++rank) EXPECT_EQ(sums[rank], sums[0]);
    }
  }
}

TEST(NcclExchangeTest, GathersRowsOfAnyShare) {
  constexpr int64_t kCols = 5;
  Ranks ranks(4);
  ranks.FormAll();
  for (const std::vector<int64_t>& begin : std::vector<std::vector<int64_t>>{
           {0, 2, 3, 7, 9}, {0, 0, 0, 4, 4}, {0, 1, 2, 3, 4}, {0, 0, 0, 0, 0}}) {
    ranks.OnEach([&](int rank) {
      std::vector<float> values(static_cast<size_t>(begin.back() * kCols), -1);
      for (int64_t i = begin[rank] * kCols; i < begin[rank + 1] * kCols; ++i) {
        values[i] = static_cast<float>(i);
      }
      DeviceMatrix x(ranks[rank].runtime.get(), values, kCols);
      const absl::Status status = ranks[rank].exchange->Gather(x.view, begin);
      EXPECT_TRUE(status.ok()) << status;
      const std::vector<float> all = x.Values();
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<float>(i));
    });
  }
}

TEST(NcclExchangeTest, ARankThatStaysAwayEndsTheCallAtItsDeadline) {
  Ranks ranks(2, std::chrono::milliseconds(200));
  ranks.FormAll();
  DeviceMatrix x(ranks[0].runtime.get(), RandomValues(10, 0), 10);
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status = ranks[0].exchange->Sum(x.view);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  // The group is of no use any more, and says why at once.
  EXPECT_EQ(ranks[0].exchange->Sum(x.view), status);
  EXPECT_EQ(ranks[0].exchange->AllDone().status(), status);
  ranks[0].exchange->membership()->Leave();
}

TEST(NcclExchangeTest, WhatGoesWrongInTheBackgroundIsSeen) {
  Ranks ranks(2);
  ranks.FormAll();
  ranks.nccl->set_background_error("NCCL, in the background: remote process exited");
  EXPECT_EQ(ranks[1].exchange->AllDone().status(),
            absl::InternalError("NCCL, in the background: remote process exited"));
  ranks[1].exchange->membership()->Leave();
}

TEST(NcclExchangeTest, AGroupMayBeFormedAgain) {
  Ranks ranks(2);
  for (int round = 0; round < 3; ++round) {
    ranks.FormAll();
    ranks.OnEach([&](int rank) {
      DeviceMatrix x(ranks[rank].runtime.get(), {1, 2}, 2);
      EXPECT_TRUE(ranks[rank].exchange->Sum(x.view).ok());
      EXPECT_EQ(x.Values(), (std::vector<float>{2, 4}));
    });
    for (int rank = 0; rank < 2; ++rank) ranks[rank].exchange->membership()->Leave();
  }
}

TEST(NcclExchangeTest, SaysWhyAGroupCannotBeFormed) {
  Ranks ranks(2);
  ranks.nccl->set_join_error("NCCL, joining a group: unhandled system error (2)");
  const auto descriptions = ranks.Descriptions();
  EXPECT_EQ(ranks.Form(0, descriptions),
            absl::InternalError("NCCL, joining a group: unhandled system error (2)"));
  ranks[0].exchange->membership()->Leave();
  ranks.nccl->set_join_error("");
  ranks.FormAll();
}

// A rank that waits for others may be told to stop; until NCCL has let go of the thread, which may
// be never, no further group is tried.
TEST(NcclExchangeTest, NobodyWaitsForAGroupThatNeverStands) {
  Ranks ranks(2);
  const auto descriptions = ranks.Descriptions();
  ASSERT_TRUE(ranks[0].exchange->membership()->Form(descriptions, 2, 0).ok());
  EXPECT_FALSE(*ranks[0].exchange->membership()->Formed());
  ranks[0].exchange->membership()->Leave();
  EXPECT_EQ(ranks[0].exchange->membership()->Form(descriptions, 2, 0).code(),
            absl::StatusCode::kUnavailable);
  // The other comes after all: the first rank's thread gives its place up.
  ASSERT_TRUE(ranks[1].exchange->membership()->Form(descriptions, 2, 1).ok());
  while (ranks[0].exchange->membership()->Form(descriptions, 2, 0).code() ==
         absl::StatusCode::kUnavailable) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int rank = 0; rank < 2; ++rank) ranks[rank].exchange->membership()->Leave();
}

TEST(NcclExchangeTest, ConnectionsAreMadeWhileTheGroupForms) {
  Ranks ranks(2);
  EXPECT_EQ(ranks.nccl->operations(), 0);
  ranks.FormAll();
  EXPECT_EQ(ranks.nccl->operations(), 2 * 4);
}

TEST(NcclExchangeTest, WithoutNcclItSaysSo) {
  std::unique_ptr<Backend> backend = MakeEmulatedBackend();
  DeviceExchange* const exchange = backend->device_exchange();
  std::vector<std::byte> description(
      static_cast<size_t>(exchange->membership()->description_bytes()));
  EXPECT_EQ(
      exchange->membership()->Describe(DeviceExchangeScope::kMachine, true, description).code(),
      absl::StatusCode::kUnavailable);
  const std::vector<std::string> names = {"rank 0"};
  EXPECT_EQ(exchange->membership()->WhyNot(description, names), "rank 0 has no NCCL it can use");
  // It is not asked for when it is not wanted.
  EXPECT_TRUE(exchange->membership()->Describe(DeviceExchangeScope::kOff, true, description).ok());
}

}  // namespace
}  // namespace tutti::kernels::cuda
