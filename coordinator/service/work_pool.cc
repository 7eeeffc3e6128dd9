#include "coordinator/service/work_pool.h"

#include <utility>

namespace tutti::coordinator {

WorkPool::WorkPool(int num_threads, size_t capacity) {
  for (int i = 0; i < num_threads; ++i) {
    queues_.push_back(std::make_unique<Mailbox<std::function<void()>>>(capacity));
    threads_.emplace_back([queue = queues_.back().get()] { Run(queue); });
  }
}

WorkPool::~WorkPool() {
  for (auto& queue : queues_) queue->Close();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkPool::Submit(std::function<void()> work) {
  return queues_[next_++ % queues_.size()]->TryPost(std::move(work));
}

void WorkPool::Run(Mailbox<std::function<void()>>* queue) {
  std::vector<std::function<void()>> items;
  while (queue->Drain(kInstantNever, &items)) {
    for (auto& work : items) work();
  }
}

}  // namespace tutti::coordinator
