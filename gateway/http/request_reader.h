// Reads requests from the bytes of a connection. What two readers could understand differently is
// refused: two lengths, a length beside chunks, chunks in HTTP/1.0, a target that is no path, no
// Host or two, an address as the target (RFC 9112, 3.2.2) that names another host than Host does.
//
// Boost.Beast parses; its headers are seen by request_reader.cc only.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/http/message.h"

namespace tutti::gateway {

class RequestReader {
 public:
  // `peer`: who sends the requests.
  explicit RequestReader(HttpPeer peer = {});
  ~RequestReader();

  // The part of the request that has come.
  enum class At : uint8_t { kNothing, kHead, kBody, kEnd, kError };

  // Takes bytes that came after those taken before; returns how many it took, and is to be asked
  // again with the rest and more. Stops behind the head. At kEnd and kError it takes none.
  size_t Take(std::string_view bytes);
  At at() const { return at_; }

  // At kBody and kEnd: the request, of whose body nothing is there yet.
  const HttpRequest& head() const { return request_; }

  // At kBody: the client waits for a word before it sends the body.
  bool expects_continue() const { return expects_continue_; }
  // Bytes of the body that are there.
  int64_t body_bytes() const;

  // At kEnd: the request; the reader begins anew.
  HttpRequest Release();

  // At kError: the status to refuse it with, and why.
  int error_status() const { return error_status_; }
  const std::string& error() const { return error_; }

 private:
  struct Parser;

  void Fail(int status, std::string_view why);
  // Refuses heads that Beast lets pass.
  void CheckHead();
  // The path of a target, and the host of one that has it.
  void TakeTarget(std::string_view target);

  const HttpPeer peer_;
  std::unique_ptr<Parser> parser_;
  At at_ = At::kNothing;
  HttpRequest request_;
  bool had_empty_line_ = false;  // before the request
  bool expects_continue_ = false;
  int error_status_ = 0;
  std::string error_;
};

}  // namespace tutti::gateway
