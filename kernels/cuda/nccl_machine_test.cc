// NCCL as this machine has it, with the one GPU that it has: the functions that we call, their
// arguments and types, streams, and giving up. A group of one has no peer, so all of it can be
// tried where no second GPU is.
#include <numeric>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/nccl_exchange.h"
#include "kernels/cuda/nccl_library.h"
#include "kernels/cuda/nccl_machine_testing.h"

namespace tutti::kernels::cuda {
namespace {

// Device memory with values.
class Values {
 public:
  Values(Runtime* runtime, const std::vector<float>& values)
      : runtime_(runtime), count_(values.size()), data_(*runtime->Allocate(bytes())) {
    runtime->Upload(data_, bytes(), values.data(), bytes(), bytes(), 1);
  }
  Values(Runtime* runtime, size_t count) : Values(runtime, std::vector<float>(count, -1)) {}
  ~Values() { runtime_->Free(data_); }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  int64_t bytes() const { return static_cast<int64_t>(count_) * 4; }
  float* data() const { return static_cast<float*>(data_); }
  // Waits.
  std::vector<float> Read() const {
    std::vector<float> values(count_);
    runtime_->Download(values.data(), bytes(), data_, bytes(), bytes(), 1);
    return values;
  }
  TensorView AsRows(int64_t cols) const {
    return {.data = data_,
            .dtype = DType::kF32,
            .device = {DeviceKind::kCuda, 0},
            .rows = static_cast<int64_t>(count_) / cols,
            .cols = cols,
            .row_stride = cols};
  }

 private:
  Runtime* const runtime_;
  const size_t count_;
  void* const data_;
};

std::vector<float> Numbers(size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

class NcclMachineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto machine = open_nccl_machine();
    if (absl::IsUnavailable(machine.status())) GTEST_SKIP() << machine.status().message();
    ASSERT_TRUE(machine.ok()) << machine.status();
    machine_ = *std::move(machine);
    auto runtime = machine_.open_runtime();
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    runtime_ = *std::move(runtime);
    std::printf("NCCL %s\n", NcclVersionName(machine_.nccl->version()).c_str());
  }

  std::unique_ptr<NcclGroup> GroupOfOne() const {
    const auto id = machine_.nccl->NewGroup();
    EXPECT_TRUE(id.ok()) << id.status();
    auto group = machine_.nccl->Join(*id, 1, 0, 0);
    EXPECT_TRUE(group.ok()) << group.status();
    return *std::move(group);
  }
  void ExpectToGather(NcclGroup* group, size_t count) const {
    const std::vector<float> numbers = Numbers(count, 3);
    const Values from(runtime_.get(), numbers), to(runtime_.get(), count);
    const absl::Status gathered =
        group->AllGather(from.data(), to.data(), static_cast<int64_t>(count), runtime_->stream());
    EXPECT_TRUE(gathered.ok()) << gathered;
    EXPECT_EQ(to.Read(), numbers);
    EXPECT_TRUE(group->Health().ok()) << group->Health();
  }
  absl::Status SendToItself(NcclGroup* group, const Values& from, const Values& to) const {
    TUTTI_RETURN_IF_ERROR(group->Begin());
    TUTTI_RETURN_IF_ERROR(group->Send(from.data(), from.bytes(), 0, runtime_->stream()));
    TUTTI_RETURN_IF_ERROR(group->Receive(to.data(), to.bytes(), 0, runtime_->stream()));
    return group->End();
  }

  NcclMachine machine_;
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(NcclMachineTest, AGroupOfOneGathers) {
  const auto group = GroupOfOne();
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{1} << 20}) {
    ExpectToGather(group.get(), count);
  }
}

