#include "coordinator/service/running_requests.h"

#include <gtest/gtest.h>

namespace tutti::coordinator {
namespace {

TEST(RunningRequestsTest, AreKnownByNameAndTenantUntilTheyEnd) {
  const auto all = std::make_shared<RunningRequests>();
  const RunningRequests::Name name{.owner = {1, 1}, .id = "a"};
  std::shared_ptr<const void> first, second;
  {
    const MutexLock lock(all->mutex());
    EXPECT_FALSE((*all->Find(name, {9, 9})).has_value());
    first = all->Add(name, {.body = {9, 9}, .first = RequestId(5), .outputs = 2, .seed = 3});
    EXPECT_EQ((*all->Find(name, {9, 9}))->first, RequestId(5));
    EXPECT_EQ(all->Find(name, {9, 8}).status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_FALSE((*all->Find({.owner = {1, 2}, .id = "a"}, {9, 8})).has_value());
    EXPECT_FALSE((*all->Find({.owner = {1, 1}, .id = "b"}, {9, 8})).has_value());
    // The second takes the first one's place, and keeps it when the first has ended.
    second = all->Add(name, {.body = {9, 9}, .first = RequestId(7), .outputs = 2, .seed = 3});
  }
  first.reset();
  EXPECT_EQ(all->size(), 1u);
  second.reset();
  EXPECT_EQ(all->size(), 0u);
}

}  // namespace
}  // namespace tutti::coordinator
