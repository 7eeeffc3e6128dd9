// A grammar whose request meets the end of memory anywhere counts for nobody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <string>

#include "coordinator/service/running_grammars.h"
#include "tests/costs/own_memory.h"

namespace tutti::tests {
namespace {

using coordinator::RunningGrammars;
using testing::HasSubstr;

TEST(GrammarMemory, WhatIsNotTakenIsNotCounted) {
  const auto running = std::make_shared<RunningGrammars>(
      RunningGrammars::Limits{.tenant = 1, .tenant_bytes = 10, .all = 1, .all_bytes = 10});
  const Hash128 tenant{.low = 1};
  const std::string digest(100, 'x');
  bool taken = false;
  for (int64_t most = 0; !taken; ++most) {
    try {
      OwnMemory::Allow(most);
      const auto held = running->Add(tenant, digest, 10);
      OwnMemory::Allow(INT64_MAX);
      EXPECT_TRUE(held.ok());
      EXPECT_GT(most, 3);
      taken = true;
    } catch (const std::bad_alloc&) {
      OwnMemory::Allow(INT64_MAX);
      metrics::Exposition text;
      running->Write(&text);
      const std::string written = text.Release();
      EXPECT_THAT(written, HasSubstr("tutti_grammar_requests 0\n")) << most;
      EXPECT_THAT(written, HasSubstr("tutti_grammars 0\n")) << most;
      EXPECT_TRUE(running->Add(tenant, digest, 10).ok()) << most;
    }
  }
}

}  // namespace
}  // namespace tutti::tests
