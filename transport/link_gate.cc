#include "transport/link_gate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "transport/identify.h"
#include "transport/limits.h"
#include "transport/receive_budget.h"

namespace tutti::transport {
namespace {

bool ChecksName(const GateRules& rules, const GatePeer& peer) {
  return peer.has_certificate && !rules.name.empty();
}

void LogRefusal(const std::string& peer, const absl::Status& reason) {
  static std::atomic<int64_t> next_ms{0};
  static std::atomic<int64_t> untold{0};
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::steady_clock::now().time_since_epoch())
                       .count();
  int64_t due = next_ms.load();
  if (now < due || !next_ms.compare_exchange_strong(due, now + kRefusalLogInterval.count())) {
    ++untold;
    return;
  }
  spdlog::warn("refused the link from {}: {} ({} more since the last such line)", peer,
               std::string(reason.message()), untold.exchange(0));
}

// Owned by the link's stream. Calls come one at a time.
class Gate final : public LinkHandler {
 public:
  Gate(std::unique_ptr<Link> link, GateRules rules, GatePeer peer, AcceptCallback accept)
      : checks_name_(ChecksName(rules, peer)),
        on_refused_(std::move(rules.on_refused)),
        peer_(std::move(peer)),
        stranger_(ReceiveBudget::OfStranger(peer_.has_certificate ? kHelloFrameBytesMax
                                                                  : kIdentifyFrameBytesMax)),
        accept_(std::move(accept)),
        link_(std::move(link)) {
    if (rules.secret != nullptr) proof_.emplace(std::move(rules.secret), std::move(rules.name));
  }

  void OnFrame(v1::Frame frame, Payload payload) override {
    if (accepted_ != nullptr) return accepted_->OnFrame(std::move(frame), std::move(payload));
    if (link_ == nullptr || refused_) return;
    if (proof_.has_value() && !proof_->proved()) return Identify(frame, payload.size());
    if (const absl::Status named = CheckHello(frame); !named.ok()) {
      return Refuse(named, frame.hello().worker_id());
    }
    Admit();
    if (accepted_ != nullptr) accepted_->OnFrame(std::move(frame), std::move(payload));
  }

  void OnClosed(absl::Status reason) override {
    if (accepted_ != nullptr) return accepted_->OnClosed(std::move(reason));
    // A dialler with another secret is the first to find out: our proof is none to it.
    const bool by_proof =
        proof_.has_value() && !proof_->proved() && absl::IsUnauthenticated(reason);
    if (by_proof && !refused_ && link_ != nullptr) TellRefused(NotIdentified(), "");
  }

  std::shared_ptr<ReceiveBudget> budget() override {
    return accepted_ == nullptr ? stranger_ : accepted_->budget();
  }

 private:
  void Identify(const v1::Frame& frame, int64_t payload_bytes) {
    absl::StatusOr<std::optional<v1::Frame>> answer = proof_->Handle(frame, payload_bytes);
    if (!answer.ok()) return Refuse(answer.status());
    // A link that has closed says so itself.
    if (answer->has_value()) (void)link_->Send(**std::move(answer));
    if (proof_->proved() && !checks_name_) Admit();
  }

  absl::Status CheckHello(const v1::Frame& frame) const {
    if (!frame.has_hello()) {
      return absl::InvalidArgumentError("the first frame of a link must be hello");
    }
    const auto& names = peer_.worker_names;
    if (std::find(names.begin(), names.end(), frame.hello().worker_id()) != names.end()) {
      return absl::OkStatus();
    }
    return absl::PermissionDeniedError(absl::StrCat(
        "hello.worker_id \"", absl::CHexEscape(frame.hello().worker_id().substr(0, 128)),
        "\" is not a name of the dialler's certificate, which must have the URI "
        "tutti://worker/NAME"));
  }

  void Admit() {
    if (peer_.on_admitted) peer_.on_admitted();
    accepted_ = accept_(std::move(link_));
  }

  void Refuse(const absl::Status& reason, const std::string& worker_id = "") {
    TellRefused(reason, worker_id);
    link_->Close(reason);
  }

  void TellRefused(const absl::Status& reason, const std::string& worker_id) {
    refused_ = true;
    if (on_refused_) {
      on_refused_(link_->peer(), worker_id, reason);
    } else {
      LogRefusal(link_->peer(), reason);
    }
  }

  const bool checks_name_;
  const decltype(GateRules::on_refused) on_refused_;
  const GatePeer peer_;
  // Frames are handled at once, so none is ever counted: it bounds their size.
  const std::shared_ptr<ReceiveBudget> stranger_;
  const AcceptCallback accept_;
  std::optional<ListenerProof> proof_;
  std::unique_ptr<Link> link_;  // until it is accepted
  std::unique_ptr<LinkHandler> accepted_;
  bool refused_ = false;
};

}  // namespace

bool NeedsGate(const GateRules& rules, const GatePeer& peer) {
  return rules.secret != nullptr || ChecksName(rules, peer);
}

std::unique_ptr<LinkHandler> MakeGate(std::unique_ptr<Link> link, GateRules rules, GatePeer peer,
                                      AcceptCallback accept) {
  return std::make_unique<Gate>(std::move(link), std::move(rules), std::move(peer),
                                std::move(accept));
}

}  // namespace tutti::transport
