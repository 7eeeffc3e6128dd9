// The frames of a link before hello, from a peer that does not know the secret: refused, and never
// taken for a proof. The first byte of the input says where the first frame ends.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "transport/grpc/frame_codec.h"
#include "transport/identify.h"
#include "transport/limits.h"
#include "transport/link_gate.h"

namespace {

using tutti::transport::ClusterSecret;
using tutti::transport::DialerProof;
using tutti::transport::Link;
using tutti::transport::LinkHandler;
using tutti::transport::ListenerProof;
using tutti::transport::Payload;

struct Received {
  tutti::v1::Frame frame;
  Payload payload;
};

class Sink : public LinkHandler {
 public:
  void OnFrame(tutti::v1::Frame, Payload) override {}
  void OnClosed(absl::Status) override {}
};

// The listener's end: counts the frames that the gate answers with.
class Answers : public Link {
 public:
  explicit Answers(int* sent) : sent_(sent) {}
  absl::Status Send(tutti::v1::Frame frame, Payload) override {
    CHECK(frame.has_identify());
    CHECK(++*sent_ == 1) << "more than one answer";
    return absl::OkStatus();
  }
  void Close(absl::Status reason) override { CHECK(!reason.ok()); }
  tutti::transport::LinkStats stats() const override { return {}; }
  std::string peer() const override { return "fuzz"; }

 private:
  int* const sent_;
};

std::unique_ptr<LinkHandler> GateOf(const std::shared_ptr<const ClusterSecret>& secret,
                                    bool has_certificate, bool* accepted, int* sent) {
  return tutti::transport::MakeGate(
      std::make_unique<Answers>(sent), {.secret = secret, .name = "tutti://worker/w0"},
      {.has_certificate = has_certificate, .worker_names = {"w1"}, .on_admitted = nullptr},
      [accepted](std::unique_ptr<Link>) {
        *accepted = true;
        return std::make_unique<Sink>();
      });
}

std::vector<Received> Frames(const uint8_t* data, size_t size) {
  std::vector<Received> frames;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t cut = std::min<size_t>(data[0], bytes.size());
  for (const std::string& part : {bytes.substr(0, cut), bytes.substr(cut)}) {
    const grpc::Slice slice(part);
    Received received;
    if (!tutti::transport::DecodeFrame(grpc::ByteBuffer(&slice, 1), &received.frame,
                                       &received.payload)
             .ok()) {
      break;
    }
    frames.push_back(std::move(received));
  }
  return frames;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const auto* const secret = new std::shared_ptr<const ClusterSecret>(
      std::make_shared<const ClusterSecret>(std::string(32, 's')));
  const std::vector<Received> frames = Frames(data, size);
  bool strangers_link = false, workers_link = false;
  int sent = 0, nothing_sent = 0;
  // Without the secret nobody gets in; without a hello under its name no worker.
  const auto by_secret = GateOf(*secret, false, &strangers_link, &sent);
  const auto by_name = GateOf(nullptr, true, &workers_link, &nothing_sent);
  DialerProof dialer(*secret, "tutti://worker/w0");
  for (const Received& received : frames) {
    by_secret->OnFrame(received.frame, received.payload);
    by_name->OnFrame(received.frame, received.payload);
    CHECK(!dialer.Handle(received.frame, received.payload.size()).ok());
  }
  CHECK(!strangers_link && nothing_sent == 0);
  CHECK(!workers_link || frames[0].frame.hello().worker_id() == "w1");
  return 0;
}
