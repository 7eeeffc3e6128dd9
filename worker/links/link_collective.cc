#include "worker/links/link_collective.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "model/work_space.h"
#include "transport/crc32c.h"
#include "transport/frame_rules.h"
#include "transport/limits.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

// sum[i] = left[i] + right[i], where `bytes` are the peer's values from byte `offset` on and may
// begin and end inside a value; `tail` keeps the begun one.
class Adder {
 public:
  Adder(const float* own, float* sum, bool own_is_left)
      : own_(own), sum_(sum), own_is_left_(own_is_left) {}

  void Add(std::span<const std::byte> bytes) {
    while (!bytes.empty() && (tail_bytes_ > 0 || bytes.size() < sizeof(float))) {
      tail_[tail_bytes_++] = bytes[0];
      bytes = bytes.subspan(1);
      if (tail_bytes_ < sizeof(float)) continue;
      AddValues(tail_, 1);
      tail_bytes_ = 0;
    }
    const size_t whole = bytes.size() / sizeof(float);
    AddValues(bytes.data(), whole);
    bytes = bytes.subspan(whole * sizeof(float));
    for (const std::byte byte : bytes) tail_[tail_bytes_++] = byte;
  }

 private:
  void AddValues(const std::byte* theirs, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      float value;
      std::memcpy(&value, theirs + i * sizeof(float), sizeof(float));
      sum_[at_ + i] = own_is_left_ ? own_[at_ + i] + value : value + own_[at_ + i];
    }
    at_ += count;
  }

  const float* const own_;
  float* const sum_;
  const bool own_is_left_;
  size_t at_ = 0;
  std::byte tail_[sizeof(float)];
  size_t tail_bytes_ = 0;
};

}  // namespace

void LinkCollective::BeginEpoch(RankFrameChannel* channel, Epoch epoch, int ranks, int rank) {
  CHECK(ranks >= 1 && rank >= 0 && rank < ranks && (ranks & (ranks - 1)) == 0);
  channel_ = channel;
  epoch_ = epoch;
  ranks_ = ranks;
  rank_ = rank;
  sent_.assign(static_cast<size_t>(ranks), 0);
  received_.assign(static_cast<size_t>(ranks), 0);
  LeaveDevices();
  queued_ = 0;
  traffic_ = kernels::CollectiveTraffic();
}

absl::Status LinkCollective::Reserve(int ranks, int64_t bytes) {
  current_.reset();
  pool_.emplace(bytes);
  buffers_max_ = model::CollectiveBuffers(ranks);
  return absl::OkStatus();
}

absl::StatusOr<LinkCollective::Buffer> LinkCollective::AllocateBuffer(int64_t bytes) {
  CHECK(pool_.has_value() && bytes <= pool_->capacity_bytes()) << bytes;
  Buffer buffer = pool_->TryAcquire(bytes, buffers_max_);
  if (buffer != nullptr) return buffer;
  // The transport still holds memory that was sent an exchange ago, although its receiver has
  // answered since: it lets go within microseconds, unless its thread gets no time at all.
  const Instant deadline = clock_->Now() + kSentBufferPatience;
  while ((buffer = pool_->TryAcquire(bytes, buffers_max_)) == nullptr) {
    if (clock_->Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("memory sent to the other ranks has not been released by the transport for ",
                       Milliseconds(kSentBufferPatience), " ms"));
    }
    std::this_thread::yield();
  }
  return buffer;
}

absl::StatusOr<std::span<std::byte>> LinkCollective::Acquire(int64_t bytes) {
  current_.reset();
  TUTTI_ASSIGN_OR_RETURN(current_, AllocateBuffer(bytes));
  return current_->bytes;
}

absl::StatusOr<std::span<const float>> LinkCollective::Sum() {
  CHECK(current_ != nullptr && current_->bytes.size() % sizeof(float) == 0);
  const auto bytes = static_cast<int64_t>(current_->bytes.size());
  for (int distance = 1; distance < ranks_; distance *= 2) {
    const int peer = rank_ ^ distance;
    Send(peer, current_, 0, bytes);
    TUTTI_ASSIGN_OR_RETURN(Buffer sum, AllocateBuffer(bytes));
    Adder adder(reinterpret_cast<const float*>(current_->bytes.data()),
                reinterpret_cast<float*>(sum->bytes.data()), rank_ < peer);
    TUTTI_RETURN_IF_ERROR(Receive(peer, bytes, [&](int64_t, const transport::Payload& payload) {
      for (const auto& chunk : payload.chunks) adder.Add(chunk);
    }));
    current_ = std::move(sum);
  }
  return std::span(reinterpret_cast<const float*>(current_->bytes.data()),
                   current_->bytes.size() / sizeof(float));
}

