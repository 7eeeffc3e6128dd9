// Every budget of the coordinator's that callers share, of its limits' tables; the places of
// requests that wait have a test of their own (coordinator/requests/admission_places_test.cc), and
// so have links of peers (transport/grpc/grpc_budget_test.cc).
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/sip_hash.h"
#include "coordinator/limits.h"
#include "coordinator/service/limits.h"
#include "coordinator/service/running_grammars.h"
#include "door/limits.h"
#include "door/shares_testing.h"
#include "door/work_pool.h"
#include "transport/connection_table.h"
#include "transport/descriptor.h"
#include "transport/limits.h"

namespace tutti::coordinator {
namespace {

using door::BytesInShares;
using door::SharedBudget;

constexpr int64_t kLargeRequest = 1 << 20;

// Places before threads that never end.
SharedBudget Places(const std::string& name, door::WorkPool::Threads threads, int64_t places,
                    std::shared_future<void> freed) {
  auto pool = std::make_shared<door::WorkPool>(threads, static_cast<size_t>(places));
  return {name, places, [pool, freed](const std::string& owner) {
            return pool->Submit(
                {.client = owner + ":1", .owner = owner, .bytes = kLargeRequest, .run = [freed] {
                   freed.wait();
                 }});
          }};
}

// Grammars that differ, of so many bytes each.
SharedBudget Grammars(const std::string& name, int64_t total, int64_t bytes) {
  struct Held {
    std::shared_ptr<RunningGrammars> running = std::make_shared<RunningGrammars>(
        RunningGrammars::Limits{.tenant = kTenantGrammarsMax,
                                .tenant_bytes = kTenantGrammarBytesMax,
                                .all = kGrammarsMax,
                                .all_bytes = kGrammarBytesMax});
    std::vector<std::shared_ptr<const void>> taken;
  };
  auto held = std::make_shared<Held>();
  return {name, total, [held, bytes](const std::string& owner) {
            const Hash128 tenant{std::hash<std::string>()(owner), 0};
            auto one = held->running->Add(tenant, std::to_string(held->taken.size()), bytes);
            if (one.ok()) held->taken.push_back(*std::move(one));
            return one.ok();
          }};
}

SharedBudget Connections(const std::string& name, const transport::ConnectionBounds& bounds) {
  struct Held {
    explicit Held(const transport::ConnectionBounds& of) : table(of) {}
    transport::ConnectionTable table;
    std::vector<transport::Descriptor> sockets;
  };
  auto held = std::make_shared<Held>(bounds);
  return {name, bounds.total,
          [held](const std::string& owner) {
            if (!held->table.HasRoom() || !held->table.HasRoomFor(owner)) return false;
            held->sockets.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
            held->table.Add(held->sockets.back().get(), owner);
            return true;
          },
          /*is_for_two=*/true};
}

TEST(CoordinatorShares, AGreedyCallerIsRefusedBeforeItsNeighbour) {
  std::promise<void> free;
  const std::shared_future<void> freed = free.get_future().share();
  // As many descriptors as a process has at least.
  constexpr int64_t kDescriptors = 1024;
  const std::vector<SharedBudget> all = {
      BytesInShares("requests under way and unread output", door::kDoorBytesMax, 1 << 20),
      Places("requests to be read", {.small = 1, .medium = 2, .large = 2}, kMailboxEventsMax,
             freed),
      Places("grammars to be made", {.any = 1}, kPatientRequestsMax, freed),
      Grammars("grammars", kGrammarsMax, 1),
      Grammars("bytes of grammars", kGrammarBytesMax >> 16, 1 << 16),
      Connections("the public port", transport::PublicPortBounds(kDescriptors)),
      Connections("the peers' port", transport::PeerPortBounds(kDescriptors)),
  };
  door::WalkBudgets(all, "10.0.0.7", "10.0.0.8", "10.0.0.9");
  free.set_value();  // before their threads end
}

}  // namespace
}  // namespace tutti::coordinator
