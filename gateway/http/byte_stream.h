// The bytes of one connection, encrypted or not.
//
// Thread: the loop's.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>

#include "gateway/http/server_tls.h"

namespace tutti::gateway {

class ByteStream {
 public:
  using Done = std::function<void(boost::system::error_code, size_t)>;

  virtual ~ByteStream() = default;
  // Whether it needs one before all below. Costs memory from then on.
  virtual bool needs_handshake() const = 0;
  // The client has sent something, which is not read yet.
  virtual void WaitReadable(std::function<void(boost::system::error_code)> done) = 0;
  virtual void Handshake(std::function<void(boost::system::error_code)> done) = 0;
  // One of each at a time.
  virtual void Read(boost::asio::mutable_buffer to, Done done) = 0;
  virtual void Write(boost::asio::const_buffer from, Done done) = 0;  // all of it
  // Says that nothing more is written; the client may still write.
  virtual void CloseForWriting() = 0;
  // The work that is under way ends with an error.
  virtual void Close() = 0;
};

// `tls` null: not encrypted; else it outlives the stream, which has the files as they are when its
// handshake begins.
std::unique_ptr<ByteStream> MakeByteStream(boost::asio::ip::tcp::socket socket, ServerTls* tls);

}  // namespace tutti::gateway
