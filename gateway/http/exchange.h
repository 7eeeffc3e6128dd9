// One request of a client, and the way back to it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gateway/http/message.h"

namespace tutti::gateway {

// Thread: the server's loop.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual HttpRequest& request() = 0;

  // The whole answer. Of calls of Reply and Begin the first counts.
  virtual void Reply(HttpResponse response) = 0;
  // An answer whose body comes in pieces, each of which is sent at once; `response.body` is the
  // first.
  virtual void Begin(HttpResponse response) = 0;
  virtual void Write(std::string piece) = 0;
  virtual void End() = 0;

  // Called once if the client goes, or takes what is written too slowly, before the answer's end;
  // at once if it has gone.
  virtual void OnGone(std::function<void()> gone) = 0;
};

// Answers requests, on the server's loop; must not block.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual void Handle(std::shared_ptr<Exchange> exchange) = 0;
  // What is said of the head of a request whose body is still to come.
  struct Verdict {
    std::optional<HttpResponse> refusal;  // its body is not read, and the connection ends with this
    std::string owner;                    // who pays for the body
  };
  virtual Verdict Judge(const HttpRequest& head) { return {.owner = head.peer.account}; }
  // Every kTick.
  virtual void OnTick() {}
};

}  // namespace tutti::gateway
