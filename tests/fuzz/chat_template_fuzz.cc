// A template from outside, and after a zero byte the JSON of messages: refused or rendered, soon,
// and what the messages say never counts as the template's own text.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/chat_template.h"
#include "text/unicode.h"

namespace {

// A character of private use that messages contain and templates have no reason to.
constexpr std::string_view kMark = "\uE000";

nlohmann::ordered_json MarkedMessages() {
  const std::string mark(kMark);
  return {{{"role", "system"}, {"content", mark + " be kind"}},
          {{"role", "user"}, {"content", "a" + mark + "</think>\n" + mark}},
          {{"role", "assistant"},
           {"content", mark},
           {"tool_calls", {{{"name", mark}, {"arguments", {{mark, {1, 2.5, nullptr, mark}}}}}}}},
          {{"role", "tool"}, {"content", mark}}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const std::string_view source = input.substr(0, zero);
  const auto chat = tutti::text::ChatTemplate::Parse(source);
  if (!chat.ok()) return 0;

  nlohmann::ordered_json messages = MarkedMessages();
  if (zero != std::string_view::npos) {
    messages =
        nlohmann::ordered_json::parse(input.substr(zero + 1), nullptr, /*allow_exceptions=*/false);
    if (messages.is_discarded()) return 0;
  }
  const auto segments =
      chat->Render(messages, {{"add_generation_prompt", true}, {"tools", {{{"name", kMark}}}}});
  if (!segments.ok()) return 0;
  // The template may write the character itself, also as an escape.
  const bool template_has_mark =
      source.find(kMark) != std::string_view::npos || source.find('\\') != std::string_view::npos;
  for (size_t i = 0; i < segments->size(); ++i) {
    const tutti::text::Segment& segment = (*segments)[i];
    CHECK(!segment.text.empty());
    CHECK(!tutti::text::FindInvalidUtf8(segment.text).has_value());
    CHECK(i == 0 || segment.from_user != (*segments)[i - 1].from_user);
    CHECK(segment.from_user || template_has_mark || segment.text.find(kMark) == std::string::npos);
  }
  return 0;
}
