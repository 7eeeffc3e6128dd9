// counted_costs CASE N: the operations of one case with N members, for costs_test.py.
//
// A case prepares, then calls Counted once with the work whose operations are asked for, and says
// by how many units of work they are divided. Allocations are counted by own_memory.h, instructions
// by Valgrind, which counts inside of Counted alone.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/synthetic_cluster.h"
#include "coordinator/kv/kv_directory.h"
#include "door/byte_budget.h"
#include "door/fair_queue.h"
#include "tests/costs/own_memory.h"

// The name that costs_test.py gives to Valgrind.
extern "C" [[gnu::noinline]] void Counted(const std::function<void()>& work) {
  tutti::tests::OwnMemory::BeginCounting();
  work();
  tutti::tests::OwnMemory::EndCounting();
}

namespace tutti::tests {
namespace {

using bench::SyntheticCluster;
using coordinator::RequestArrived;

constexpr int32_t kPipelines = 64;

// Requests that arrive at once.
int64_t Burst(int32_t n, const std::function<void(RequestArrived*)>& change) {
  SyntheticCluster cluster({.pipelines = kPipelines, .sequences = n});
  std::vector<coordinator::Event> requests = cluster.NewRequests(n, change);
  Counted([&] { cluster.Arrive(std::move(requests)); });
  return n;
}
int64_t BurstOfOneTenant(int32_t n) { return Burst(n, nullptr); }
int64_t BurstOfManyTenants(int32_t n) {
  uint64_t owner = 0;
  return Burst(n, [&owner](RequestArrived* one) { one->request.owner = {1, ++owner}; });
}
int64_t BurstOfOutputs(int32_t n) {
  SyntheticCluster cluster({.pipelines = kPipelines, .sequences = n});
  std::vector<coordinator::Event> requests = cluster.NewRequests(n / 8, [](RequestArrived* one) {
    one->request.first_output = one->request.id;
    for (uint64_t output = 1; output < 8; ++output) {
      one->others.push_back(one->request);
      one->others.back().id = RequestId(one->request.id.value() + output);
    }
  });
  Counted([&] { cluster.Arrive(std::move(requests)); });
  return n / 8 * 8;
}

// Most of them find no place.
int64_t BurstOfWaiting(int32_t n) {
  SyntheticCluster cluster({.pipelines = kPipelines, .sequences = n, .running = 4});
  std::vector<coordinator::Event> requests = cluster.NewRequests(n);
  Counted([&] { cluster.Arrive(std::move(requests)); });
  return n;
}

// Tokens of sequences that all generate.
int64_t Generate(int32_t n) {
  SyntheticCluster cluster({.pipelines = kPipelines, .sequences = n});
  cluster.Arrive(cluster.NewRequests(n));
  cluster.WarmUp();
  int64_t tokens = 0;
  Counted([&] {
    for (int step = 0; step < 4 * kPipelines; ++step) tokens += cluster.DoStep().tokens;
  });
  return tokens;
}

// Tokens of steps of pipelines on each of which one owner has all sequences but one.
int64_t GenerateInTurns(int32_t n) {
  constexpr int32_t kFewPipelines = 8, kSteps = 64 * kFewPipelines, kRowsMax = 16;
  SyntheticCluster cluster({.pipelines = kFewPipelines, .sequences = n, .row_us = 1000});
  int32_t before = 0;
  cluster.Arrive(cluster.NewRequests(n, [&before](RequestArrived* one) {
    one->request.owner.low = before++ < kFewPipelines ? 1 : 2;
  }));
  // Where steps are short, prompts take many.
  for (int times = 0; times < 12; ++times) cluster.WarmUp();
  int64_t tokens = 0;
  Counted([&] {
    for (int step = 0; step < kSteps; ++step) tokens += cluster.DoStep().tokens;
  });
  if (tokens > kRowsMax * kSteps) std::abort();  // nobody takes turns
  return tokens;
}

// Tokens of a few sequences that generate while the others wait, and come in as answers end.
int64_t GenerateWhileOthersWait(int32_t n) {
  SyntheticCluster cluster(
      {.pipelines = kPipelines, .sequences = n, .running = 4, .output_tokens = 8});
  cluster.Arrive(cluster.NewRequests(n));
  int64_t tokens = 0;
  for (int step = 0; step < 16 * kPipelines; ++step) tokens += cluster.DoStep().tokens;
  tokens = 0;
  Counted([&] {
    for (int step = 0; step < 16 * kPipelines; ++step) tokens += cluster.DoStep().tokens;
  });
  return tokens;
}

// Clients leave, of whom most have no place yet.
int64_t Cancel(int32_t n) {
  SyntheticCluster cluster({.pipelines = kPipelines, .sequences = n, .running = 4});
  cluster.Arrive(cluster.NewRequests(n));
  Counted([&] {
    for (int32_t i = 1; i <= n; ++i) {
      cluster.Handle(coordinator::RequestCancelled{RequestId(i)});
      if (i % 16 == 0) cluster.Advance();
    }
    cluster.Advance();
  });
  return n;
}

// Deadlines that pass, one after the other, before a worker is missed.
int64_t Deadlines(int32_t n) {
  SyntheticCluster cluster({.pipelines = kPipelines, .sequences = n, .running = 4});
  constexpr Duration kApart = std::chrono::microseconds(20);
  Instant deadline = cluster.now();
  cluster.Arrive(cluster.NewRequests(
      n, [&](RequestArrived* one) { one->request.deadline = deadline += kApart; }));
  Counted([&] {
    for (int32_t i = 0; i < 500; ++i) {
      cluster.MoveTime(kApart);
      cluster.Advance();
    }
  });
  return 500;
}

// One of the pipelines loses a worker, and its sequences go on elsewhere.
int64_t LoseWorker(int32_t n) {
  SyntheticCluster cluster({.pipelines = kPipelines, .sequences = n});
  cluster.Arrive(cluster.NewRequests(n));
  cluster.WarmUp();
  Counted([&] {
    cluster.Handle(coordinator::WorkerLost{SyntheticCluster::LinkOf(0, 0, 2),
                                           absl::UnavailableError("it has gone")});
    cluster.Advance();
  });
  return n / kPipelines;
}

// What a look at the state costs the engine's thread.
int64_t Status(int32_t n) {
  SyntheticCluster cluster({.pipelines = kPipelines, .sequences = n});
  cluster.Arrive(cluster.NewRequests(n));
  cluster.WarmUp();
  v1::GetStatusResponse status;
  Counted([&] { cluster.engine().FillStatus(cluster.now(), &status); });
  return 1;
}

constexpr int32_t kBlockTokens = 16;
constexpr int32_t kChainBlocks = 8;

std::vector<TokenId> Chain(int32_t chain) {
  std::vector<TokenId> tokens(kChainBlocks * kBlockTokens, static_cast<TokenId>(chain));
  tokens[0] = 7;
  return tokens;
}

// A directory with n blocks in chains, and one call for each chain of `visited` of them.
class Directory {
 public:
  explicit Directory(int32_t n)
      : chains_(n / kChainBlocks),
        directory_({.key = {1, 2},
                    .model_fingerprint = "m",
                    .dtype = "bf16",
                    .block_size = kBlockTokens}) {
    for (uint32_t pipeline = 0; pipeline < 4; ++pipeline) {
      directory_.OpenPipeline(PipelineId(pipeline), n + kChainBlocks * kVisited);
    }
  }

