#include "gateway/event_id.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/plain_name.h"
#include "gateway/limits.h"
#include "gateway/service_error.h"

namespace tutti::gateway {
namespace {

constexpr char kVersion = 1;
constexpr size_t kHexNameBytes = 32;
constexpr size_t kCheckBytes = 4;

bool IsHexName(std::string_view name) {
  return name.size() == kHexNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Seven bits a byte, the lowest first; the highest bit says that more follow.
void AppendVarint(uint64_t number, std::string* out) {
  for (; number >= 0x80; number >>= 7) out->push_back(static_cast<char>(number | 0x80));
  out->push_back(static_cast<char>(number));
}

void AppendFixed(uint64_t number, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) out->push_back(static_cast<char>(number >> (8 * i)));
}

void AppendText(std::string_view text, std::string* out) {
  AppendVarint(text.size(), out);
  out->append(text);
}

// Takes from the front; what is not there makes it bad.
class Taker {
 public:
  explicit Taker(std::string_view bytes) : rest_(bytes) {}

  uint64_t Varint() {
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = Bytes(1);
      if (byte.empty()) return 0;
      number |= static_cast<uint64_t>(byte[0] & 0x7f) << shift;
      if ((byte[0] & 0x80) == 0) return number;
    }
    good_ = false;
    return 0;
  }
  uint64_t Fixed(size_t count) {
    uint64_t number = 0;
    const std::string_view bytes = Bytes(count);
    for (size_t i = 0; i < bytes.size(); ++i) {
      number |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return number;
  }
  std::string_view Bytes(uint64_t count) {
    if (count > rest_.size()) good_ = false;
    if (!good_) return {};
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  bool good() const { return good_; }
  bool at_end() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

void TakeHead(Taker* taker, EventId* id) {
  id->created = static_cast<int64_t>(taker->Varint());
  const uint64_t size = taker->Varint();
  if (size == 0) {
    const std::string_view packed = taker->Bytes(kHexNameBytes / 2);
    id->name = absl::BytesToHexString({packed.data(), packed.size()});
  } else {
    id->name = std::string(taker->Bytes(size));
  }
  id->token = std::string(taker->Bytes(taker->Varint()));
}

void TakePositions(Taker* taker, EventId* id) {
  const uint64_t count = taker->Varint();
  for (uint64_t i = 0; i < count && taker->good(); ++i) {
    OutputPosition& output = id->outputs.emplace_back();
    const uint64_t tokens = taker->Varint();
    output.tokens = tokens >> 1;
    output.finished = (tokens & 1) != 0;
    output.bytes = taker->Varint();
    id->digests.push_back(output.tokens > 0 ? taker->Fixed(8) : Fnv().value());
  }
  id->end_events = taker->Varint();
  const uint64_t part_of = taker->Varint();
  if (part_of == 0) return;
  PartOfMessage& part = id->part.emplace();
  part.output = part_of - 1;
  const uint64_t tokens = taker->Varint();
  part.tokens = tokens >> 1;
  part.finishes = (tokens & 1) != 0;
  part.bytes = taker->Varint();
  part.events = taker->Varint();
}

ApiError Foreign() {
  return BadRequest(kLastEventId, absl::StrCat(kLastEventId,
                                               " is no id of an event of this service, or has been "
                                               "changed; send the request without it"));
}

}  // namespace

EventIdWriter::EventIdWriter(std::string_view name, int64_t created, std::string_view token) {
  std::string bytes(1, kVersion);
  AppendVarint(static_cast<uint64_t>(std::max<int64_t>(created, 0)), &bytes);
  if (IsHexName(name)) {
    AppendVarint(0, &bytes);
    bytes += absl::HexStringToBytes({name.data(), name.size()});
  } else {
    AppendText(name, &bytes);
  }
  AppendText(token, &bytes);
  check_.Add(bytes);
  prefix_ = absl::WebSafeBase64Escape(bytes) + ".";
}

std::string EventIdWriter::Write(const std::vector<OutputPosition>& outputs,
                                 const std::optional<PartOfMessage>& part,
                                 uint64_t end_events) const {
  std::string bytes;
  AppendVarint(outputs.size(), &bytes);
  for (const OutputPosition& output : outputs) {
    AppendVarint(output.tokens << 1 | (output.finished ? 1 : 0), &bytes);
    AppendVarint(output.bytes, &bytes);
    if (output.tokens > 0) AppendFixed(output.digest.value(), 8, &bytes);
  }
  AppendVarint(end_events, &bytes);
  AppendVarint(part ? part->output + 1 : 0, &bytes);
  if (part) {
    AppendVarint(part->tokens << 1 | (part->finishes ? 1 : 0), &bytes);
    AppendVarint(part->bytes, &bytes);
    AppendVarint(part->events, &bytes);
  }
  Fnv check = check_;
  check.Add(bytes);
  AppendFixed(check.value(), kCheckBytes, &bytes);
  return prefix_ + absl::WebSafeBase64Escape(bytes);
}

std::variant<EventId, ApiError> ParseEventId(std::string_view text) {
  const size_t dot = text.find('.');
  std::string head, tail;
  if (text.size() > kEventIdBytesMax || dot == std::string_view::npos ||
      !absl::WebSafeBase64Unescape({text.data(), dot}, &head) ||
      !absl::WebSafeBase64Unescape({text.data() + dot + 1, text.size() - dot - 1}, &tail) ||
      tail.size() < kCheckBytes || head.empty() || head[0] != kVersion) {
    return Foreign();
  }
  const std::string_view positions = std::string_view(tail).substr(0, tail.size() - kCheckBytes);
  Fnv check;
  check.Add(head);
  check.Add(positions);
  std::string expected;
  AppendFixed(check.value(), kCheckBytes, &expected);
  if (expected != tail.substr(positions.size())) return Foreign();
  EventId id;
  Taker of_head(std::string_view(head).substr(1)), of_tail(positions);
  TakeHead(&of_head, &id);
  TakePositions(&of_tail, &id);
  if (!of_head.at_end() || !of_tail.at_end() || !IsPlainName(id.name) || id.token.empty() ||
      id.outputs.empty() || id.outputs.size() > kEventIdOutputsMax ||
      (id.part && id.part->output >= id.outputs.size())) {
    return Foreign();
  }
  return id;
}

std::optional<ApiError> CheckClaims(const EventId& id, size_t outputs, uint64_t tokens_max) {
  const auto can_be = [tokens_max](uint64_t tokens, uint64_t bytes, uint64_t tokens_most) {
    return tokens <= std::min(tokens_max, tokens_most) && bytes / kTokenTextBytesMax <= tokens;
  };
  bool good = id.outputs.size() == outputs;
  for (const OutputPosition& output : id.outputs) {
    good = good && can_be(output.tokens, output.bytes, tokens_max);
  }
  if (id.part) good = good && can_be(id.part->tokens, id.part->bytes, kMessageTokensMax);
  if (good) return std::nullopt;
  return BadRequest(kLastEventId,
                    absl::StrCat(kLastEventId,
                                 " says that its answer has more than this request can make; send "
                                 "it with the request that the answer is of, or without"));
}

}  // namespace tutti::gateway
