// Frames and payloads for tests of the codec, and the bytes that they become.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/grpc/frame_sealing_testing.h"
#include "transport/link.h"
#include "transport/link_testing.h"

namespace tutti::transport {

inline std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

inline std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 131 + i / 256);
  return bytes;
}

// `bytes` as a payload of chunks of at most `chunk` bytes; `bytes` must outlive it.
inline Payload Chunked(const std::string& bytes, size_t chunk) {
  Payload payload;
  payload.owner = std::make_shared<int>(0);
  for (size_t at = 0; at < bytes.size(); at += chunk) {
    payload.chunks.push_back(AsBytes(bytes).subspan(at, std::min(chunk, bytes.size() - at)));
  }
  return payload;
}

inline std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string flat;
  for (const auto& slice : slices) {
    flat.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return flat;
}

// `bytes` cut into slices of `piece` bytes each, as a network may deliver them.
inline grpc::ByteBuffer Received(const std::string& bytes, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    slices.emplace_back(bytes.data() + at, std::min(piece, bytes.size() - at));
  }
  if (slices.empty()) slices.emplace_back();
  return grpc::ByteBuffer(slices.data(), slices.size());
}

inline v1::Frame ActivationFrame() {
  v1::Frame frame;
  frame.set_epoch(7);
  v1::Activation* activation = frame.mutable_activation();
  activation->set_step(300);
  activation->set_rows(2);
  activation->set_total_rows(2);
  activation->set_row_bytes(2048);
  activation->set_checksum(0x12345678);
  return frame;
}

inline v1::Frame PlanFrame(int tokens) {
  v1::Frame frame;
  frame.set_epoch(1);
  v1::NewSequence* sequence = frame.mutable_step_plan()->add_new_sequences();
  for (int i = 0; i < tokens; ++i) sequence->add_tokens(i * 17 % 151936);
  sequence->mutable_sampling()->set_temperature(0.5f);
  return frame;
}

}  // namespace tutti::transport
