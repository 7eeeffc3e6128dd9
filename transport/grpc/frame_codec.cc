#include "transport/grpc/frame_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpc/slice.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "transport/frame_checksum.h"
#include "transport/frame_rules.h"
#include "transport/grpc/frame_scan.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

using google::protobuf::io::CodedOutputStream;

constexpr uint8_t kPayloadTag = v1::Frame::kPayloadFieldNumber << 3 | 2;
static_assert(v1::Frame::kPayloadFieldNumber < 16, "the tag must fit into one byte");

// gRPC keeps a chunk's owner through this pointer and lets go of it on a thread of its own.
void ReleaseOwner(void* owner) { delete static_cast<std::shared_ptr<const void>*>(owner); }

grpc::Slice ReferTo(std::span<const std::byte> chunk, const std::shared_ptr<const void>& owner) {
  // gRPC takes a pointer to mutable bytes and does not write through it.
  void* data = const_cast<std::byte*>(chunk.data());
  return grpc::Slice(data, chunk.size(), &ReleaseOwner, new std::shared_ptr<const void>(owner));
}

std::vector<std::span<const std::byte>> Pieces(const std::vector<grpc::Slice>& slices) {
  std::vector<std::span<const std::byte>> pieces;
  pieces.reserve(slices.size());
  for (const grpc::Slice& slice : slices) {
    pieces.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
  }
  return pieces;
}

// The first `bytes` bytes of the pieces side by side: in place when they lie in the first piece,
// else in *copy.
std::span<const std::byte> Front(const std::vector<std::span<const std::byte>>& pieces,
                                 size_t bytes, std::vector<std::byte>* copy) {
  if (bytes == 0) return {};
  if (bytes <= pieces[0].size()) return pieces[0].first(bytes);
  copy->reserve(bytes);
  for (const auto& piece : pieces) {
    const auto part = piece.first(std::min(piece.size(), bytes - copy->size()));
    copy->insert(copy->end(), part.begin(), part.end());
  }
  return *copy;
}

absl::Status ParseMessage(std::span<const std::byte> message, v1::Frame* frame) {
  if (static_cast<int64_t>(message.size()) > kUncountedMessageBytesMax) {
    TUTTI_RETURN_IF_ERROR(CheckFieldCount(message));
  }
  if (!frame->ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame: ", message.size(), " bytes that are no Frame message"));
  }
  return absl::OkStatus();
}

// The bytes from `begin` on, kept by references to the slices they lie in.
Payload PayloadFrom(const std::vector<grpc::Slice>& slices, size_t begin) {
  size_t first = 0;
  while (begin >= slices[first].size()) begin -= slices[first++].size();
  // Spans are taken from the kept copies: a very short slice carries its bytes inside itself.
  auto kept = std::make_shared<std::vector<grpc::Slice>>(slices.begin() + first, slices.end());
  Payload payload;
  payload.chunks = Pieces(*kept);
  payload.chunks[0] = payload.chunks[0].subspan(begin);
  std::erase_if(payload.chunks, [](const auto& chunk) { return chunk.empty(); });
  payload.owner = std::move(kept);
  return payload;
}

}  // namespace

grpc::ByteBuffer EncodeFrame(const v1::Frame& frame, const Payload& payload) {
  const int64_t payload_bytes = payload.size();
  const int64_t frame_bytes = EncodedFrameBytes(frame, payload_bytes);
  const bool is_inline = payload_bytes <= kInlinePayloadBytesMax;
  const int64_t head_bytes = is_inline ? frame_bytes : frame_bytes - payload_bytes;

  grpc_slice head = grpc_slice_malloc(static_cast<size_t>(head_bytes));
  uint8_t* const begin = GRPC_SLICE_START_PTR(head);
  uint8_t* at = WriteChecksum(begin, frame.SerializeWithCachedSizesToArray(begin));
  if (payload_bytes > 0) {
    *at++ = kPayloadTag;
    at = CodedOutputStream::WriteVarint64ToArray(static_cast<uint64_t>(payload_bytes), at);
  }
  std::vector<grpc::Slice> slices;
  if (is_inline) {
    for (const auto& chunk : payload.chunks) {
      if (chunk.empty()) continue;
      std::memcpy(at, chunk.data(), chunk.size());
      at += chunk.size();
    }
  }
  CHECK(at == begin + head_bytes) << "frame changed while it was encoded";
  slices.emplace_back(head, grpc::Slice::STEAL_REF);
  if (!is_inline) {
    for (const auto& chunk : payload.chunks) {
      if (!chunk.empty()) slices.push_back(ReferTo(chunk, payload.owner));
    }
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::Status DecodeFrame(const grpc::ByteBuffer& buffer, v1::Frame* frame, Payload* payload) {
  frame->Clear();
  *payload = {};
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) {
    return absl::InvalidArgumentError("frame: a buffer that cannot be read");
  }
  const auto pieces = Pieces(slices);
  TUTTI_ASSIGN_OR_RETURN(const FrameLayout layout, ScanFrame(pieces));
  std::vector<std::byte> copy;
  const auto sealed = Front(pieces, static_cast<size_t>(layout.message_bytes), &copy);
  TUTTI_ASSIGN_OR_RETURN(const auto message, CheckChecksum(sealed));
  TUTTI_RETURN_IF_ERROR(ParseMessage(message, frame));
  if (layout.payload_bytes > 0) {
    *payload = PayloadFrom(slices, static_cast<size_t>(layout.payload_begin));
  }
  return absl::OkStatus();
}

}  // namespace tutti::transport
