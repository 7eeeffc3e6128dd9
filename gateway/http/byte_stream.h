// The bytes of one connection, encrypted or not.
//
// Thread: the loop's.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <functional>
#include <memory>

namespace tutti::gateway {

class ByteStream {
 public:
  using Done = std::function<void(boost::system::error_code, size_t)>;

  virtual ~ByteStream() = default;
  // Makes it ready for the others.
  virtual void Handshake(std::function<void(boost::system::error_code)> done) = 0;
  // One of each at a time.
  virtual void Read(boost::asio::mutable_buffer to, Done done) = 0;
  virtual void Write(boost::asio::const_buffer from, Done done) = 0;  // all of it
  // Says that nothing more is written; the client may still write.
  virtual void CloseForWriting() = 0;
  // The work that is under way ends with an error.
  virtual void Close() = 0;
};

// `tls` null: not encrypted; else it outlives the stream.
std::unique_ptr<ByteStream> MakeByteStream(boost::asio::ip::tcp::socket socket,
                                           boost::asio::ssl::context* tls);

}  // namespace tutti::gateway
