#include "coordinator/weights/weights_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/thread.h"
#include "coordinator/weights/limits.h"
#include "spdlog/spdlog.h"

namespace tutti::coordinator {

// Payloads outlive the server in the queues of links, so this is shared with them.
struct WeightsServer::Unsent {
  Mutex mutex;
  std::map<LinkKey, int> by_link ABSL_GUARDED_BY(mutex);
  WeightsServer* server ABSL_GUARDED_BY(mutex) = nullptr;  // null: it is gone

  void Add(LinkKey key) {
    const MutexLock lock(&mutex);
    ++by_link[key];
  }
  void Remove(LinkKey key) {
    const MutexLock lock(&mutex);
    const auto found = by_link.find(key);
    if (--found->second == 0) by_link.erase(found);
    if (server != nullptr) server->changed_.NotifyAll();
  }
  int Of(LinkKey key) {
    const MutexLock lock(&mutex);
    const auto found = by_link.find(key);
    return found == by_link.end() ? 0 : found->second;
  }
};

WeightsServer::WeightsServer(const Clock* clock, int64_t bytes_per_second)
    : clock_(clock), unsent_(std::make_shared<Unsent>()), rate_(bytes_per_second) {
  {
    const MutexLock lock(&unsent_->mutex);
    unsent_->server = this;
  }
  for (int i = 0; i < kWeightsThreads; ++i) {
    threads_.push_back(
        StartThread("the answers to workers without the checkpoint", [this] { Run(); }));
  }
}

WeightsServer::~WeightsServer() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  const MutexLock lock(&unsent_->mutex);
  unsent_->server = nullptr;
}

void WeightsServer::SetFiles(std::shared_ptr<const WeightsFiles> files) {
  const MutexLock lock(&mutex_);
  files_ = std::move(files);
  none_ = absl::OkStatus();
}

void WeightsServer::SetNone(absl::Status why) {
  const MutexLock lock(&mutex_);
  none_ = std::move(why);
}

absl::Status WeightsServer::CheckOffered() {
  const MutexLock lock(&mutex_);
  return none_;
}

void WeightsServer::TakesBeats(LinkKey key) {
  const MutexLock lock(&mutex_);
  peers_[key].takes_beats = true;
}

void WeightsServer::Ask(LinkKey key, const std::shared_ptr<transport::Link>& link, bool joined,
                        v1::Frame question) {
  const MutexLock lock(&mutex_);
  if (!none_.ok()) return link->Close(none_);
  if (files_ == nullptr) {
    return link->Close(absl::UnavailableError("the coordinator compares its checkpoint still"));
  }
  const bool weights =
      question.has_file_chunk_wanted() && files_->IsOfWeights(question.file_chunk_wanted());
  if (weights && !joined) {
    return link->Close(absl::PermissionDeniedError(
        "weights go to workers that have joined, and no worker of this name has"));
  }
  Peer& peer = peers_[key];
  if (peer.link == nullptr) peer.frames_before = link->stats().frames_out;
  peer.link = link;
  if (peer.questions.size() >= kWeightsQuestionsMax) {
    return link->Close(absl::ResourceExhaustedError(
        absl::StrCat("more than ", kWeightsQuestionsMax, " questions wait on a weights link")));
  }
  if (peer.questions.empty() && !peer.in_hand) peer.told_at = clock_->Now();
  peer.questions.push_back({std::move(question), joined});
  GiveTurn(key, &peer);
}

void WeightsServer::Forget(LinkKey key) {
  const MutexLock lock(&mutex_);
  peers_.erase(key);
}

void WeightsServer::GiveTurn(LinkKey key, Peer* peer) {
  if (peer->in_turn || peer->in_hand || peer->questions.empty()) return;
  peer->in_turn = true;
  turns_.push_back(key);
  changed_.NotifyAll();
}