absl::Status LinkCollective::Gather(std::span<const int64_t> begin) {
  CHECK(current_ != nullptr && static_cast<int>(begin.size()) == ranks_ + 1);
  CHECK(begin.back() <= static_cast<int64_t>(current_->bytes.size()));
  for (int distance = 1; distance < ranks_; distance *= 2) {
    const int peer = rank_ ^ distance;
    // The blocks that this rank, and its peer, have so far.
    const int ours = rank_ / distance * distance;
    const int theirs = peer / distance * distance;
    Send(peer, current_, begin[ours], begin[ours + distance]);
    std::byte* to = current_->bytes.data() + begin[theirs];
    TUTTI_RETURN_IF_ERROR(Receive(peer, begin[theirs + distance] - begin[theirs],
                                  [&](int64_t, const transport::Payload& payload) {
                                    for (const auto& chunk : payload.chunks) {
                                      if (!chunk.empty()) {
                                        std::memcpy(to, chunk.data(), chunk.size());
                                      }
                                      to += chunk.size();
                                    }
                                  }));
  }
  return absl::OkStatus();
}

void LinkCollective::UseDevices(kernels::DeviceExchange* devices, Duration patience) {
  devices_ = devices;
  device_patience_ = patience;
}

void LinkCollective::LeaveDevices() {
  if (devices_ != nullptr) devices_->membership()->Leave();
  devices_ = nullptr;
  queued_unagreed_ = 0;
  devices_done_ = true;
}

absl::Status LinkCollective::SumOnDevice(kernels::TensorView x) {
  const int64_t bytes = x.rows * x.cols * static_cast<int64_t>(sizeof(float));
  return OnDevice(devices_->Sum(x), bytes, bytes);
}

absl::Status LinkCollective::GatherOnDevice(kernels::TensorView x, std::span<const int64_t> begin) {
  const int64_t row_bytes = x.cols * static_cast<int64_t>(sizeof(float));
  const int64_t own = (begin[rank_ + 1] - begin[rank_]) * row_bytes;
  return OnDevice(devices_->Gather(x, begin), own, begin.back() * row_bytes - own);
}

absl::Status LinkCollective::OnDevice(const absl::Status& queued, int64_t bytes_out,
                                      int64_t bytes_in) {
  if (!queued.ok()) return LeaveAfter(queued);
  traffic_.bytes_out += bytes_out;
  traffic_.bytes_in += bytes_in;
  ++traffic_.frames_out;
  ++traffic_.frames_in;
  ++queued_;
  devices_done_ = false;
  return ++queued_unagreed_ < kExchangesUnagreedMax ? absl::OkStatus() : Agree();
}

// Fails unless all ranks have queued as many exchanges as this one.
absl::Status LinkCollective::Agree() {
  constexpr int64_t kBlock = sizeof(int64_t);
  auto memory = Acquire(ranks_ * kBlock);
  if (!memory.ok()) return LeaveAfter(memory.status());
  auto* const counts = reinterpret_cast<int64_t*>(memory->data());
  counts[rank_] = queued_;
  std::vector<int64_t> begin;
  for (int rank = 0; rank <= ranks_; ++rank) begin.push_back(rank * kBlock);
  if (absl::Status status = Gather(begin); !status.ok()) return LeaveAfter(std::move(status));
  for (int rank = 0; rank < ranks_; ++rank) {
    if (counts[rank] == queued_) continue;
    return LeaveAfter(absl::FailedPreconditionError(
        absl::StrCat(channel_->NameOf(rank), " has queued ", counts[rank],
                     " exchanges of devices in this epoch, this rank ", queued_)));
  }
  queued_unagreed_ = 0;
  return absl::OkStatus();
}

