// Workers that find their neighbours by what these have announced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/executor_testing.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

class ExecutorAnnouncedTest : public ExecutorTest {
 protected:
  ExecutorAnnouncedTest() { announced_ = "10.80.0.1:50060"; }

  // Stage 0 of 2, whose next stage says that it is at `address`.
  static v1::Frame AssignBefore(uint64_t epoch, const std::string& address) {
    v1::Frame frame = Assign(epoch, 0, 2);
    v1::PeerAddress* const peer = frame.mutable_assign_shard()->add_peers();
    peer->set_worker_id("w1");
    peer->set_address(address);
    return frame;
  }
};

TEST_F(ExecutorAnnouncedTest, ANeighbourIsDialledWhereItSaysThatItListens) {
  FakeCoordinator next(&network_, "10.80.0.2:50060");
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  EXPECT_EQ(joined->hello.advertised_address(), "10.80.0.1:50060");
  joined->Send(AssignBefore(1, "10.80.0.2:50060"));
  const FakeCoordinator::Joined dialled = next.Accept();
  EXPECT_EQ(dialled.hello.purpose(), v1::LINK_PURPOSE_ACTIVATION);
  EXPECT_EQ(dialled.hello.advertised_address(), "") << "for coordinators only";
}

TEST_F(ExecutorAnnouncedTest, WhatMayNotBeDialledIsALinkThatFails) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  joined->Send(AssignBefore(1, "169.254.169.254:80"));
  const v1::LinkState said = joined->recorder->Await(v1::Frame::kLinkState).link_state();
  EXPECT_EQ(said.worker_id(), "w1");
  EXPECT_FALSE(said.up());
  EXPECT_THAT(said.error(), AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("169.254.169.254:80"),
                                  HasSubstr("(it may: 10.0.0.0/8)")));
  // The worker itself is well.
  FakeCoordinator next(&network_, "10.80.0.2:50060");
  joined->Send(AssignBefore(2, "10.80.0.2:50060"));
  EXPECT_EQ(next.Accept().hello.worker_id(), "w0");
}

}  // namespace
}  // namespace tutti::worker
