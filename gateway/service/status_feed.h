// The state of the service as JSON, for any number of watchers at the price of one: it is asked for
// on a thread of its own, when somebody wants it, and kept for kStatusAge.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "client/client.h"

namespace tutti::gateway {

// One look. Both are forms of tutti.v1.GetStatusResponse by protobuf's JSON printer.
struct StatusLook {
  Instant at{};
  std::string json;   // every field, as `tutti status --json` prints it
  std::string brief;  // without those of no value
  std::string error;  // why there is none; empty: there is
};

// Thread: any.
class StatusFeed {
 public:
  using Done = std::function<void(std::shared_ptr<const StatusLook>)>;
  // How a coordinator's operator's port is asked, which may block.
  using Ask = std::function<absl::StatusOr<v1::GetStatusResponse>(client::CancelToken*)>;

  // A way to ask for each of the coordinators that one of `options` names: by `admins`, addresses
  // of operators' ports with commas between them, or, where that is empty, the socket of each
  // public address that is on this machine.
  static absl::StatusOr<std::vector<Ask>> MakeAsks(const client::ClientOptions& options,
                                                   const std::string& admins);

  // Asks them in turn until one answers, beginning with the last that did.
  StatusFeed(std::vector<Ask> asks, const Clock* clock);
  ~StatusFeed();

  // A look that is not older than kStatusAge, soon, on the feed's thread. False when too many wait.
  bool Get(Done done);
  // Calls `tick` with a look every kLivePeriod while there are watchers, on the feed's thread.
  // Before the first SetWatchers.
  void OnTick(Done tick);
  // A change from none to some: the first tick comes at once.
  void SetWatchers(size_t count);
  // After it, nothing is called.
  void Stop();

 private:
  void Run();
  std::shared_ptr<const StatusLook> Look();

  const std::vector<Ask> asks_;
  const Clock* const clock_;
  client::CancelToken cancel_;
  size_t preferred_ = 0;                    // of asks_; the thread's
  std::shared_ptr<const StatusLook> last_;  // the thread's

  Mutex mutex_;
  ConditionVariable changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  size_t watchers_ ABSL_GUARDED_BY(mutex_) = 0;
  Instant next_tick_ ABSL_GUARDED_BY(mutex_){};
  std::vector<Done> waiting_ ABSL_GUARDED_BY(mutex_);
  Done tick_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tutti::gateway