// The first link whose turn it is and that has room; one without keeps its place.
bool WeightsServer::TakeTurn(LinkKey* key) {
  for (auto at = turns_.begin(); at != turns_.end();) {
    const auto peer = peers_.find(*at);
    if (peer == peers_.end()) {
      at = turns_.erase(at);
      continue;
    }
    // Payloads count until their memory is let go of, all answers until they are sent.
    if (unsent_->Of(*at) < kWeightsUnsentMax && Waiting(peer->second) < kWeightsUnsentMax) {
      *key = *at;
      turns_.erase(at);
      peer->second.in_turn = false;
      return true;
    }
    ++at;
  }
  return false;
}

bool WeightsServer::WaitForRate(LinkKey key, int64_t bytes) {
  const Instant at = rate_.Take(bytes, clock_->Now());
  peers_[key].waits = true;
  while (!stop_ && clock_->Now() < at) {
    changed_.WaitUntil(&mutex_, std::min(at, clock_->Now() + kWeightsPendingInterval / 4));
    TellPending();
  }
  const auto peer = peers_.find(key);
  if (peer != peers_.end()) peer->second.waits = false;
  return !stop_;
}

// Not a link that a thread reads the disk for: a disk that hangs is no turn. Nor one that takes
// nothing.
void WeightsServer::TellPending() {
  const Instant now = clock_->Now();
  if (now < next_tell_) return;
  next_tell_ = now + kWeightsPendingInterval / 4;
  for (auto& [key, peer] : peers_) {
    const bool pending = peer.in_hand ? peer.waits : !peer.questions.empty();
    if (!peer.takes_beats || !pending || now - peer.told_at < kWeightsPendingInterval ||
        Waiting(peer) > 0)
      continue;
    peer.told_at = now;
    v1::Frame frame;
    frame.mutable_beat();
    if (peer.link->Send(std::move(frame)).ok()) ++peer.answered;
  }
}

void WeightsServer::Run() {
  const MutexLock lock(&mutex_);
  while (!stop_) {
    TellPending();
    LinkKey key;
    if (!TakeTurn(&key)) {
      // A payload that is let go of tells without this lock, so the look is repeated.
      changed_.WaitUntil(&mutex_, clock_->Now() + kWeightsLookInterval);
      continue;
    }
    Peer& peer = peers_[key];
    peer.in_hand = true;
    const Question question = std::move(peer.questions.front());
    peer.questions.pop_front();
    const std::shared_ptr<transport::Link> link = peer.link;
    const std::shared_ptr<const WeightsFiles> files = files_;
    if (!WaitForRate(key, files->ChunkBytes(question.frame))) return;
    mutex_.Unlock();
    const absl::Status answered = Answer(key, link.get(), *files, question);
    if (!answered.ok() && !absl::IsUnavailable(answered)) {
      spdlog::warn("closing the weights link from {}: {}", link->peer(),
                   std::string(answered.message()));
    }
    if (!answered.ok()) link->Close(answered);
    mutex_.Lock();
    const auto found = peers_.find(key);
    if (found == peers_.end()) continue;
    found->second.in_hand = false;
    found->second.told_at = clock_->Now();
    ++found->second.answered;
    GiveTurn(key, &found->second);
  }
}

absl::Status WeightsServer::Answer(LinkKey key, transport::Link* link, const WeightsFiles& files,
                                   const Question& question) {
  TUTTI_ASSIGN_OR_RETURN(WeightsFiles::Answer answer,
                         files.AnswerTo(question.frame, question.joined));
  if (answer.payload.empty()) return link->Send(std::move(answer.frame));
  const auto bytes = static_cast<uint64_t>(answer.payload.size());
  unsent_->Add(key);
  auto* const kept = new std::vector<std::byte>(std::move(answer.payload));
  transport::Payload payload;
  payload.chunks = {*kept};
  payload.owner = std::shared_ptr<const void>(kept, [key, unsent = unsent_](const void* memory) {
    delete static_cast<const std::vector<std::byte>*>(memory);
    unsent->Remove(key);
  });
  TUTTI_RETURN_IF_ERROR(link->Send(std::move(answer.frame), std::move(payload)));
  sent_bytes_ += bytes;
  return absl::OkStatus();
}

}  // namespace tutti::coordinator