absl::Status LinkCollective::WaitForDevices() {
  if (devices_done_) return absl::OkStatus();
  TUTTI_RETURN_IF_ERROR(Agree());
  if (absl::Status status = PollDevices(); !status.ok()) return LeaveAfter(std::move(status));
  devices_done_ = true;
  return absl::OkStatus();
}

absl::Status LinkCollective::PollDevices() {
  const Instant begin = clock_->Now();
  Instant look = begin + kDeviceLookInterval;
  while (true) {
    TUTTI_ASSIGN_OR_RETURN(const bool done, devices_->AllDone());
    if (done) return absl::OkStatus();
    std::this_thread::yield();
    const Instant now = clock_->Now();
    if (now < look) continue;
    TUTTI_RETURN_IF_ERROR(channel_->Pause(now));
    look = now + kDeviceLookInterval;
    if (now < begin + device_patience_) continue;
    return absl::DeadlineExceededError(
        absl::StrCat("step ", step_, ": all ranks have queued their ", queued_,
                     " exchanges of devices, but this rank's device has not done them after ",
                     Milliseconds(device_patience_), " ms"));
  }
}

absl::Status LinkCollective::LeaveAfter(absl::Status status) {
  LeaveDevices();
  return status;
}

// Nothing is sent when there is nothing to say: both sides know the sizes.
void LinkCollective::Send(int peer, const Buffer& buffer, int64_t begin, int64_t end) {
  const int64_t total = end - begin;
  for (int64_t offset = 0; offset < total; offset += transport::kPayloadChunkBytes) {
    const int64_t size = std::min(transport::kPayloadChunkBytes, total - offset);
    const std::span<const std::byte> bytes = buffer->bytes.subspan(begin + offset, size);
    v1::Frame frame;
    frame.set_epoch(epoch_.value());
    v1::RankExchange* exchange = frame.mutable_rank_exchange();
    exchange->set_step(step_);
    exchange->set_sequence(++sent_[peer]);
    exchange->set_offset(offset);
    exchange->set_total_bytes(total);
    exchange->set_checksum(transport::Crc32c(bytes));
    traffic_.bytes_out += transport::EncodedFrameBytes(frame, size);
    ++traffic_.frames_out;
    channel_->Send(peer, std::move(frame), transport::Payload{.chunks = {bytes}, .owner = buffer});
  }
}

template <class Fn>
absl::Status LinkCollective::Receive(int peer, int64_t total, const Fn& use) {
  for (int64_t offset = 0; offset < total;) {
    const Instant begin = clock_->Now();
    TUTTI_ASSIGN_OR_RETURN(const RankFrameChannel::Received received, channel_->Receive(peer));
    traffic_.waiting_seconds += Seconds(clock_->Now() - begin);
    TUTTI_RETURN_IF_ERROR(
        Annotate(Check(peer, received, offset, total), "from " + channel_->NameOf(peer)));
    use(offset, received.payload);
    offset += received.payload.size();
  }
  return absl::OkStatus();
}

absl::Status LinkCollective::Check(int peer, const RankFrameChannel::Received& received,
                                   int64_t offset, int64_t total) {
  if (!received.frame.has_rank_exchange()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected frame ", transport::BodyName(received.frame),
                     " where rank_exchange ", received_[peer] + 1, " of step ", step_, " is due"));
  }
  const v1::RankExchange& exchange = received.frame.rank_exchange();
  const int64_t size = received.payload.size();
  traffic_.bytes_in += transport::EncodedFrameBytes(received.frame, size);
  ++traffic_.frames_in;
  if (exchange.step() != step_ || exchange.sequence() != ++received_[peer]) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank_exchange ", exchange.sequence(), " of step ", exchange.step(),
                     " came where ", received_[peer], " of step ", step_, " is due"));
  }
  if (exchange.total_bytes() != total || exchange.offset() != offset || size < 1 ||
      size > total - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", step_, ": ", size, " bytes from ", exchange.offset(), " of ",
                     exchange.total_bytes(), " came where ", offset, " of ", total, " are here"));
  }
  const uint32_t checksum = transport::Crc32c(received.payload.chunks);
  if (checksum != exchange.checksum()) {
    return absl::DataLossError(absl::StrCat("step ", step_, ", frame ", exchange.sequence(),
                                            ": checksum is ", checksum, ", sender wrote ",
                                            exchange.checksum()));
  }
  return absl::OkStatus();
}

}  // namespace tutti::worker
