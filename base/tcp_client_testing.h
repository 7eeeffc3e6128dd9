// Support for tests of servers: a client's end of one TCP connection to this machine.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"

namespace tutti {

class TcpClient {
 public:
  // Connects to the port of `address`.  `from`: an address of this machine.
  explicit TcpClient(const std::string& address, const char* from = "127.0.0.1")
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, from, &own.sin_addr);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    to.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~TcpClient() { Close(); }
  TcpClient(const TcpClient&) = delete;
  TcpClient& operator=(const TcpClient&) = delete;

  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Sends until the other end takes no more, or has closed already.
  void SendWhatGoes(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<size_t>(n);
    }
  }
  // Reads until what came ends with `end`, or the connection does.
  std::string Read(const std::string& end) {
    std::string all;
    char piece[4096];
    while (end.empty() || !all.ends_with(end)) {
      const ssize_t n = recv(fd_, piece, sizeof(piece), 0);
      if (n <= 0) return all;
      all.append(piece, static_cast<size_t>(n));
    }
    return all;
  }
  std::string ReadAll() { return Read(""); }
  // Reads past the next `text`; false: the connection ended before.
  bool ReadPast(const std::string& text) {
    char piece[4096];
    for (size_t at = came_.find(text); at == std::string::npos; at = came_.find(text)) {
      const ssize_t n = recv(fd_, piece, sizeof(piece), 0);
      if (n <= 0) return false;
      came_.append(piece, static_cast<size_t>(n));
    }
    came_.erase(0, came_.find(text) + text.size());
    return true;
  }

 private:
  int fd_;
  std::string came_;  // of ReadPast
};

}  // namespace tutti
