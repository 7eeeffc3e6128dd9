#include <gtest/gtest.h>

#include <new>
#include <string>

#include "door/door.h"

namespace tutti::door {
namespace {

// As a request that asks for more than there is.
absl::Status AskForTooMuch() {
  return WithinMemory([] {
    std::string much;
    much.reserve(static_cast<size_t>(1) << 46);
    return absl::OkStatus();
  });
}

TEST(WithinMemory, ARequestThatHasNoneEndsAndOthersGoOn) {
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

}  // namespace
}  // namespace tutti::door
