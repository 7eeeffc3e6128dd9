#include "metrics/http_call.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tutti::metrics {
namespace {

// The answer's first line.
constexpr size_t kStatusBytes = 12;  // "HTTP/1.1 200"

absl::Status Failed(std::string_view what) {
  return absl::UnavailableError(absl::StrCat(std::string(what), ": ", std::strerror(errno)));
}

// A socket that never blocks, until a deadline.
class Socket {
 public:
  Socket(int fd, Instant deadline) : fd_(fd), deadline_(deadline) {}
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  absl::Status Connect(const sockaddr* to, socklen_t size) {
    if (connect(fd_, to, size) == 0) return absl::OkStatus();
    if (errno != EINPROGRESS) return Failed("connect");
    TUTTI_RETURN_IF_ERROR(Wait(POLLOUT));
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
    errno = error;
    return error == 0 ? absl::OkStatus() : Failed("connect");
  }

  absl::Status Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
        continue;
      }
      if (errno != EAGAIN && errno != EINTR) return Failed("send");
      TUTTI_RETURN_IF_ERROR(Wait(POLLOUT));
    }
    return absl::OkStatus();
  }

  // All that comes until the other end closes.
  absl::StatusOr<std::string> ReceiveAll(size_t bytes_max) {
    std::string bytes;
    char buffer[16 << 10];
    while (true) {
      const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
      if (n == 0) return bytes;
      if (n > 0) {
        bytes.append(buffer, static_cast<size_t>(n));
        if (bytes.size() <= bytes_max) continue;
        return absl::UnavailableError(absl::StrCat("the answer is longer than ", bytes_max));
      }
      if (errno != EAGAIN && errno != EINTR) return Failed("receive");
      TUTTI_RETURN_IF_ERROR(Wait(POLLIN));
    }
  }

  absl::StatusOr<std::string> Receive(size_t size) {
    std::string bytes(size, '\0');
    size_t got = 0;
    while (got < size) {
      const ssize_t n = recv(fd_, bytes.data() + got, size - got, 0);
      if (n > 0) {
        got += static_cast<size_t>(n);
        continue;
      }
      if (n == 0) return absl::UnavailableError("the connection ended before an answer");
      if (errno != EAGAIN && errno != EINTR) return Failed("receive");
      TUTTI_RETURN_IF_ERROR(Wait(POLLIN));
    }
    return bytes;
  }

 private:
  absl::Status Wait(short events) const {
    const Duration left = deadline_ - SystemClock().Now();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
    pollfd waited{.fd = fd_, .events = events, .revents = 0};
    if (ms > 0 && poll(&waited, 1, static_cast<int>(ms)) != 0) return absl::OkStatus();
    return absl::DeadlineExceededError("no answer in time");
  }

  const int fd_;
  const Instant deadline_;
};

// Reads the answer once the request has gone.
using ReadAnswer = std::function<absl::Status(Socket*)>;

absl::Status CallTo(const addrinfo& to, std::string_view request, Instant deadline,
                    const ReadAnswer& read) {
  const int fd =
      socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to.ai_protocol);
  if (fd < 0) return Failed("socket");
  Socket connection(fd, deadline);
  TUTTI_RETURN_IF_ERROR(connection.Connect(to.ai_addr, to.ai_addrlen));
  TUTTI_RETURN_IF_ERROR(connection.Send(request));
  return read(&connection);
}

absl::Status Call(const HttpUrl& url, std::string_view method, std::string_view rest, Duration time,
                  const ReadAnswer& read) {
  const Instant deadline = SystemClock().Now() + time;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found)) {
    return absl::UnavailableError(absl::StrCat(url.host, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> freed(found, &freeaddrinfo);
  const bool is_v6 = url.host.find(':') != std::string::npos;
  const std::string request = absl::StrCat(
      absl::string_view(method.data(), method.size()), " ", url.path,
      " HTTP/1.1\r\nHost: ", is_v6 ? absl::StrCat("[", url.host, "]") : url.host, ":", url.port,
      "\r\nConnection: close\r\n", absl::string_view(rest.data(), rest.size()));
  absl::Status status = absl::UnavailableError(absl::StrCat(url.host, " has no address"));
  for (const addrinfo* to = found; to != nullptr; to = to->ai_next) {
    status = CallTo(*to, request, deadline, read);
    if (status.ok()) break;
  }
  return status;
}

absl::Status Refused(std::string_view answer) {
  return absl::UnavailableError(
      absl::StrCat("the answer begins with \"", std::string(answer.substr(0, kStatusBytes)), "\""));
}

}  // namespace

absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(text), ": write the collector's address as http://HOST:PORT"));
  };
  if (text.substr(0, kScheme.size()) != kScheme) return wrong();
  std::string_view rest = text.substr(kScheme.size());
  HttpUrl url;
  const size_t slash = std::min(rest.find('/'), rest.size());
  url.path = std::string(rest.substr(slash));
  while (!url.path.empty() && url.path.back() == '/') url.path.pop_back();
  rest = rest.substr(0, slash);
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string_view::npos && rest.find(']', colon) == rest.npos;
  url.host = std::string(rest.substr(0, has_port ? colon : rest.size()));
  if (has_port) url.port = std::string(rest.substr(colon + 1));
  if (url.host.size() > 2 && url.host.front() == '[' && url.host.back() == ']') {
    url.host = url.host.substr(1, url.host.size() - 2);
  }
  const bool is_port = !url.port.empty() && url.port.size() <= 5 &&
                       url.port.find_first_not_of("0123456789") == std::string::npos;
  const bool plain = std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) > '~';
  });
  if (url.host.empty() || !is_port || !plain) return wrong();
  return url;
}

absl::Status PostJson(const HttpUrl& url, std::string_view body, Duration time) {
  const std::string rest =
      absl::StrCat("Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n\r\n",
                   absl::string_view(body.data(), body.size()));
  return Call(url, "POST", rest, time, [](Socket* connection) -> absl::Status {
    TUTTI_ASSIGN_OR_RETURN(const std::string status, connection->Receive(kStatusBytes));
    if (absl::StartsWith(status, "HTTP/1.") && status[9] == '2') return absl::OkStatus();
    return Refused(status);
  });
}

absl::StatusOr<std::string> GetText(const HttpUrl& url, size_t bytes_max, Duration time) {
  std::string body;
  TUTTI_RETURN_IF_ERROR(Call(url, "GET", "\r\n", time, [&](Socket* connection) -> absl::Status {
    TUTTI_ASSIGN_OR_RETURN(const std::string answer, connection->ReceiveAll(bytes_max));
    const size_t head = answer.find("\r\n\r\n");
    const bool is_good = answer.size() > kStatusBytes && absl::StartsWith(answer, "HTTP/1.") &&
                         answer.compare(8, 5, " 200 ") == 0 && head != std::string::npos;
    if (!is_good) return Refused(answer);
    // A whole text ends its last line; one that was cut off does not.
    if (answer.back() != '\n') return absl::UnavailableError("the answer was cut off");
    body = answer.substr(head + 4);
    return absl::OkStatus();
  }));
  return body;
}

}  // namespace tutti::metrics