TEST_F(NcclMachineTest, AMemberSendsToItself) {
  const auto group = GroupOfOne();
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{1} << 20}) {
    const std::vector<float> numbers = Numbers(count, 7);
    const Values from(runtime_.get(), numbers), to(runtime_.get(), count);
    const absl::Status sent = SendToItself(group.get(), from, to);
    EXPECT_TRUE(sent.ok()) << sent;
    EXPECT_EQ(to.Read(), numbers);
  }
  EXPECT_TRUE(group->Health().ok()) << group->Health();
}

// Of two groups on one stream, as a worker has when its pipeline forms anew; and with work queued.
TEST_F(NcclMachineTest, AGroupThatIsGivenUpLeavesTheDeviceToTheNext) {
  const Values from(runtime_.get(), Numbers(1 << 20, 1)), to(runtime_.get(), 1 << 20);
  for (int round = 0; round < 3; ++round) {
    const auto group = GroupOfOne();
    ExpectToGather(group.get(), 100);
    const absl::Status sent = SendToItself(group.get(), from, to);
    EXPECT_TRUE(sent.ok()) << sent;
    group->Abort();
    EXPECT_EQ(from.Read().back(), static_cast<float>(1 << 20));
  }
  ExpectToGather(GroupOfOne().get(), 100);
}

// One of two ranks that share the GPU.
struct Rank {
  Rank(const NcclMachine& machine, int number) : runtime(*machine.open_runtime()) {
    NcclOptions options = {.device_index = 0, .call_patience = std::chrono::seconds(60)};
    options.device_id[0] = std::byte(number + 1);
    options.open_nccl = [nccl = machine.nccl] { return nccl; };
    options.open_runtime = machine.open_runtime;
    exchange = std::make_unique<NcclExchange>(runtime.get(), std::move(options));
  }
  absl::Status Form(const std::vector<std::byte>& descriptions, int number) const {
    TUTTI_RETURN_IF_ERROR(exchange->Reserve().status());
    TUTTI_RETURN_IF_ERROR(exchange->membership()->Form(descriptions, 2, number));
    while (true) {
      TUTTI_ASSIGN_OR_RETURN(const bool formed, exchange->membership()->Formed());
      if (formed) return absl::OkStatus();
      std::this_thread::yield();
    }
  }
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<NcclExchange> exchange;
};

void SumOnBoth(const std::vector<Rank>& ranks, const std::vector<std::byte>& descriptions,
               size_t count) {
  std::vector<std::thread> threads;
  for (int number = 0; number < 2; ++number) {
    threads.emplace_back([&, number] {
      const Rank& rank = ranks[static_cast<size_t>(number)];
      if (!descriptions.empty()) {
        const absl::Status formed = rank.Form(descriptions, number);
        ASSERT_TRUE(formed.ok()) << formed;
      }
      const Values values(rank.runtime.get(), Numbers(count, static_cast<float>(100 * number)));
      const absl::Status summed = rank.exchange->Sum(values.AsRows(32));
      ASSERT_TRUE(summed.ok()) << summed;
      std::vector<float> expected = Numbers(count, 0);
      for (float& value : expected) value = value + (value + 100);
      EXPECT_EQ(values.Read(), expected) << "rank " << number;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(NcclMachineTest, TwoRanksOfOneGpuAddUp) {
  if (!machine_.why_not_two.empty()) GTEST_SKIP() << machine_.why_not_two;
  std::vector<Rank> ranks;
  std::vector<std::byte> descriptions(2 * kExchangeFactsBytes);
  for (int number = 0; number < 2; ++number) {
    ranks.emplace_back(machine_, number);
    const absl::Status described = ranks.back().exchange->membership()->Describe(
        DeviceExchangeScope::kMachine, number == 0,
        std::span(descriptions).subspan(number * kExchangeFactsBytes, kExchangeFactsBytes));
    ASSERT_TRUE(described.ok()) << described;
  }
  SumOnBoth(ranks, descriptions, 64);
  // By parts.
  SumOnBoth(ranks, {}, static_cast<size_t>(kWholeValuesMax) + 320);
}

}  // namespace
}  // namespace tutti::kernels::cuda
