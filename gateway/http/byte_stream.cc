#include "gateway/http/byte_stream.h"

#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <utility>

namespace tutti::gateway {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}

  bool needs_handshake() const override { return false; }
  void WaitReadable(std::function<void(error_code)> done) override {
    socket_.async_wait(asio::ip::tcp::socket::wait_read, std::move(done));
  }
  void Handshake(std::function<void(error_code)> done) override { done({}); }
  void Read(asio::mutable_buffer to, Done done) override {
    socket_.async_read_some(to, std::move(done));
  }
  void Write(asio::const_buffer from, Done done) override {
    asio::async_write(socket_, from, std::move(done));
  }
  void CloseForWriting() override {
    error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  }
  void Close() override {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  asio::ip::tcp::socket socket_;
};

class TlsStream : public ByteStream {
 public:
  TlsStream(asio::ip::tcp::socket socket, ServerTls* tls) : socket_(std::move(socket)), tls_(tls) {}

  bool needs_handshake() const override { return true; }
  void WaitReadable(std::function<void(error_code)> done) override {
    socket_.async_wait(asio::ip::tcp::socket::wait_read, std::move(done));
  }
  void Handshake(std::function<void(error_code)> done) override {
    stream_.emplace(socket_, *tls_->Current());
    stream_->async_handshake(asio::ssl::stream_base::server, std::move(done));
  }
  void Read(asio::mutable_buffer to, Done done) override {
    stream_->async_read_some(to, std::move(done));
  }
  void Write(asio::const_buffer from, Done done) override {
    asio::async_write(*stream_, from, std::move(done));
  }
  // Bodies have a length or chunks: what is cut off is seen without TLS's own farewell.
  void CloseForWriting() override {
    error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  }
  void Close() override {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  asio::ip::tcp::socket socket_;
  ServerTls* const tls_;
  std::optional<asio::ssl::stream<asio::ip::tcp::socket&>> stream_;  // since the handshake
};

}  // namespace

std::unique_ptr<ByteStream> MakeByteStream(asio::ip::tcp::socket socket, ServerTls* tls) {
  if (tls == nullptr) return std::make_unique<PlainStream>(std::move(socket));
  return std::make_unique<TlsStream>(std::move(socket), tls);
}

}  // namespace tutti::gateway
