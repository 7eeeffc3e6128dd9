// Clients and strangers that do what is allowed, or almost, to take a service away from others.
// Each keeps one kind of load up until it is told to stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tutti::tests {

struct AttackTargets {
  std::string address;                      // of the public port
  std::vector<std::string> peer_addresses;  // of ports that take links
};

// The deeds of one attacker, and the answers to them.
struct AttackCount {
  std::atomic<int64_t> tries{0};
  // Counts by status, "OK" included. Thread: the attacker's own, until it has ended.
  std::map<std::string, int64_t> ends;
};

// An attack until `stop`: returns when it is set.
using Attack =
    std::function<void(const AttackTargets&, const std::atomic<bool>& stop, AttackCount*)>;

struct NamedAttack {
  std::string name;
  int threads;  // that do it at once
  Attack attack;
};

// The attacks by name:
//   wide      n = 64 at temperature 100
//   long      n = 64 of a prompt of 45,009 tokens
//   heavy     prompts of 4 MB text, all at once
//   nested    8 MiB of empty nested messages
//   unread    answers that nobody reads
//   half      requests of which the second half never comes
//   flood     frames before hello on peers' ports
std::vector<NamedAttack> AllAttacks();
// As many threads of ordinary requests as the given attacks have together.
std::vector<NamedAttack> OrdinaryInsteadOf(const std::vector<NamedAttack>& attacks);

// Runs attacks on threads of its own from Start to Stop.
class Attackers {
 public:
  explicit Attackers(AttackTargets targets) : targets_(std::move(targets)) {}
  ~Attackers() { Stop(); }
  void Start(const std::vector<NamedAttack>& attacks);
  void Stop();
  // Counts by attack, then by status. REQUIRES: stopped
  std::map<std::string, std::map<std::string, int64_t>> Ends() const;

 private:
  const AttackTargets targets_;
  std::atomic<bool> stop_{false};
  std::vector<std::pair<std::string, std::unique_ptr<AttackCount>>> counts_;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::tests
