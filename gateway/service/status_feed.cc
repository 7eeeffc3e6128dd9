#include "gateway/service/status_feed.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include "absl/strings/str_split.h"
#include "base/thread.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

std::string Printed(const v1::GetStatusResponse& status, bool all) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = all;
  options.preserve_proto_field_names = true;
  std::string json;
  // Fails for kinds of messages that a status has none of.
  if (!google::protobuf::util::MessageToJsonString(status, &json, options).ok()) json = "{}";
  return json;
}

}  // namespace

absl::StatusOr<std::vector<StatusFeed::Ask>> StatusFeed::MakeAsks(
    const client::ClientOptions& options, const std::string& admins) {
  std::vector<Ask> asks;
  for (const absl::string_view address :
       absl::StrSplit(admins.empty() ? options.address : admins, ',', absl::SkipEmpty())) {
    client::ClientOptions one = options;
    (admins.empty() ? one.address : one.admin) = std::string(address);
    TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<client::Client> client, client::Client::Create(one));
    asks.emplace_back([client](client::CancelToken* cancel) {
      return client->GetStatus({.timeout = kStatusTimeout, .cancel = cancel});
    });
  }
  return asks;
}

StatusFeed::StatusFeed(std::vector<Ask> asks, const Clock* clock)
    : asks_(std::move(asks)),
      clock_(clock),
      thread_(StartThread("the state of the cluster", [this] { Run(); })) {}

StatusFeed::~StatusFeed() { Stop(); }

void StatusFeed::Stop() {
  {
    const MutexLock lock(&mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  cancel_.Cancel();
  if (thread_.joinable()) thread_.join();
}

bool StatusFeed::Get(Done done) {
  const MutexLock lock(&mutex_);
  if (ending_ || waiting_.size() >= kStatusWaitersMax) return false;
  waiting_.push_back(std::move(done));
  changed_.NotifyAll();
  return true;
}

void StatusFeed::OnTick(Done tick) {
  const MutexLock lock(&mutex_);
  tick_ = std::move(tick);
}

void StatusFeed::SetWatchers(size_t count) {
  const MutexLock lock(&mutex_);
  if (watchers_ == 0) next_tick_ = clock_->Now();
  watchers_ = count;
  changed_.NotifyAll();
}

std::shared_ptr<const StatusLook> StatusFeed::Look() {
  if (last_ != nullptr && clock_->Now() < last_->at + kStatusAge) return last_;
  auto look = std::make_shared<StatusLook>();
  look->error = "no coordinator is known to ask";
  for (size_t tried = 0; tried < asks_.size(); ++tried) {
    const auto status = asks_[preferred_](&cancel_);
    if (status.ok()) {
      look->error.clear();
      look->json = Printed(*status, true);
      look->brief = Printed(*status, false);
      break;
    }
    look->error = std::string(status.status().message());
    preferred_ = (preferred_ + 1) % asks_.size();
  }
  look->at = clock_->Now();
  last_ = look;
  return look;
}

void StatusFeed::Run() {
  while (true) {
    std::vector<Done> told;
    {
      const MutexLock lock(&mutex_);
      while (!ending_ && waiting_.empty() && (watchers_ == 0 || clock_->Now() < next_tick_)) {
        changed_.WaitUntil(&mutex_, watchers_ == 0 ? kInstantNever : next_tick_);
      }
      if (ending_) return;
      told = std::exchange(waiting_, {});
      if (watchers_ > 0 && clock_->Now() >= next_tick_) {
        next_tick_ = clock_->Now() + kLivePeriod;
        if (tick_ != nullptr) told.push_back(tick_);
      }
    }
    const auto look = Look();
    for (const Done& done : told) done(look);
  }
}

}  // namespace tutti::gateway
