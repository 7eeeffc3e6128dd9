// The port for people who watch: the page at "/", and under /tutti/ the JSON that feeds it.
//
//   GET /tutti/status     tutti.v1.GetStatusResponse, as `tutti status --json` prints it
//   GET /tutti/requests   this gateway's figures and the requests under way
//   GET /tutti/live       both, and what has changed, each second as server-sent events
//
// Thread: the server's loop, unless said otherwise.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gateway/door_rules.h"
#include "gateway/http/server.h"
#include "gateway/service/caller.h"
#include "gateway/service/status_feed.h"
#include "gateway/service/traffic.h"

namespace tutti::gateway {

class Console {
 public:
  Console(std::vector<StatusFeed::Ask> asks, const Clock* clock);
  // Called before any request.  Thread: the one that makes it.
  void set_server(HttpServer* server);
  // Nothing is posted to the server any more.  Thread: the one that made it.
  void Stop() { feed_.Stop(); }

  // Answers a request for one of its paths; false for others.
  bool Handle(const DoorRules& rules, const Caller& caller);
  // Ends what is watched; new watchers are refused.
  void EndAll();

  Traffic* traffic() { return &traffic_; }

 private:
  struct Watcher {
    std::shared_ptr<Exchange> exchange;
    int64_t since = 0;  // the first second that it has not been told of
  };

  void AnswerStatus(const Caller& caller);
  void AnswerRequests(const Caller& caller);
  void AnswerLive(const Caller& caller);
  void Tick(const StatusLook& look);
  std::string Event(const StatusLook* look, Watcher* watcher) const;

  HttpServer* server_ = nullptr;
  Traffic traffic_;
  bool ending_ = false;
  uint64_t watchers_made_ = 0;
  std::map<uint64_t, Watcher> watchers_;
  StatusFeed feed_;
};

}  // namespace tutti::gateway
