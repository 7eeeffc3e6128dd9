// What the service says of a request, in the words of OpenAI's API.
//
// Pure.  Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gateway/api_error.h"

namespace tutti::gateway {

// The field of a request's head that says where its stream goes on (event_id.h).
inline constexpr char kLastEventId[] = "Last-Event-ID";

// The door that a request came through: the service names fields of its own API.
struct FieldNames {
  bool chat = false;
  bool prompt_is_list = false;  // of prompts; the request at fault is `prompt_index`
  size_t prompt_index = 0;
  std::string max_tokens = "max_tokens";  // as this client wrote it
  std::string messages = "messages";      // the list of them
  // Of what the answer may be: the schema, expression, texts or rules.
  std::string grammar = {};
  // Where rules that were made of several fields are one of them: the byte, and the field.
  std::vector<std::pair<size_t, std::string>> grammar_parts = {};
  std::string stop = "stop";  // the list of texts that end an output
  std::string prompt = "prompt";
  std::string sampling;  // what stands before the fields that say how outputs are drawn
  // Where each message of the call stands in the client's JSON; empty: as they are counted.
  struct Place {
    std::string path;
    bool is_text = false;  // rather than an object with `content`
  };
  std::vector<Place> places;
};

// The service's refusal of a request. The fields it names are those of the client's JSON.
// `context_length` of the model, 0 where it is not known.
ApiError FromStatus(const absl::Status& status, const FieldNames& names, int64_t context_length);

}  // namespace tutti::gateway
