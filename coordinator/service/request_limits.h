// The limit of every field that a client can send: one list, from which the tests try each at its
// edges. The checks themselves are where the fields are read (request_builder.cc, chat_messages.cc,
// tenant.cc, text/stop_matcher.cc).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tutti::coordinator {

struct RequestFieldLimit {
  enum class Kind {
    kBytes,   // of a string: at most `high`
    kCount,   // entries of a repeated field or a map: at most `high`
    kValue,   // a number in [low, high]; `low_open`: above low
    kTokens,  // a count that with the prompt fits into the served model's context
    kId,      // token ids of the served model's vocabulary; `high` of them at most
    kNamed,   // one of a few words
    kAny,     // every value that its type has
    kNested,  // a message: its fields have limits of their own
  };
  std::string_view field;  // "GenerateRequest.n", as in proto/tutti/v1
  Kind kind;
  double low = 0;
  double high = 0;
  bool low_open = false;
};

std::span<const RequestFieldLimit> RequestFieldLimits();

}  // namespace tutti::coordinator
