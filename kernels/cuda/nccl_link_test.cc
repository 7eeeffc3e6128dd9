// Links between devices over emulated NCCL and the emulated GPU.
#include "kernels/cuda/nccl_link.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/emulated/emulated_backend.h"
#include "kernels/cuda/emulated/nccl_emulated.h"

namespace tutti::kernels::cuda {
namespace {

const std::vector<std::string> kNames = {"w1", "w0"};  // the receiver first

class NcclLinkTest : public ::testing::Test {
 protected:
  // Both ends: [0] receives.
  void Make(Duration patience = std::chrono::seconds(60)) {
    for (int member = 0; member < 2; ++member) {
      NcclOptions options = {.call_patience = patience};
      options.device_id[0] = std::byte(member);
      options.open_nccl = [this] { return absl::StatusOr<std::shared_ptr<Nccl>>(nccl_); };
      options.open_runtime = MakeEmulatedRuntime;
      links_.push_back(std::make_unique<NcclLink>(std::move(options)));
    }
  }
  std::vector<std::byte> Describe(bool found = true) {
    std::vector<std::byte> both(2 * kExchangeFactsBytes);
    for (int member = 0; member < 2; ++member) {
      const absl::Status described = links_[member]->membership()->Describe(
          DeviceExchangeScope::kMachine, found && member == 0,
          std::span(both).subspan(member * kExchangeFactsBytes, kExchangeFactsBytes));
      EXPECT_TRUE(described.ok()) << described;
    }
    return both;
  }
  absl::Status AwaitFormed(int member) {
    while (true) {
      TUTTI_ASSIGN_OR_RETURN(const bool formed, links_[member]->membership()->Formed());
      if (formed) return absl::OkStatus();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void Form() {
    const std::vector<std::byte> both = Describe();
    EXPECT_EQ(links_[1]->membership()->WhyNot(both, kNames), "");
    for (int member = 0; member < 2; ++member) {
      ASSERT_TRUE(links_[member]->membership()->Form(both, 2, member).ok());
    }
    for (int member = 0; member < 2; ++member) ASSERT_TRUE(AwaitFormed(member).ok());
  }

  std::shared_ptr<EmulatedNccl> nccl_ = std::make_shared<EmulatedNccl>();
  std::unique_ptr<Runtime> runtime_ = MakeEmulatedRuntime();
  std::vector<std::unique_ptr<NcclLink>> links_;
};

// Device memory that is filled and looked at from the host.
class DeviceBytes {
 public:
  DeviceBytes(Runtime* runtime, const std::string& text)
      : runtime_(runtime), size_(text.size()), data_(*runtime->Allocate(text.size())) {
    runtime_->Upload(data_, size_, text.data(), size_, size_, 1);
  }
  ~DeviceBytes() { runtime_->Free(data_); }
  std::byte* data() { return static_cast<std::byte*>(data_); }
  int64_t size() const { return static_cast<int64_t>(size_); }
  std::string Text() {
    std::string text(size_, '\0');
    runtime_->Download(text.data(), size_, data_, size_, size_, 1);
    return text;
  }

 private:
  Runtime* const runtime_;
  const size_t size_;
  void* const data_;
};

TEST_F(NcclLinkTest, TransfersArriveInOrderWhateverTheirSize) {
  Make();
  Form();
  const std::vector<std::string> texts = {"a", "odd", std::string(100'001, 'x'), "last"};
  for (const std::string& text : texts) {
    DeviceBytes from(runtime_.get(), text);
    const absl::Status sent = links_[1]->Send(from.data(), from.size());
    EXPECT_TRUE(sent.ok()) << sent;
  }
  EXPECT_EQ(*links_[1]->Done(), 4);
  EXPECT_EQ(*links_[0]->Done(), 0);
  for (size_t i = 0; i < texts.size(); ++i) {
    DeviceBytes to(runtime_.get(), std::string(texts[i].size(), '-'));
    ASSERT_TRUE(links_[0]->Receive(to.data(), to.size()).ok());
    EXPECT_EQ(*links_[0]->Done(), static_cast<int64_t>(i) + 1);
    EXPECT_EQ(to.Text(), texts[i]);
  }
}

TEST_F(NcclLinkTest, ALinkMayBeMadeAgainAndCountsAnew) {
  Make();
  for (int round = 0; round < 3; ++round) {
    Form();
    EXPECT_EQ(*links_[1]->Done(), 0);
    DeviceBytes rows(runtime_.get(), "rows");
    ASSERT_TRUE(links_[1]->Send(rows.data(), rows.size()).ok());
    ASSERT_TRUE(links_[0]->Receive(rows.data(), rows.size()).ok());
    EXPECT_EQ(*links_[1]->Done(), 1);
    for (const auto& link : links_) link->membership()->Leave();
  }
}

TEST_F(NcclLinkTest, NothingIsFormedThatNobodyFounded) {
  Make();
  const std::vector<std::byte> both = Describe(/*found=*/false);
  EXPECT_EQ(links_[0]->membership()->WhyNot(both, kNames), "") << "they could";
  for (int member = 0; member < 2; ++member) {
    EXPECT_EQ(links_[member]->membership()->Form(both, 2, member).code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST_F(NcclLinkTest, DescriptionsOfAnySizeAndContentAreJudged) {
  Make();
  std::vector<std::byte> both = Describe();
  EXPECT_EQ(links_[0]->membership()->WhyNot(std::span(both).first(200), kNames),
            "200 bytes of descriptions of 2 GPUs");
  both[kExchangeFactsBytes] ^= std::byte(1);
  EXPECT_EQ(links_[0]->membership()->WhyNot(both, kNames), "w0 sent not a description of a GPU");
}

TEST_F(NcclLinkTest, ATransferThatNeverComesHasADeadline) {
  Make(std::chrono::milliseconds(100));
  Form();
  DeviceBytes rows(runtime_.get(), "rows");
  const absl::Status status = links_[0]->Receive(rows.data(), rows.size());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_EQ(links_[0]->Done().status(), status);
  EXPECT_EQ(links_[0]->Receive(rows.data(), rows.size()), status);
}

TEST_F(NcclLinkTest, WhatGoesWrongInTheBackgroundIsSeen) {
  Make();
  Form();
  nccl_->set_background_error("NCCL, in the background: remote process exited");
  EXPECT_EQ(links_[1]->Done().status(),
            absl::InternalError("NCCL, in the background: remote process exited"));
}

}  // namespace
}  // namespace tutti::kernels::cuda
