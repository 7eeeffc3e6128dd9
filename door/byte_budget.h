// Bytes that the door holds for clients, and how much of them one client may have.
//
// A client may hold as much as is free: alone half of the budget, with k others the (k + 2)th part,
// and as much again always stays free for one that comes new. So no fixed share is set, and no
// number of greedy clients shuts out a modest one.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace tutti::door {

class ByteBudget {
 public:
  // Bytes charged to a client until this is destroyed. Moves; the default holds nothing.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept;
    Charge& operator=(Charge&& other) noexcept;
    ~Charge();

    int64_t bytes() const { return bytes_; }
    // Charges more or less from now on. Less is always granted; false, with nothing changed, where
    // more is not.  REQUIRES: made by ByteBudget::Take
    bool Resize(int64_t bytes);

   private:
    friend class ByteBudget;
    Charge(ByteBudget* budget, std::string client, int64_t bytes)
        : budget_(budget), client_(std::move(client)), bytes_(bytes) {}

    ByteBudget* budget_ = nullptr;
    std::string client_;
    int64_t bytes_ = 0;
  };

  // REQUIRES: outlives its charges
  explicit ByteBudget(int64_t total) : total_(total) {}

  // Nothing when the client may not have so many now.
  std::optional<Charge> Take(const std::string& client, int64_t bytes);

  int64_t held() const;

 private:
  bool Change(const std::string& client, int64_t by);

  const int64_t total_;
  mutable Mutex mutex_;
  int64_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  // The bytes of those that hold anything.
  std::map<std::string, int64_t> held_by_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::door
