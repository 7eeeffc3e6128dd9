#include "gateway/http/connection.h"

#include <algorithm>
#include <utility>

#include "gateway/api_error.h"
#include "gateway/http/head_text.h"

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
    // A client that reads too slowly is gone.
    if (connection->unsent() > kUnsentBytesMax) connection->Abort();
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
    connection->context_->body_bytes -= std::exchange(connection->counted_body_, 0);
  }

  const std::weak_ptr<Connection> connection_;
  HttpRequest request_;
  const bool without_body_;
  bool begun_ = false, ended_ = false, chunked_ = false, went_ = false;
  std::function<void()> gone_;
};

Connection::Connection(std::unique_ptr<ByteStream> stream, HttpPeer peer,
                       ConnectionContext* context)
    : stream_(std::move(stream)), peer_(std::move(peer)), context_(context), reader_(peer_) {}

Connection::~Connection() { context_->body_bytes -= counted_body_; }

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
      deadline_ = now + kIdleTime;
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
  Enter(Phase::kHandshake);
  stream_->Handshake([self = shared_from_this()](boost::system::error_code error) {
    if (error || self->closed_) return self->Abort();
    self->Enter(Phase::kIdle);
    self->MaybeRead();
  });
}

void Connection::Abort() {
  if (std::exchange(closed_, true)) return;
  stream_->Close();
  if (answer_ != nullptr) {
    --context_->exchanges;
    const auto answer = std::exchange(answer_, nullptr);
    answer->Go();
  }
}

void Connection::CheckTime(Instant now) {
  if (closed_) return;
  if (now >= write_deadline_) return Abort();
  if (now < deadline_) return;
  if (phase_ == Phase::kHead || phase_ == Phase::kBody) {
    return Refuse(408, "the request did not come to its end in time");
  }
  Abort();
}

void Connection::CloseIfIdle() {
  if (idle()) Abort();
}

Instant Connection::waiting_since() const {
  const bool waits =
      phase_ == Phase::kIdle || phase_ == Phase::kHandshake || phase_ == Phase::kHead;
  return closed_ || !waits ? kInstantNever : since_;
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
    in_.append(read_.data(), bytes);
    Consume();
    // To stop reading would be not to see it go.
    if (answer_ != nullptr && in_.size() > kHeadBytesMax) return Abort();
  }
  MaybeRead();
}

void Connection::Consume() {
  while (!closed_ && answer_ == nullptr && phase_ != Phase::kFarewell && !in_.empty()) {
    const size_t taken = reader_.Take(in_);
    in_.erase(0, taken);
    CountBody();
    if (closed_ || phase_ == Phase::kFarewell) return;
    switch (reader_.at()) {
      case RequestReader::At::kError:
        return Refuse(reader_.error_status(), reader_.error());
      case RequestReader::At::kEnd:
        BeginAnswer();
        continue;
      case RequestReader::At::kBody:
        if (phase_ != Phase::kBody) Enter(Phase::kBody);
        if (!std::exchange(head_seen_, true)) {
          if (auto refusal = context_->handler->RefuseHead(reader_.head())) {
            return Refuse(*std::move(refusal));
          }
        }
        if (reader_.expects_continue() && !std::exchange(continued_, true) && in_.empty()) {
          Send("HTTP/1.1 100 Continue\r\n\r\n");
        }
        break;
      default:
        if (phase_ == Phase::kIdle) Enter(Phase::kHead);
    }
    if (taken == 0) return;
  }
}

void Connection::CountBody() {
  int64_t bytes = reader_.body_bytes();
  if (bytes <= static_cast<int64_t>(kInlineBodyBytesMax)) bytes = 0;
  const bool grows = bytes > counted_body_;
  context_->body_bytes += bytes - counted_body_;
  counted_body_ = bytes;
  if (!grows || context_->body_bytes <= context_->bodies_bytes_max) return;
  Refuse(503, "too many large requests are being read; try again");
  // Others may have its room now.
  reader_.Release();
  context_->body_bytes -= std::exchange(counted_body_, 0);
}

void Connection::BeginAnswer() {
  Enter(Phase::kAnswer);
  continued_ = head_seen_ = false;
  ++context_->exchanges;
  answer_ = std::make_shared<Answer>(weak_from_this(), reader_.Release());
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
}

void Connection::MaybeWrite() {
  if (writing_ || closed_) return;
  if (sent_ == sending_.size()) {
    // An idle connection keeps no large buffer.
    std::string next = std::exchange(ready_, {});
    sending_.swap(next);
    sent_ = 0;
  }
  if (sending_.empty()) {
    if (phase_ == Phase::kFarewell) {
      stream_->CloseForWriting();
    } else if (answer_ != nullptr && answer_->ended()) {
      Next();
    }
    return;
  }
  writing_ = true;
  write_deadline_ = context_->clock->Now() + kWriteTime;
  stream_->Write(
      boost::asio::buffer(sending_.data() + sent_, std::min(sending_.size() - sent_, kWriteBytes)),
      [self = shared_from_this()](boost::system::error_code error, size_t bytes) {
        self->OnWritten(error, bytes);
      });
}

void Connection::OnWritten(boost::system::error_code error, size_t bytes) {
  writing_ = false;
  sent_ += bytes;
  write_deadline_ = kInstantNever;
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
