#include "coordinator/service/work_pool.h"

#include <algorithm>
#include <utility>

#include "coordinator/limits.h"

namespace tutti::coordinator {

WorkPool::WorkPool(int num_threads, size_t capacity) : capacity_(capacity) {
  for (int i = 0; i < num_threads; ++i) {
    const bool small_only = i == 0 && num_threads > 1;
    threads_.emplace_back([this, small_only] { Run(small_only); });
  }
}

WorkPool::~WorkPool() {
  {
    const MutexLock lock(&mutex_);
    closed_ = true;
    ready_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

bool WorkPool::Submit(Work work) {
  const MutexLock lock(&mutex_);
  if (closed_) return false;
  Client* const client = FindLocked(work.client);
  const size_t has = client->small.size() + client->large.size();
  if (waiting_ >= capacity_ || has >= capacity_ - waiting_) return false;
  without_.erase(client);
  if (has == 0) client->begun = std::max(client->begun, turn_);
  with_any_.insert(client);
  if (work.bytes <= kSmallRequestBytes) {
    with_small_.insert(client);
    client->small.push_back(std::move(work));
  } else {
    client->large.push_back(std::move(work));
  }
  ++waiting_;
  ready_.NotifyAll();  // not every thread takes it
  return true;
}

WorkPool::Client* WorkPool::FindLocked(const std::string& name) {
  std::unique_ptr<Client>& client = clients_[name];
  if (client == nullptr) {
    client = std::make_unique<Client>();
    client->name = name;
    client->begun = turn_;
    without_.insert(client.get());
  }
  return client.get();
}

// A client without work that is level with the others is as good as a new one.
void WorkPool::ForgetLocked() {
  while (!without_.empty() &&
         (waiting_ == 0 || (*without_.begin())->begun <= turn_ || without_.size() > capacity_)) {
    Client* const client = *without_.begin();
    without_.erase(without_.begin());
    clients_.erase(client->name);
  }
}

std::function<void()> WorkPool::NextLocked(bool small_only) {
  const Turns& turns = small_only ? with_small_ : with_any_;
  if (turns.empty()) return nullptr;
  Client* const client = *turns.begin();
  const auto waiting_clients = static_cast<int64_t>(with_any_.size());
  with_small_.erase(client);
  with_any_.erase(client);
  std::deque<Work>& queue = client->small.empty() ? client->large : client->small;
  Work work = std::move(queue.front());
  queue.pop_front();
  --waiting_;
  const int64_t cost = work.bytes + kRequestCostBytes;
  turn_ = std::max(turn_, client->begun) + (cost + waiting_clients - 1) / waiting_clients;
  client->begun += cost;
  if (!client->small.empty()) with_small_.insert(client);
  if (!client->small.empty() || !client->large.empty()) {
    with_any_.insert(client);
  } else {
    without_.insert(client);
  }
  ForgetLocked();
  return std::move(work.run);
}

void WorkPool::Run(bool small_only) {
  while (true) {
    std::function<void()> run;
    {
      const MutexLock lock(&mutex_);
      while ((run = NextLocked(small_only)) == nullptr) {
        // What is large is left to the other threads.
        if (closed_) return;
        ready_.Wait(&mutex_);
      }
    }
    run();
  }
}

}  // namespace tutti::coordinator
