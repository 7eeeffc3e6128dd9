// Weights links as the engine's thread hands them to the server.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/engine_testing.h"
#include "coordinator/service/engine_loop.h"
#include "coordinator/service/null_sink_testing.h"
#include "coordinator/weights/limits.h"
#include "coordinator/weights/weights_server.h"
#include "coordinator/weights/weights_testing.h"
#include "model/limits.h"

namespace tutti::coordinator {
namespace {

// Belongs to the loop, and tells of what it sends.
class ForwardingLink : public transport::Link {
 public:
  explicit ForwardingLink(std::shared_ptr<KeepingLink> to) : to_(std::move(to)) {}
  absl::Status Send(v1::Frame frame, transport::Payload payload) override {
    return to_->Send(std::move(frame), std::move(payload));
  }
  void Close(absl::Status reason) override { to_->Close(std::move(reason)); }
  transport::LinkStats stats() const override { return to_->stats(); }
  std::string peer() const override { return to_->peer(); }

 private:
  const std::shared_ptr<KeepingLink> to_;
};

// At a byte a second whoever asks for a chunk waits for the first one's, for days.
TEST(EngineWeightsTest, BeatsAreForWorkersWhoseHelloTakesThem) {
  TempDir dir;
  SteppedClock stepped;
  WeightsServer server(&stepped, 1);
  server.SetFiles(OpenWeightsFiles(dir, "model.safetensors", 8 * model::kDigestChunkBytes));
  const SystemClock clock;
  NullSink sink;
  EngineLoop loop(TinyEngineOptions(2), &clock, &sink, nullptr, &server);
  loop.Start();
  const auto newer = std::make_shared<KeepingLink>(), older = std::make_shared<KeepingLink>();
  std::vector<std::unique_ptr<transport::LinkHandler>> handlers;
  const auto ask = [&](const std::shared_ptr<KeepingLink>& link, const char* id, bool takes_beats) {
    handlers.push_back(loop.acceptor()(std::make_unique<ForwardingLink>(link)));
    v1::Frame hello;
    *hello.mutable_hello() = TinyHello(id);
    hello.mutable_hello()->set_purpose(v1::LINK_PURPOSE_WEIGHTS);
    hello.mutable_hello()->set_takes_beats(takes_beats);
    handlers.back()->OnFrame(std::move(hello), {});
    EXPECT_TRUE(link->Wait(0).has_welcome());
    // Where the header is: for whoever has not joined.
    for (int i = 0; i < 2; ++i) {
      v1::Frame wanted;
      wanted.mutable_file_chunk_wanted()->set_file("model.safetensors");
      wanted.mutable_file_chunk_wanted()->set_chunk(0);
      handlers.back()->OnFrame(std::move(wanted), {});
    }
  };
  ask(newer, "newer", true);
  EXPECT_TRUE(newer->Wait(1).has_file_chunk()) << "the first is free";
  ask(older, "older", false);
  for (int i = 0; i < 1000 && newer->sent() < 4; ++i) {
    stepped.Advance(kWeightsPendingInterval);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_GE(newer->sent(), 4u);
  EXPECT_TRUE(newer->Wait(2).has_beat());
  EXPECT_EQ(older->sent(), 1u) << "it would take a beat for the chunk";
  loop.Stop();
}

}  // namespace
}  // namespace tutti::coordinator
