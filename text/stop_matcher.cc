#include "text/stop_matcher.h"

#include <deque>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace tutti::text {

absl::StatusOr<StopMatcher> StopMatcher::Create(const std::vector<std::string>& stops,
                                                bool include_stop) {
  if (stops.size() > kStopStringsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop: has ", stops.size(), " strings, at most ", kStopStringsMax));
  }
  StopMatcher matcher;
  matcher.include_stop_ = include_stop;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty() || stops[i].size() > kStopStringBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("stop[", i, "]: has ", stops[i].size(),
                                                     " bytes, not 1 to ", kStopStringBytesMax));
    }
    if (const auto invalid = FindInvalidUtf8(stops[i]); invalid.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("stop[", i, "]: not valid UTF-8 at byte ", *invalid));
    }
    matcher.AddStop(stops[i], static_cast<int>(i));
  }
  matcher.LinkFallbacks();
  return matcher;
}

void StopMatcher::AddStop(std::string_view stop, int index) {
  uint32_t state = 0;
  for (const char byte : stop) {
    const auto [edge, inserted] =
        edges_.emplace(Edge(state, byte), static_cast<uint32_t>(states_.size()));
    if (inserted) states_.push_back({.fallback = 0, .depth = states_[state].depth + 1, .stop = -1});
    state = edge->second;
  }
  if (states_[state].stop < 0) states_[state].stop = index;  // of equal ones, the first
  stop_bytes_.push_back(stop.size());
}

// Breadth first, so that the fallback of a state is final before those of its children are found.
void StopMatcher::LinkFallbacks() {
  struct Child {
    uint32_t state;
    char byte;
  };
  std::vector<std::vector<Child>> children(states_.size());
  for (const auto& [edge, child] : edges_) {
    children[edge >> 8].push_back({child, static_cast<char>(edge & 0xFF)});
  }
  std::deque<uint32_t> queue = {0};
  while (!queue.empty()) {
    const uint32_t parent = queue.front();
    queue.pop_front();
    for (const Child& child : children[parent]) {
      State& state = states_[child.state];
      state.fallback = parent == 0 ? 0 : Step(states_[parent].fallback, child.byte);
      if (state.stop < 0) state.stop = states_[state.fallback].stop;
      queue.push_back(child.state);
    }
  }
}

uint32_t StopMatcher::Step(uint32_t state, char byte) const {
  while (true) {
    const auto edge = edges_.find(Edge(state, byte));
    if (edge != edges_.end()) return edge->second;
    if (state == 0) return 0;
    state = states_[state].fallback;
  }
}

StopMatcher::Result StopMatcher::Push(std::string_view text, bool may_stop) {
  Result result;
  if (stopped_) return result;
  held_.append(text);
  if (stop_bytes_.empty()) {
    result.text.swap(held_);
    return result;
  }
  for (size_t i = held_.size() - text.size(); i < held_.size(); ++i) {
    state_ = Step(state_, held_[i]);
    if (states_[state_].stop < 0 || !may_stop) continue;
    stopped_ = true;
    result.stop = states_[state_].stop;
    const size_t end = i + 1;
    result.text = held_.substr(0, include_stop_ ? end : end - stop_bytes_[result.stop]);
    held_.clear();
    return result;
  }
  const size_t ready = held_.size() - states_[state_].depth;
  result.text = held_.substr(0, ready);
  held_.erase(0, ready);
  return result;
}

std::string StopMatcher::Finish() {
  std::string text;
  text.swap(held_);
  state_ = 0;
  return text;
}

}  // namespace tutti::text
