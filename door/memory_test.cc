#include <gtest/gtest.h>

#include <new>
#include <string>
#include <string_view>

#include "door/door.h"

namespace tutti::door {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kThrowsBadAlloc = false;
#else
constexpr bool kThrowsBadAlloc = true;
#endif

// As a request that asks for more than there is.
absl::Status AskForTooMuch() {
  return WithinMemory([] {
    std::string much;
    much.reserve(static_cast<size_t>(1) << 46);
    return absl::OkStatus();
  });
}

TEST(WithinMemory, ARequestThatHasNoneEndsAndOthersGoOn) {
  if (!kThrowsBadAlloc) GTEST_SKIP() << "a sanitizer ends the process itself";
  EXPECT_FALSE(MemoryScope::IsInside());
  EXPECT_EQ(AskForTooMuch().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(MemoryScope::IsInside());
  const auto handler = std::get_new_handler();
  WaitForMemory();
  // At once, as before.
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(AskForTooMuch().code(), absl::StatusCode::kResourceExhausted);
  }
  std::set_new_handler(handler);
}

TEST(WithinMemory, WhatNobodyHasThoughtOfEndsItsRequest) {
  const absl::Status status = WithinMemory(
      [] { return absl::InternalError(std::string(std::string_view("abc").substr(4))); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(std::string(status.message()).find("a fault of the service"), std::string::npos);
  EXPECT_FALSE(MemoryScope::IsInside());
}

}  // namespace
}  // namespace tutti::door
