#include "gateway/http/server.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "door/door.h"
#include "gateway/http/connection.h"
#include "gateway/http/server_tls.h"
#include "spdlog/spdlog.h"
#include "transport/listening_sockets.h"

namespace tutti::gateway {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// "host:port", "[::1]:port".
absl::StatusOr<tcp::endpoint> ParseEndpoint(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  std::string host = listen.substr(0, colon);
  uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(listen.substr(colon + 1), &port) ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", listen, ": write an address and a port, such as 127.0.0.1:8000"));
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "localhost") host = "127.0.0.1";
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", listen, ": ", host, " is no numeric address"));
  }
  return tcp::endpoint(address, static_cast<uint16_t>(port));
}

error_code Listen(const tcp::endpoint& endpoint, tcp::acceptor* acceptor) {
  error_code error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    error_code ignored;
    acceptor->close(ignored);
  }
  return error;
}

// Bounds what the system keeps of a connection, and has it ask after silent clients. An option that
// is refused changes nothing else.
void SetOptions(tcp::socket* socket) {
  error_code ignored;
  socket->set_option(tcp::no_delay(true), ignored);
  socket->set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  socket->set_option(asio::socket_base::keep_alive(true), ignored);
  const std::pair<int, int> probes[] = {{TCP_KEEPIDLE, kProbeAfterSeconds},
                                        {TCP_KEEPINTVL, kProbeEverySeconds},
                                        {TCP_KEEPCNT, kProbes}};
  for (const auto& [option, value] : probes) {
    setsockopt(socket->native_handle(), IPPROTO_TCP, option, &value, sizeof(value));
  }
}

HttpPeer PeerOf(tcp::socket* socket) {
  error_code error;
  const tcp::endpoint end = socket->remote_endpoint(error);
  auto address = end.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return {.account = transport::AccountOf(socket->native_handle()),
          .is_local = !error && address.is_loopback()};
}

class AsioServer : public HttpServer {
 public:
  AsioServer(const ServerOptions& options, std::unique_ptr<ServerTls> tls, HttpHandler* handler,
             const Clock* clock)
      : options_(options),
        most_(options.connections_max),
        most_of_account_(std::max<int64_t>(1, most_ - most_ / kOthersConnectionsDivisor)),
        tls_(std::move(tls)),
        acceptor_(loop_),
        tick_(loop_) {
    context_.handler = handler;
    context_.clock = clock;
    context_.budget = options.budget;
    context_.handshakes = &handshakes_;
    context_.idle_time = options.idle_time;
  }
  ~AsioServer() override {
    for (const auto& connection : connections_) connection->Abort();
  }

