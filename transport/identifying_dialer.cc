#include "transport/identifying_dialer.h"

#include <atomic>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "transport/identify.h"
#include "transport/limits.h"
#include "transport/receive_budget.h"

namespace tutti::transport {
namespace {

struct HeldFrame {
  v1::Frame frame;
  Payload payload;
};

// Shared by the two ends of the decoration: the Link that the user has and the handler that the
// transport calls.
struct Dialled {
  std::atomic<bool> open{false};
  Mutex mutex;
  Link* link ABSL_GUARDED_BY(mutex) = nullptr;  // null before it is dialled and once it is gone
  std::vector<HeldFrame> held ABSL_GUARDED_BY(mutex);
};

class DialledHandler final : public LinkHandler {
 public:
  DialledHandler(std::shared_ptr<Dialled> dialled, DialerProof proof,
                 std::unique_ptr<LinkHandler> handler)
      : dialled_(std::move(dialled)), proof_(std::move(proof)), handler_(std::move(handler)) {}

  void OnFrame(v1::Frame frame, Payload payload) override {
    if (proof_.proved()) return handler_->OnFrame(std::move(frame), std::move(payload));
    absl::StatusOr<v1::Frame> last = proof_.Handle(frame, payload.size());
    const MutexLock lock(&dialled_->mutex);
    Link* const link = dialled_->link;
    if (link == nullptr) return;
    // The link's own OnClosed passes the reason on.
    if (!last.ok()) return link->Close(last.status());
    // A frame that cannot be sent any more is reported by OnClosed.
    (void)link->Send(*std::move(last));
    for (HeldFrame& held : dialled_->held) {
      (void)link->Send(std::move(held.frame), std::move(held.payload));
    }
    dialled_->held.clear();
    dialled_->open.store(true, std::memory_order_release);
  }

  void OnClosed(absl::Status reason) override { handler_->OnClosed(std::move(reason)); }
  std::shared_ptr<ReceiveBudget> budget() override { return handler_->budget(); }

 private:
  const std::shared_ptr<Dialled> dialled_;
  DialerProof proof_;
  const std::unique_ptr<LinkHandler> handler_;
};

class DialledEnd final : public Link {
 public:
  DialledEnd(std::shared_ptr<Dialled> dialled, std::unique_ptr<Link> link)
      : dialled_(std::move(dialled)), link_(std::move(link)) {}
  ~DialledEnd() override {
    const MutexLock lock(&dialled_->mutex);
    dialled_->link = nullptr;
  }

  absl::Status Send(v1::Frame frame, Payload payload) override {
    if (!dialled_->open.load(std::memory_order_acquire)) {
      const MutexLock lock(&dialled_->mutex);
      if (!dialled_->open.load(std::memory_order_relaxed)) {
        if (dialled_->held.size() >= kHeldFramesMax) {
          return absl::ResourceExhaustedError(
              absl::StrCat("link to ", link_->peer(), ": ", kHeldFramesMax,
                           " frames wait for the listener's proof"));
        }
        dialled_->held.push_back({std::move(frame), std::move(payload)});
        return absl::OkStatus();
      }
    }
    return link_->Send(std::move(frame), std::move(payload));
  }
  void Close(absl::Status reason) override { link_->Close(std::move(reason)); }
  LinkStats stats() const override { return link_->stats(); }
  std::string peer() const override { return link_->peer(); }

 private:
  const std::shared_ptr<Dialled> dialled_;
  const std::unique_ptr<Link> link_;
};

}  // namespace

std::unique_ptr<Link> IdentifyingDialer::Dial(const DialTarget& target,
                                              std::unique_ptr<LinkHandler> handler) {
  DialerProof proof(secret_, target.listener);
  v1::Frame first = proof.First();
  auto dialled = std::make_shared<Dialled>();
  std::unique_ptr<Link> link = dialer_->Dial(
      target, std::make_unique<DialledHandler>(dialled, std::move(proof), std::move(handler)));
  {
    const MutexLock lock(&dialled->mutex);
    dialled->link = link.get();
  }
  // The listener has nothing to answer before this.
  (void)link->Send(std::move(first));
  return std::make_unique<DialledEnd>(std::move(dialled), std::move(link));
}

}  // namespace tutti::transport