  void Publish(int32_t chain) {
    const std::vector<TokenId> tokens = Chain(chain);
    const PipelineId pipeline(chain % 4);
    std::optional<BlockId> parent;
    for (int32_t at = 0; at < kChainBlocks; ++at) {
      const BlockId block(chain * kChainBlocks + at);
      directory_.Publish(pipeline, {3, 4}, parent, block,
                         std::span(tokens).subspan(at * kBlockTokens, kBlockTokens));
      parent = block;
    }
  }
  void Forget(int32_t chain) {
    for (int32_t at = kChainBlocks - 1; at >= 0; --at) {
      directory_.Forget(PipelineId(chain % 4), BlockId(chain * kChainBlocks + at));
    }
  }
  size_t Find(int32_t chain) const {
    const std::vector<TokenId> tokens = Chain(chain);
    return directory_.LongestPerPipeline({3, 4}, tokens).size() +
           directory_.Lookup({3, 4}, tokens, PipelineId(chain % 4)).size();
  }
  void PublishAll() {
    for (int32_t chain = 0; chain < chains_; ++chain) Publish(chain);
  }
  int32_t chains() const { return chains_; }

  static constexpr int32_t kVisited = 100;

 private:
  const int32_t chains_;
  coordinator::KvDirectory directory_;
};

int64_t DirectoryChanges(int32_t n) {
  Directory directory(n);
  directory.PublishAll();
  Counted([&] {
    for (int32_t chain = 0; chain < Directory::kVisited; ++chain) {
      directory.Publish(directory.chains() + chain);
    }
    for (int32_t chain = 0; chain < Directory::kVisited; ++chain) directory.Forget(chain);
  });
  return int64_t{2} * Directory::kVisited * kChainBlocks;
}

int64_t DirectoryLookups(int32_t n) {
  Directory directory(n);
  directory.PublishAll();
  size_t found = 0;
  Counted([&] {
    for (int32_t chain = 0; chain < Directory::kVisited; ++chain) found += directory.Find(chain);
  });
  if (found != Directory::kVisited * (1 + kChainBlocks)) std::abort();
  return int64_t{2} * Directory::kVisited * kChainBlocks;
}

// Work of a thousandth of the hosts, where all have some that waits.
int64_t FairTurns(int32_t n) {
  door::FairQueue queue;
  const auto push = [&queue](int32_t host) {
    const std::string name = absl::StrCat("host ", host), connection = absl::StrCat(host % 7);
    const std::string_view path[] = {name, connection};
    queue.Push(path, {.bytes = 100 + host % 1000, .run = [] {}});
  };
  for (int32_t host = 0; host < n; ++host) push(host);
  Counted([&] {
    for (int32_t i = 0; i < 500; ++i) {
      queue.Pop(i % 2 == 0 ? door::FairQueue::kSmall : door::FairQueue::kLarge).run();
      push(i);
    }
  });
  return 500;
}

// Bytes of one client, where others hold some.
int64_t BudgetCharges(int32_t n) {
  door::ByteBudget budget(int64_t{1} << 40);
  std::vector<door::ByteBudget::Charge> others;
  for (int32_t client = 0; client < n; ++client) {
    others.push_back(*budget.Take(absl::StrCat("client ", client), 1000));
  }
  Counted([&] {
    for (int32_t i = 0; i < 500; ++i) {
      door::ByteBudget::Charge charge = *budget.Take("another", 1000);
      if (!charge.Resize(2000)) std::abort();
    }
  });
  return 500;
}

// What costs_test.py must find: each of a hundred walks over all.
int64_t PlantedWalk(int32_t n) {
  std::vector<int64_t> members(n, 1);
  int64_t sum = 0;
  Counted([&] {
    for (int32_t i = 0; i < 100; ++i) {
      for (const int64_t member : members) sum += member;
    }
  });
  if (sum != int64_t{100} * n) std::abort();
  return 100;
}
// And memory that each takes for all.
int64_t PlantedMemory(int32_t n) {
  size_t sum = 0;
  Counted([&] {
    for (int32_t i = 0; i < 100; ++i) {
      std::map<int32_t, int32_t> members;
      for (int32_t member = 0; member < n / 100; ++member) members.emplace(member, i);
      sum += members.size();
    }
  });
  if (sum == 0) std::abort();
  return 100;
}

const std::map<std::string_view, int64_t (*)(int32_t)> kCases = {
    {"planted-walk", PlantedWalk},
    {"planted-memory", PlantedMemory},
    {"burst-of-one-tenant", BurstOfOneTenant},
    {"burst-of-many-tenants", BurstOfManyTenants},
    {"burst-of-outputs", BurstOfOutputs},
    {"burst-of-waiting", BurstOfWaiting},
    {"generate", Generate},
    {"generate-in-turns", GenerateInTurns},
    {"generate-while-others-wait", GenerateWhileOthersWait},
    {"cancel", Cancel},
    {"deadlines", Deadlines},
    {"lose-worker", LoseWorker},
    {"status", Status},
    {"directory-changes", DirectoryChanges},
    {"directory-lookups", DirectoryLookups},
    {"fair-turns", FairTurns},
    {"budget-charges", BudgetCharges},
};

}  // namespace
}  // namespace tutti::tests

int main(int argc, char** argv) {
  const auto& cases = tutti::tests::kCases;
  int32_t n = 0;
  const auto found = argc == 3 ? cases.find(argv[1]) : cases.end();
  if (found == cases.end() || !absl::SimpleAtoi(argv[2], &n) || n < 64 || n > 50'000) {
    std::fprintf(stderr, "usage: counted_costs CASE N, with N of 64 to 50000; the cases:\n");
    for (const auto& [name, run] : cases) std::fprintf(stderr, "  %s\n", std::string(name).c_str());
    return 2;
  }
  const int64_t units = found->second(n);
  std::printf("{\"units\": %ld, \"allocations\": %ld}\n", static_cast<long>(units),
              static_cast<long>(tutti::tests::OwnMemory::counted()));
  return 0;
}
