// The deepest templates that are accepted fit a small stack.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "text/jinja/jinja_testing.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

using testing::HasSubstr;

std::string Repeated(std::string_view piece, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += piece;
  return out;
}

// `make(n)` for the largest n that is accepted.
std::string Deepest(const std::function<std::string(int)>& make) {
  int n = kTemplateDepthMax;
  while (n > 0 && ParseError(make(n)) != "accepted") --n;
  return make(n);
}

// The rendering of `source` on a thread whose stack is smaller than any that servers get.
std::string RenderOnSmallStack(const std::string& source) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t kStackBytes = 16 << 20;  // their frames are many times larger
#else
  constexpr size_t kStackBytes = 2 << 20;
#endif
  struct Job {
    const std::string& source;
    std::string result;
  } job{source, ""};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstacksize(&attributes, kStackBytes) == 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    auto* job = static_cast<Job*>(argument);
    const auto text = Render(job->source);
    job->result = text.ok() ? std::string(text->bytes()) : std::string(text.status().message());
    return nullptr;
  };
  CHECK(pthread_create(&thread, &attributes, run, &job) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  return job.result;
}

std::string NestedIfs(int n) {
  return Repeated("{% if 1 %}", n) + "x" + Repeated("{% endif %}", n);
}

// A block takes one level, an expression two: the condition of the innermost if needs three.
TEST(NestingTest, AllButTheLastLevelsAreForBlocks) {
  EXPECT_EQ(ParseError(NestedIfs(kTemplateDepthMax - 3)), "accepted");
  EXPECT_THAT(ParseError(NestedIfs(kTemplateDepthMax)), HasSubstr("nests deeper"));
}

TEST(NestingTest, TheDeepestTemplatesFitTheStack) {
  EXPECT_EQ(RenderOnSmallStack(Deepest(NestedIfs)), "x");
  EXPECT_EQ(RenderOnSmallStack(Deepest([](int n) {
              return Repeated("{% for i in [1] %}", n) + "x" + Repeated("{% endfor %}", n);
            })),
            "x");
  EXPECT_EQ(RenderOnSmallStack(Deepest([](int n) {
              return "{{ " + Repeated("(1 + ", n) + "0" + Repeated(")", n) + " > 9 }}";
            })),
            "True");
  EXPECT_EQ(RenderOnSmallStack(Deepest(
                [](int n) { return "{{ " + Repeated("[", n) + Repeated("]", n) + "|length }}"; })),
            "1");
}

// A macro that calls itself inside nested blocks, as deep as it is let.
TEST(NestingTest, TheDeepestMacrosFitTheStack) {
  for (const int blocks : {1, 20, kTemplateDepthMax - 6}) {
    const std::string source =
        absl::StrCat("{% macro m() %}", Repeated("{% if 1 %}", blocks), "{{ m() }}",
                     Repeated("{% endif %}", blocks), "{% endmacro %}{{ m() }}");
    EXPECT_THAT(RenderOnSmallStack(source), HasSubstr("nested more than")) << blocks;
  }
}

}  // namespace
}  // namespace tutti::text::jinja
