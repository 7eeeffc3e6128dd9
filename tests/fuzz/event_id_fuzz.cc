// An id of an event, as a caller may write it: refused, or read and held within what can be. The
// first byte of the input says whether it is the text of an id, or what stands in one: that is
// sealed here, as a checksum would stop every change of it, and the second byte cuts it in two.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/strings/escaping.h"
#include "base/check.h"
#include "gateway/event_id.h"
#include "gateway/limits.h"

namespace {

using tutti::gateway::ApiError;
using tutti::gateway::EventId;

constexpr size_t kOutputs = 2;
constexpr uint64_t kTokensMax = 2048;

// By the rules of gateway/event_id.h.
std::string Seal(std::string_view bytes, size_t at) {
  std::string head(1, '\1');
  head += bytes.substr(0, at);
  std::string tail(bytes.substr(at));
  tutti::gateway::Fnv check;
  check.Add(head);
  check.Add(tail);
  for (int i = 0; i < 4; ++i) tail += static_cast<char>(check.value() >> (8 * i));
  return absl::WebSafeBase64Escape(head) + "." + absl::WebSafeBase64Escape(tail);
}

void Check(const std::string& text) {
  const auto read = tutti::gateway::ParseEventId(text);
  if (const auto* error = std::get_if<ApiError>(&read)) {
    CHECK(error->status == 400);
    CHECK(error->message.size() < 1000);
    return;
  }
  const auto& id = std::get<EventId>(read);
  CHECK(!id.token.empty() && id.token.size() <= text.size());
  CHECK(!id.outputs.empty() && id.outputs.size() <= tutti::gateway::kEventIdOutputsMax);
  CHECK(id.digests.size() == id.outputs.size());
  CHECK(!id.part || id.part->output < id.outputs.size());
  if (CheckClaims(id, kOutputs, kTokensMax)) return;
  // The memory that it makes us hold.
  CHECK(id.outputs.size() == kOutputs);
  for (const auto& output : id.outputs) {
    CHECK(output.tokens <= kTokensMax);
    CHECK(output.bytes <= (kTokensMax + 1) * tutti::gateway::kTokenTextBytesMax);
  }
  CHECK(!id.part || id.part->tokens <= std::min(kTokensMax, tutti::gateway::kMessageTokensMax));
  // What was written of it is read as the same, but for digests, which are only compared.
  const tutti::gateway::EventIdWriter writer(id.name, id.created, id.token);
  const auto again = tutti::gateway::ParseEventId(writer.Write(id.outputs, id.part, id.end_events));
  if (const auto* same = std::get_if<EventId>(&again)) {
    CHECK(same->name == id.name && same->token == id.token && same->part == id.part);
    CHECK(same->outputs.size() == id.outputs.size() && same->end_events == id.end_events);
  } else {
    CHECK(text.size() > tutti::gateway::kEventIdBytesMax / 2);  // numbers written longer than we do
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  Check(data[0] % 2 == 0 ? std::string(bytes) : Seal(bytes, std::min<size_t>(data[1], size - 2)));
  return 0;
}
