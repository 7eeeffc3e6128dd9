#include "gateway/service/generations.h"

namespace tutti::gateway {

void Generations::Add(const std::shared_ptr<Generation>& generation) {
  std::erase_if(all_, [](const auto& other) { return other.expired(); });
  all_.push_back(generation);
}

void Generations::Tick(Instant now) {
  for (const auto& weak : all_) {
    if (const auto generation = weak.lock()) generation->Tick(now);
  }
}

void Generations::EndAll(const ApiError& why) {
  for (const auto& weak : all_) {
    if (const auto generation = weak.lock()) generation->End(why);
  }
}

}  // namespace tutti::gateway
