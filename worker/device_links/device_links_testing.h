// Support for tests: devices of one process that link, whose memory is the host's. A transfer is
// done when both ends have queued it; a test can hold it back.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "kernels/device_link.h"

namespace tutti::worker {

class TestLinkDevices {
 public:
  std::unique_ptr<kernels::DeviceLink> NewLink() { return std::make_unique<End>(this); }

  // Behaviour from now on, of all links.
  void set_why_not(std::string why) {
    const MutexLock lock(&mutex_);
    why_not_ = std::move(why);
  }
  void set_form_error(absl::Status error) {
    const MutexLock lock(&mutex_);
    form_error_ = std::move(error);
  }
  void set_joinable(bool joinable) {
    const MutexLock lock(&mutex_);
    joinable_ = joinable;
  }
  // Transfers do not get done.
  void set_stuck(bool stuck) {
    const MutexLock lock(&mutex_);
    stuck_ = stuck;
  }
  void set_broken(absl::Status error) {
    const MutexLock lock(&mutex_);
    broken_ = std::move(error);
  }

  int founded() {
    const MutexLock lock(&mutex_);
    return founded_;
  }
  int left() {
    const MutexLock lock(&mutex_);
    return left_;
  }
  // The transfers that are done.
  int64_t transfers() {
    const MutexLock lock(&mutex_);
    return transfers_;
  }
  // Ends.
  int standing() {
    const MutexLock lock(&mutex_);
    return standing_;
  }

 private:
  struct Transfer {
    std::byte* memory = nullptr;
    int64_t bytes = 0;
  };
  struct Group {
    bool joined[2] = {};
    std::deque<Transfer> waiting[2];
    int64_t done = 0;
    bool over = false;
  };

  // A description is a number: that of the group it founds, or 0.
  class End : public kernels::DeviceLink, public kernels::DeviceMembership {
   public:
    explicit End(TestLinkDevices* all) : all_(all) {}
    ~End() override { Leave(); }

    DeviceMembership* membership() override { return this; }
    int64_t description_bytes() const override { return sizeof(int64_t); }
    absl::Status Describe(kernels::DeviceExchangeScope, bool founder,
                          std::span<std::byte> description) override {
      const MutexLock lock(&all_->mutex_);
      const int64_t number = founder ? ++all_->founded_ : 0;
      std::memcpy(description.data(), &number, sizeof(number));
      return absl::OkStatus();
    }
    std::string WhyNot(std::span<const std::byte> descriptions,
                       std::span<const std::string> names) const override {
      EXPECT_EQ(names.size(), 2u);
      if (descriptions.size() != 2 * sizeof(int64_t)) return "descriptions of another size";
      const MutexLock lock(&all_->mutex_);
      return all_->why_not_;
    }
    absl::Status Form(std::span<const std::byte> descriptions, int members, int member) override {
      EXPECT_EQ(members, 2);
      EXPECT_EQ(group_, nullptr) << "formed twice";
      int64_t number = 0;
      std::memcpy(&number, descriptions.data(), sizeof(number));
      const MutexLock lock(&all_->mutex_);
      EXPECT_NE(number, 0) << "nobody founded it";
      TUTTI_RETURN_IF_ERROR(all_->form_error_);
      auto& group = all_->groups_[number];
      if (group == nullptr) group = std::make_shared<Group>();
      group_ = group;
      member_ = member;
      group_->joined[member] = true;
      return absl::OkStatus();
    }
    absl::StatusOr<bool> Formed() override {
      const MutexLock lock(&all_->mutex_);
      const bool formed = all_->joinable_ && group_->joined[0] && group_->joined[1];
      if (formed && !stands_) ++all_->standing_;
      stands_ |= formed;
      return formed;
    }
    void Leave() override {
      const MutexLock lock(&all_->mutex_);
      if (group_ == nullptr) return;
      group_->over = true;
      group_.reset();
      ++all_->left_;
      if (stands_) --all_->standing_;
      stands_ = false;
    }

    absl::Status Send(const std::byte* from, int64_t bytes) override {
      EXPECT_EQ(member_, 1);
      return Queue({const_cast<std::byte*>(from), bytes});
    }
    absl::Status Receive(std::byte* to, int64_t bytes) override {
      EXPECT_EQ(member_, 0);
      return Queue({to, bytes});
    }
    absl::StatusOr<int64_t> Done() override {
      const MutexLock lock(&all_->mutex_);
      TUTTI_RETURN_IF_ERROR(all_->broken_);
      auto& [receives, sends] = group_->waiting;
      while (!all_->stuck_ && !group_->over && !receives.empty() && !sends.empty()) {
        EXPECT_EQ(receives.front().bytes, sends.front().bytes);
        std::memcpy(receives.front().memory, sends.front().memory, sends.front().bytes);
        receives.pop_front();
        sends.pop_front();
        ++group_->done;
        ++all_->transfers_;
      }
      return group_->done;
    }

   private:
    absl::Status Queue(Transfer transfer) {
      const MutexLock lock(&all_->mutex_);
      EXPECT_TRUE(stands_);
      TUTTI_RETURN_IF_ERROR(all_->broken_);
      group_->waiting[member_].push_back(transfer);
      return absl::OkStatus();
    }

    TestLinkDevices* const all_;
    std::shared_ptr<Group> group_;
    int member_ = 0;
    bool stands_ = false;
  };

  // Also guards the contents of the ends' groups.
  mutable Mutex mutex_;
  std::map<int64_t, std::shared_ptr<Group>> groups_ ABSL_GUARDED_BY(mutex_);
  std::string why_not_ ABSL_GUARDED_BY(mutex_);
  absl::Status form_error_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
  bool joinable_ ABSL_GUARDED_BY(mutex_) = true;
  bool stuck_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t transfers_ ABSL_GUARDED_BY(mutex_) = 0;
  int founded_ ABSL_GUARDED_BY(mutex_) = 0;
  int left_ ABSL_GUARDED_BY(mutex_) = 0;
  int standing_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tutti::worker
