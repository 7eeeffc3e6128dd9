#include "gateway/http/connection.h"

#include <algorithm>
#include <utility>

#include "door/door.h"
#include "gateway/api_error.h"
#include "gateway/caller_rules.h"
#include "gateway/http/head_text.h"
#include "spdlog/spdlog.h"

namespace tutti::gateway {

// Outlives the connection where a handler holds it; is mute then.
class Connection::Answer : public Exchange {
 public:
  Answer(std::weak_ptr<Connection> connection, HttpRequest request)
      : connection_(std::move(connection)),
        request_(std::move(request)),
        without_body_(request_.method == "HEAD") {}

  HttpRequest& request() override { return request_; }

  void Reply(HttpResponse response) override {
    const auto connection = connection_.lock();
    if (begun_ || connection == nullptr || connection->closed_) return;
    begun_ = ended_ = true;
    Settle(connection.get(), response);
    std::string bytes = HeadText(response,
                                 response.status == 204 || response.status == 304
                                     ? std::nullopt
                                     : std::optional<uint64_t>(response.body.size()),
                                 /*chunked=*/false, connection->close_);
    if (!without_body_) bytes += response.body;
    connection->Send(std::move(bytes));
  }

  void Begin(HttpResponse response) override {
    const auto connection = connection_.lock();
    if (begun_ || connection == nullptr || connection->closed_) return;
    begun_ = true;
    chunked_ = request_.takes_chunks;
    response.close |= !chunked_;
    Settle(connection.get(), response);
    connection->Send(HeadText(response, std::nullopt, chunked_, connection->close_));
    Write(std::move(response.body));
  }

  void Write(std::string piece) override {
    const auto connection = connection_.lock();
    if (!begun_ || ended_ || piece.empty() || connection == nullptr) return;
    if (without_body_) return;
    connection->Send(chunked_ ? ChunkText(piece) : std::move(piece));
    connection->EndIfBehind();
  }

  void End() override {
    const auto connection = connection_.lock();
    if (!begun_ || ended_ || connection == nullptr || connection->closed_) return;
    ended_ = true;
    connection->Send(chunked_ && !without_body_ ? kLastChunk : "");
  }

  void OnGone(std::function<void()> gone) override {
    if (went_) return gone();
    gone_ = std::move(gone);
  }

  bool ended() const { return ended_; }
  void Go() {
    if (ended_) return;
    went_ = ended_ = begun_ = true;
    if (const auto gone = std::exchange(gone_, nullptr)) gone();
  }

 private:
  void Settle(Connection* connection, const HttpResponse& response) {
    connection->close_ |= response.close || !request_.keep_alive || connection->context_->draining;
  }

