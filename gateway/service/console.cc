#include "gateway/service/console.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "gateway/limits.h"
#include "gateway/page_files.h"

namespace tutti::gateway {
namespace {

// The page may load and ask its own server, and nobody else; nobody may frame it.
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for "
    "'script'";

void AddGuards(HttpFields* fields) {
  fields->insert(fields->end(), {{"X-Content-Type-Options", "nosniff"},
                                 {"Referrer-Policy", "no-referrer"},
                                 {"Cross-Origin-Resource-Policy", "same-origin"}});
}

void AnswerFile(const PageFile& file, const Caller& caller) {
  const bool is_known = caller.exchange->request().Field("if-none-match") == file.tag;
  HttpResponse response = caller.Head(is_known ? 304 : 200);
  response.content_type = std::string(file.content_type);
  AddGuards(&response.fields);
  response.fields.insert(response.fields.end(), {{"Content-Security-Policy", kContentPolicy},
                                                 {"Cross-Origin-Opener-Policy", "same-origin"},
                                                 {"X-Frame-Options", "DENY"},
                                                 {"Cache-Control", "no-cache"},
                                                 {"ETag", std::string(file.tag)}});
  if (!is_known) response.body = std::string(file.body);
  caller.exchange->Reply(std::move(response));
}

void ReplyUnseen(const Caller& caller, std::string body) {
  HttpResponse response = caller.Head(200);
  AddGuards(&response.fields);
  response.fields.emplace_back("Cache-Control", "no-store");
  response.body = std::move(body);
  caller.exchange->Reply(std::move(response));
}

ApiError NotNow(std::string_view why) {
  ApiError error = Unavailable(why);
  error.retry_after = kLivePeriod;
  return error;
}

}  // namespace

Console::Console(std::vector<StatusFeed::Ask> asks, const Clock* clock)
    : traffic_(clock), feed_(std::move(asks), clock) {}

void Console::set_server(HttpServer* server) {
  server_ = server;
  feed_.OnTick([this](std::shared_ptr<const StatusLook> look) {
    server_->Post([this, look = std::move(look)] { Tick(*look); });
  });
}

bool Console::Handle(const DoorRules& rules, const Caller& caller) {
  const HttpRequest& request = caller.exchange->request();
  const auto files = PageFiles();
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const PageFile& one) { return one.path == request.path; });
  const bool is_file = file != files.end();
  if (!is_file && !absl::StartsWith(request.path, "/tutti/")) return false;
  if (is_file) {
    // A page of others must not show it as theirs.
    const auto admitted = Admit(rules, request, /*open=*/rules.keys.has_value());
    if (const auto* error = std::get_if<ApiError>(&admitted)) {
      caller.ReplyError(*error);
      return true;
    }
  } else if (const auto refused = AdmitOperator(rules, request)) {
    caller.ReplyError(*refused);
    return true;
  }
  if (request.method != "GET" && request.method != "HEAD") {
    Caller told = caller;
    told.fields.emplace_back("Allow", "GET, HEAD");
    told.ReplyError(MakeError(405, "this path takes GET"));
    return true;
  }
  if (is_file) {
    AnswerFile(*file, caller);
  } else if (request.path == "/tutti/status") {
    AnswerStatus(caller);
  } else if (request.path == "/tutti/requests") {
    AnswerRequests(caller);
  } else if (request.path == "/tutti/live") {
    AnswerLive(caller);
  } else {
    return false;
  }
  return true;
}

void Console::AnswerStatus(const Caller& caller) {
  const bool taken = feed_.Get([server = server_, caller](std::shared_ptr<const StatusLook> look) {
    server->Post([caller, look = std::move(look)] {
      if (look->error.empty()) return ReplyUnseen(caller, look->json);
      caller.ReplyError(NotNow(absl::StrCat("the service does not say its state: ", look->error)));
    });
  });
  if (!taken) caller.ReplyError(NotNow("too many ask for the state of the service"));
}

void Console::AnswerRequests(const Caller& caller) {
  ReplyUnseen(caller, Dump({{"traffic", traffic_.Summary()}, {"requests", traffic_.UnderWay()}}));
}

void Console::AnswerLive(const Caller& caller) {
  if (ending_) return caller.ReplyError(NotNow("this gateway is about to end"));
  if (watchers_.size() >= kWatchersMax) {
    return caller.ReplyError(NotNow(absl::StrCat("more than ", kWatchersMax, " watch already")));
  }
  HttpResponse head = caller.Head(200);
  head.content_type = "text/event-stream; charset=utf-8";
  AddGuards(&head.fields);
  head.fields.emplace_back("Cache-Control", "no-store");
  head.fields.emplace_back("X-Accel-Buffering", "no");
  if (caller.exchange->request().method == "HEAD") return caller.exchange->Reply(std::move(head));
  const uint64_t number = ++watchers_made_;
  Watcher watcher{.exchange = caller.exchange};
  head.body = Event(nullptr, &watcher);
  caller.exchange->OnGone([this, number] {
    watchers_.erase(number);
    feed_.SetWatchers(watchers_.size());
  });
  caller.exchange->Begin(std::move(head));
  watchers_.emplace(number, std::move(watcher));
  feed_.SetWatchers(watchers_.size());
}

std::string Console::Event(const StatusLook* look, Watcher* watcher) const {
  const double now = traffic_.now();
  OrderedJson json = {{"t", now},
                      {"build", std::string(BuildStamp())},
                      {"watchers", watchers_.size()},
                      {"traffic", traffic_.Summary()},
                      {"requests", traffic_.UnderWay()},
                      {"seconds", traffic_.History(watcher->since)}};
  watcher->since = static_cast<int64_t>(now);
  if (look != nullptr && !look->error.empty()) json["status_error"] = look->error;
  std::string text = Dump(json);
  if (look != nullptr && look->error.empty()) {
    // It is JSON already.
    text.pop_back();
    absl::StrAppend(&text, ",\"status\":", look->brief, "}");
  }
  return absl::StrCat("data: ", text, "\n\n");
}

void Console::Tick(const StatusLook& look) {
  // A write may find a reader too slow, who is then gone from the map.
  std::vector<uint64_t> numbers;
  numbers.reserve(watchers_.size());
  for (const auto& [number, watcher] : watchers_) numbers.push_back(number);
  for (const uint64_t number : numbers) {
    const auto found = watchers_.find(number);
    if (found == watchers_.end()) continue;
    const auto exchange = found->second.exchange;
    exchange->Write(Event(&look, &found->second));
  }
}

void Console::EndAll() {
  ending_ = true;
  const auto watchers = std::exchange(watchers_, {});
  for (const auto& [number, watcher] : watchers) watcher.exchange->End();
  feed_.SetWatchers(0);
}

}  // namespace tutti::gateway
