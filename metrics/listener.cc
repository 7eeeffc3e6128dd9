#include "metrics/listener.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/thread.h"
#include "metrics/exposition.h"
#include "metrics/limits.h"

namespace tutti::metrics {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr char kPlainText[] = "text/plain; charset=utf-8";

using Response = http::response<http::string_body>;

Response MakeResponse(http::status status, const char* type, std::string body) {
  Response response{status, 11};
  response.set(http::field::content_type, type);
  response.set(http::field::cache_control, "no-store");
  response.body() = std::move(body);
  response.keep_alive(false);
  return response;
}

Response Answer(const http::request_header<>& request, const Listener::Scrape& scrape) {
  const std::string target(request.target());
  const std::string path = target.substr(0, target.find('?'));
  const bool known = path == "/metrics" || path == "/healthz";
  const bool reads = request.method() == http::verb::get || request.method() == http::verb::head;
  if (!known)
    return MakeResponse(http::status::not_found, kPlainText, "here are /metrics, /healthz\n");
  if (!reads) {
    Response response =
        MakeResponse(http::status::method_not_allowed, kPlainText, "GET is meant\n");
    response.set(http::field::allow, "GET, HEAD");
    return response;
  }
  if (path == "/healthz") return MakeResponse(http::status::ok, kPlainText, "ok\n");
  return MakeResponse(http::status::ok, kContentType, scrape());
}

// One connection: a head in, an answer out.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, const Listener::Scrape* scrape)
      : stream_(std::move(socket)), scrape_(scrape) {}

  void Start() {
    parser_.header_limit(kHeadBytesMax);
    // It holds for all that follows.
    stream_.expires_after(kConnectionTime);
    http::async_read_header(
        stream_, buffer_, parser_,
        [self = shared_from_this()](error_code error, size_t) { self->OnHead(error); });
  }
  void Abort() { stream_.close(); }

 private:
  void OnHead(error_code error) {
    static const auto& wrong = http::make_error_code(http::error::bad_method).category();
    const bool no_request = error && error.category() == wrong &&
                            error != http::error::end_of_stream &&
                            error != http::error::partial_message;
    if (error && !no_request) return;  // it is gone, or was too slow
    response_ = no_request ? MakeResponse(http::status::bad_request, kPlainText, "no request\n")
                           : Answer(parser_.get(), *scrape_);
    response_.content_length(response_.body().size());
    if (!no_request && parser_.get().method() == http::verb::head) response_.body().clear();
    http::async_write(stream_, response_,
                      [self = shared_from_this()](error_code, size_t) { self->End(); });
  }
  void End() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kHeadBytesMax};
  http::request_parser<http::empty_body> parser_;
  Response response_;
  const Listener::Scrape* const scrape_;
};

absl::StatusOr<tcp::endpoint> ParseEndpoint(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(listen.substr(colon + 1), &port) ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics ", listen, ": write an address and a port, as 127.0.0.1:9100"));
  }
  std::string host = listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "localhost") host = "127.0.0.1";
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (!error) return tcp::endpoint(address, static_cast<uint16_t>(port));
  return absl::InvalidArgumentError(absl::StrCat("--metrics ", listen, ": \"", host,
                                                 "\" is no numeric address, as 127.0.0.1 or ::"));
}

class AsioListener : public Listener {
 public:
  explicit AsioListener(Scrape scrape) : scrape_(std::move(scrape)) {}
  ~AsioListener() override {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Open(const std::string& listen) {
    TUTTI_ASSIGN_OR_RETURN(const tcp::endpoint endpoint, ParseEndpoint(listen));
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(static_cast<int>(kConnectionsMax), error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("--metrics: cannot listen at ", listen, ": ", error.message()));
    }
    const tcp::endpoint at = acceptor_.local_endpoint(error);
    const std::string host = at.address().to_string();
    address_ =
        absl::StrCat(at.address().is_v6() ? absl::StrCat("[", host, "]") : host, ":", at.port());
    Accept();
    thread_ = StartThread("the port of metrics", [this] { loop_.run(); });
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }

 private:
  void Accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (error) return AcceptLater();
      Take(std::move(socket));
      Accept();
    });
  }

  // No descriptor is left, for example.
  void AcceptLater() {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](error_code error) {
      if (!error) Accept();
    });
  }

  void Take(tcp::socket socket) {
    std::erase_if(sessions_, [](const auto& weak) { return weak.expired(); });
    if (sessions_.size() >= kConnectionsMax) {
      if (const auto oldest = sessions_.front().lock()) oldest->Abort();
      sessions_.pop_front();
    }
    const auto session = std::make_shared<Session>(std::move(socket), &scrape_);
    sessions_.push_back(session);
    session->Start();
  }

  const Scrape scrape_;
  asio::io_context loop_{1};
  tcp::acceptor acceptor_{loop_};
  asio::steady_timer pause_{loop_};
  std::string address_;
  std::deque<std::weak_ptr<Session>> sessions_;  // the oldest first
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(const std::string& address,
                                                          Scrape scrape) {
  auto listener = std::make_unique<AsioListener>(std::move(scrape));
  TUTTI_RETURN_IF_ERROR(listener->Open(address));
  return listener;
}

}  // namespace tutti::metrics
