// A frame from another process, cut into pieces as a network may: refused, or exactly what protobuf
// itself reads. The first byte of the input says how it is cut. A frame gets the checksum that it
// needs: no fuzzer finds one.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "transport/frame_rules.h"
#include "transport/grpc/close_frame.h"
#include "transport/grpc/frame_codec.h"
#include "transport/grpc/frame_sealing_testing.h"
#include "transport/limits.h"

namespace {

std::string Join(const tutti::transport::Payload& payload) {
  std::string joined;
  for (const auto& chunk : payload.chunks) {
    joined.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
  }
  return joined;
}

grpc::ByteBuffer Cut(const std::string& bytes, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    slices.emplace_back(bytes.data() + at, std::min(piece, bytes.size() - at));
  }
  if (slices.empty()) slices.emplace_back();
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// The decoded frame is protobuf's for the same bytes, and survives a second journey.
void CheckSame(const std::string& bytes, const tutti::v1::Frame& frame,
               const tutti::transport::Payload& payload) {
  tutti::v1::Frame whole;
  CHECK(whole.ParseFromString(bytes)) << "protobuf refuses what the codec accepts";
  CHECK(frame.payload().empty() && whole.payload() == Join(payload));
  whole.clear_payload();
  whole.clear_checksum();
  CHECK(whole.SerializeAsString() == frame.SerializeAsString());
  CHECK(payload.size() <= tutti::transport::kPayloadBytesMax);
  (void)tutti::transport::ReadCloseFrame(frame, payload);
  if (!tutti::transport::CheckFrame(frame, payload).ok()) return;
  const grpc::ByteBuffer encoded = tutti::transport::EncodeFrame(frame, payload);
  CHECK(static_cast<int64_t>(encoded.Length()) ==
        tutti::transport::EncodedFrameBytes(frame, payload.size()));
  tutti::v1::Frame again;
  tutti::transport::Payload payload_again;
  CHECK(tutti::transport::DecodeFrame(encoded, &again, &payload_again).ok());
  CHECK(again.SerializeAsString() == frame.SerializeAsString());
  CHECK(Join(payload_again) == Join(payload));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string bytes =
      tutti::transport::Sealed({reinterpret_cast<const char*>(data) + 1, size - 1});
  tutti::v1::Frame frame;
  tutti::transport::Payload payload;
  if (tutti::transport::DecodeFrame(Cut(bytes, 1 + data[0]), &frame, &payload).ok()) {
    CheckSame(bytes, frame, payload);
  }
  return 0;
}