  absl::Status Open() {
    TUTTI_ASSIGN_OR_RETURN(tcp::endpoint endpoint, ParseEndpoint(options_.listen));
    error_code error = Listen(endpoint, &acceptor_);
    const int first = endpoint.port();
    const int tries = options_.or_next_port && first != 0 ? kNextPortsMax : 0;
    for (int i = 1; i <= tries && error == asio::error::address_in_use; ++i) {
      if (first + i > 65535) break;
      endpoint.port(static_cast<uint16_t>(first + i));
      error = Listen(endpoint, &acceptor_);
    }
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("--listen: cannot listen at ", options_.listen, ": ", error.message(),
                       error == asio::error::address_in_use
                           ? "; another process listens there: end it, or choose another port (0: "
                             "any free one)"
                           : ""));
    }
    const tcp::endpoint at = acceptor_.local_endpoint(error);
    const std::string host = at.address().to_string();
    address_ =
        absl::StrCat(at.address().is_v6() ? absl::StrCat("[", host, "]") : host, ":", at.port());
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }

  void Run() override {
    Accept();
    Tick();
    // Requests end within their memory, each by itself; what is lost beside that was of nobody.
    while (!door::WithinMemory([this] {
              loop_.run();
              return absl::OkStatus();
            }).ok()) {
      spdlog::warn("there is no memory left");
    }
  }

  // Whoever posts has nobody to tell that there is no memory: others give it back.
  void Post(std::function<void()> job) override {
    std::shared_ptr<std::function<void()>> shared;
    const auto post = [&] {
      if (shared == nullptr) shared = std::make_shared<std::function<void()>>(std::move(job));
      asio::post(loop_, [shared] { (*shared)(); });
      return absl::OkStatus();
    };
    while (!door::WithinMemory(post).ok()) std::this_thread::sleep_for(door::kMemoryPause);
  }

  void Drain() override {
    context_.draining = true;
    for (const auto& connection : Connections()) connection->CloseIfIdle();
  }

  int64_t exchanges() const override { return context_.exchanges; }
  int64_t read_bytes() const override { return context_.read_bytes; }
  int64_t evicted() const override { return evicted_; }
  int64_t held_bytes() const override { return context_.budget->held(); }

  void Stop() override {
    error_code ignored;
    acceptor_.close(ignored);
    for (const auto& connection : Connections()) connection->Abort();
    connections_.clear();
    of_account_.clear();
    loop_.stop();
  }

 private:
  // A copy: what is done to them may end some.
  std::vector<std::shared_ptr<Connection>> Connections() const {
    return {connections_.begin(), connections_.end()};
  }

  void Accept() {
    accepting_ = true;
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      accepting_ = false;
      if (error == asio::error::operation_aborted) return;
      // No descriptor is left, for example: the next tick tries again.
      if (error) return;
      Take(std::move(socket));
      Accept();
    });
  }

  // Where there is no place, others make way: of the newcomer's own account, where that has as many
  // as one may, else of the account that has most.
  void Take(tcp::socket socket) {
    SetOptions(&socket);
    HttpPeer peer = PeerOf(&socket);
    const auto is_full = [&] { return static_cast<int64_t>(connections_.size()) >= most_; };
    const auto has_all = [&] { return of_account_[peer.account] >= most_of_account_; };
    if (is_full() || has_all()) Sweep();
    if (has_all()) MakeWay(peer.account);
    if (is_full()) MakeWay(GreediestAccount());
    // All are at something: the newcomer is closed.
    if (is_full() || has_all()) return ForgetAccount(peer.account);
    auto connection = std::make_shared<Connection>(MakeByteStream(std::move(socket), tls_.get()),
                                                   std::move(peer), &context_);
    ++of_account_[connection->account()];
    connections_.insert(connection);
    connection->Start();
  }

  const std::string& GreediestAccount() const {
    return std::max_element(of_account_.begin(), of_account_.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }

  // Ends those of an account that make way before others (Connection::Standing), of one kind the
  // longest first. A hundredth of them, so that not every newcomer of a flood costs a look at all;
  // and where none was found, nobody looks again for a moment.
  void MakeWay(const std::string& account) {
    const Instant now = context_.clock->Now();
    if (now < next_look_) return;
    using Found = std::pair<Connection::Stands, std::shared_ptr<Connection>>;
    std::vector<Found> found;
    for (const auto& connection : connections_) {
      if (connection->closed() || connection->account() != account) continue;
      const Connection::Stands stands = connection->StandsAt(now);
      if (stands.as != Connection::Standing::kBusy) found.emplace_back(stands, connection);
    }
    if (found.empty()) next_look_ = now + kLookAgainAfter;
    const size_t count = std::min(found.size(), found.size() / 100 + 1);
    const auto end = found.begin() + static_cast<std::ptrdiff_t>(count);
    std::partial_sort(found.begin(), end, found.end(), [](const Found& a, const Found& b) {
      return std::pair(a.first.as, a.first.since) < std::pair(b.first.as, b.first.since);
    });
    for (auto it = found.begin(); it != end; ++it) {
      it->second->Abort();
      Forget(it->second);
      connections_.erase(it->second);
      ++evicted_;
    }
  }

  void Forget(const std::shared_ptr<Connection>& connection) {
    --of_account_[connection->account()];
    ForgetAccount(connection->account());
  }
  void ForgetAccount(const std::string& account) {
    const auto found = of_account_.find(account);
    if (found != of_account_.end() && found->second == 0) of_account_.erase(found);
  }

  void Sweep() {
    std::erase_if(connections_, [this](const auto& connection) {
      if (!connection->closed()) return false;
      Forget(connection);
      return true;
    });
  }

  void Tick() {
    tick_.expires_after(kTick);
    tick_.async_wait([this](error_code error) {
      if (error) return;
      Tick();
      const Instant now = context_.clock->Now();
      for (const auto& connection : Connections()) connection->CheckTime(now);
      Sweep();
      context_.handler->OnTick();
      if (!accepting_) Accept();
    });
  }

  const ServerOptions options_;
  const int64_t most_, most_of_account_;  // connections
  ConnectionContext context_;
  const std::unique_ptr<ServerTls> tls_;  // null: none
  HandshakeGate handshakes_{kHandshakesMax};
  asio::io_context loop_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer tick_;
  bool accepting_ = false;
  std::string address_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  std::map<std::string, int64_t> of_account_;  // how many of them
  Instant next_look_{};
  int64_t evicted_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Create(const ServerOptions& options,
                                                               HttpHandler* handler,
                                                               const Clock* clock) {
  TUTTI_ASSIGN_OR_RETURN(auto tls, ServerTls::Open(options.tls_certificate, options.tls_key));
  auto server = std::make_unique<AsioServer>(options, std::move(tls), handler, clock);
  TUTTI_RETURN_IF_ERROR(server->Open());
  return server;
}

absl::Status CheckListen(const std::string& listen) { return ParseEndpoint(listen).status(); }

}  // namespace tutti::gateway