  const std::weak_ptr<Connection> connection_;
  HttpRequest request_;
  const bool without_body_;
  bool begun_ = false, ended_ = false, chunked_ = false, went_ = false;
  std::function<void()> gone_;
};

Connection::Connection(std::unique_ptr<ByteStream> stream, HttpPeer peer,
                       ConnectionContext* context)
    : stream_(std::move(stream)),
      peer_(std::move(peer)),
      context_(context),
      reader_(peer_),
      owner_(peer_.account) {}

void Connection::Enter(Phase phase) {
  phase_ = phase;
  const Instant now = context_->clock->Now();
  since_ = now;
  switch (phase) {
    case Phase::kHandshake:
    case Phase::kHead:
      deadline_ = now + kHeadTime;
      break;
    case Phase::kIdle:
      deadline_ = now + context_->idle_time;
      break;
    case Phase::kBody:
      deadline_ = now + kBodyTime;
      break;
    case Phase::kAnswer:
      deadline_ = kInstantNever;
      break;
    case Phase::kFarewell:
      deadline_ = now + kFarewellTime;
      break;
  }
}

void Connection::Start() {
  if (!stream_->needs_handshake()) {
    Enter(Phase::kIdle);
    return MaybeRead();
  }
  Enter(Phase::kHandshake);
  stream_->WaitReadable([self = shared_from_this()](boost::system::error_code error) {
    if (error || self->closed_) return self->Abort();
    self->context_->handshakes->Enter(self->peer_.account, self,
                                      [connection = self.get()] { connection->BeginHandshake(); });
  });
}

void Connection::BeginHandshake() {
  handshake_since_ = context_->clock->Now();
  stream_->Handshake([self = shared_from_this()](boost::system::error_code error) {
    self->LeaveGate();
    if (error || self->closed_) return self->Abort();
    self->Enter(Phase::kIdle);
    self->MaybeRead();
  });
}

void Connection::LeaveGate() {
  if (std::exchange(handshake_since_, kInstantNever) == kInstantNever) return;
  context_->handshakes->Leave(peer_.account);
}

void Connection::Abort() {
  if (std::exchange(closed_, true)) return;
  stream_->Close();
  LeaveGate();
  body_charge_ = {};
  unsent_charge_.reset();
  if (answer_ != nullptr) {
    --context_->exchanges;
    const auto answer = std::exchange(answer_, nullptr);
    answer->Go();
  }
}

void Connection::CheckTime(Instant now) {
  if (closed_) return;
  if (write_since_ != kInstantNever && now - write_since_ >= kWriteTime) return Abort();
  if (handshake_since_ != kInstantNever && now - handshake_since_ >= kHandshakePatience &&
      context_->handshakes->has_waiting(peer_.account)) {
    return Abort();
  }
  const bool is_slow = phase_ == Phase::kHead || phase_ == Phase::kBody;
  if (is_slow && now - since_ >= door::kReadGrace && !CountBody(/*slow=*/true)) return;
  if (now < deadline_) return;
  if (phase_ == Phase::kHead || phase_ == Phase::kBody) {
    return Refuse(408, "the request did not come to its end in time");
  }
  Abort();
}

void Connection::CloseIfIdle() {
  if (idle()) Abort();
}

Connection::Stands Connection::StandsAt(Instant now) const {
  if (write_since_ != kInstantNever && now - write_since_ >= kUnreadPatience) {
    return {.as = Standing::kUnread, .since = write_since_};
  }
  switch (phase_) {
    case Phase::kHandshake:
    case Phase::kIdle:
    case Phase::kHead:
    case Phase::kFarewell:
      return {.as = Standing::kWaiting, .since = since_};
    case Phase::kBody:
      return {.as = Standing::kSending, .since = since_};
    case Phase::kAnswer:
      break;
  }
  return {.as = Standing::kBusy, .since = since_};
}

void Connection::MaybeRead() {
  // Beyond that a client that goes is noticed by the end of the farewell only.
  if (reading_ || closed_ || unread_ > kFarewellBytesMax) return;
  reading_ = true;
  stream_->Read(boost::asio::buffer(read_),
                [self = shared_from_this()](boost::system::error_code error, size_t bytes) {
                  self->OnRead(error, bytes);
                });
}

void Connection::OnRead(boost::system::error_code error, size_t bytes) {
  reading_ = false;
  if (closed_) return;
  if (error) return Abort();
  context_->read_bytes += static_cast<int64_t>(bytes);
  if (phase_ == Phase::kFarewell) {
    unread_ += bytes;
  } else {
    const absl::Status taken = door::WithinMemory([&] {
      in_.append(read_.data(), bytes);
      Consume();
      return absl::OkStatus();
    });
    if (!taken.ok()) return EndForMemory();
    // To stop reading would be not to see it go.
    if (answer_ != nullptr && in_.size() > kHeadBytesMax) return Abort();
  }
  MaybeRead();
}

void Connection::Consume() {
  while (!closed_ && answer_ == nullptr && phase_ != Phase::kFarewell && !in_.empty()) {
    const size_t taken = reader_.Take(in_);
    in_.erase(0, taken);
    if (!CountBody(/*slow=*/false)) return;
    switch (reader_.at()) {
      case RequestReader::At::kError:
        return Refuse(reader_.error_status(), reader_.error());
      case RequestReader::At::kEnd:
        BeginAnswer();
        continue;
      case RequestReader::At::kBody:
        if (phase_ != Phase::kBody) Enter(Phase::kBody);
        if (!std::exchange(head_seen_, true)) {
          HttpHandler::Verdict verdict = context_->handler->Judge(reader_.head());
          if (verdict.refusal) return Refuse(*std::move(verdict.refusal));
          owner_ = std::move(verdict.owner);
        }
        if (reader_.expects_continue() && !std::exchange(continued_, true) && in_.empty()) {
          Send("HTTP/1.1 100 Continue\r\n\r\n");
        }
        break;
      default:
        if (phase_ == Phase::kIdle && reader_.at() == RequestReader::At::kHead) Enter(Phase::kHead);
    }
    if (taken == 0) return;
  }
}

bool Connection::CountBody(bool slow) {
  const int64_t bytes = reader_.body_bytes() + (slow ? static_cast<int64_t>(in_.size()) : 0);
  if ((!slow && bytes <= static_cast<int64_t>(kInlineBodyBytesMax)) ||
      bytes <= body_charge_.bytes()) {
    return true;
  }
  const int64_t step = slow ? static_cast<int64_t>(kReadBytes) : kBodyStepBytes;
  const int64_t wanted = (bytes / step + 1) * step;
  if (body_charge_.bytes() > 0) {
    if (body_charge_.Resize(wanted)) return true;
  } else if (auto charge = context_->budget->Take(owner_, wanted)) {
    body_charge_ = *std::move(charge);
    return true;
  }
  HttpResponse response{.status = 429};
  response.body = ErrorBody(NoMoreBytes());
  response.fields = {{"Retry-After", "1"}};
  Refuse(std::move(response));
  // Others may have its room now.
  reader_.Release();
  body_charge_ = {};
  return false;
}

// Its answer cannot be told from what is lost of it: the connection ends.
void Connection::EndForMemory() {
  in_.clear();
  const bool can_say = answer_ == nullptr && phase_ != Phase::kFarewell;
  const absl::Status said = door::WithinMemory([&] {
    if (can_say) {
      reader_.Release();
      Refuse(503, "there is no memory left for this request; try again");
    }
    return absl::OkStatus();
  });
  if (!can_say || !said.ok()) return Abort();
  MaybeRead();
}

void Connection::BeginAnswer() {
  Enter(Phase::kAnswer);
  continued_ = head_seen_ = false;
  ++context_->exchanges;
  HttpRequest request = reader_.Release();
  request.owner = owner_;
  request.charge = std::exchange(body_charge_, {});
  answer_ = std::make_shared<Answer>(weak_from_this(), std::move(request));
  context_->handler->Handle(answer_);
}

// Bytes after the request at fault cannot be told apart from it: the connection ends.
void Connection::Refuse(int status, const std::string& why) {
  HttpResponse response{.status = status};
  response.body = ErrorBody(MakeError(status, why));
  Refuse(std::move(response));
}

void Connection::Refuse(HttpResponse response) {
  if (phase_ == Phase::kFarewell) return;
  close_ = true;
  in_ = {};
  Enter(Phase::kFarewell);
  Send(HeadText(response, response.body.size(), /*chunked=*/false, /*close=*/true) + response.body);
}

void Connection::Send(std::string bytes) {
  if (closed_) return;
  if (ready_.empty()) {
    ready_ = std::move(bytes);
  } else {
    ready_ += bytes;
  }
  MaybeWrite();
  // What lies here unread is its owner's.
  const auto lies = static_cast<int64_t>(unsent());
  if (lies <= kUnsentUncountedBytes) return;
  if (!unsent_charge_) {
    unsent_charge_.emplace(context_->budget,
                           answer_ != nullptr ? answer_->request().owner : owner_);
  }
  if (!unsent_charge_->Cover(lies)) Abort();
}

void Connection::EndIfBehind() {
  if (closed_ || unsent() <= kUnsentBytesMax) return;
  const Instant now = context_->clock->Now();
  behind_since_ = std::min(behind_since_, now);
  if (now - behind_since_ < kBehindPatience) return;
  spdlog::warn("HTTP: {} leaves {} bytes of a stream unread: cut", peer_.account, unsent());
  Abort();
}

void Connection::MaybeWrite() {
  if (writing_ || closed_) return;
  if (unsent() <= kUnsentBytesMax) behind_since_ = kInstantNever;
  if (sent_ == sending_.size()) {
    // An idle connection keeps no large buffer.
    std::string next = std::exchange(ready_, {});
    sending_.swap(next);
    sent_ = 0;
  }
  if (sending_.empty()) {
    unsent_charge_.reset();
    if (phase_ == Phase::kFarewell) {
      stream_->CloseForWriting();
    } else if (answer_ != nullptr && answer_->ended()) {
      Next();
    }
    return;
  }
  writing_ = true;
  write_since_ = context_->clock->Now();
  stream_->Write(
      boost::asio::buffer(sending_.data() + sent_, std::min(sending_.size() - sent_, kWriteBytes)),
      [self = shared_from_this()](boost::system::error_code error, size_t bytes) {
        self->OnWritten(error, bytes);
      });
}

void Connection::OnWritten(boost::system::error_code error, size_t bytes) {
  writing_ = false;
  sent_ += bytes;
  write_since_ = kInstantNever;
  if (closed_) return;
  if (error) return Abort();
  MaybeWrite();
}

void Connection::Next() {
  --context_->exchanges;
  answer_ = nullptr;
  if (close_) {
    Enter(Phase::kFarewell);
    return stream_->CloseForWriting();
  }
  Enter(Phase::kIdle);
  if (context_->draining) return Abort();
  if (in_.empty()) in_.shrink_to_fit();
  Consume();
  MaybeRead();
}

}  // namespace tutti::gateway
