// The flags that say what the text of an answer is.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "program/flags.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::client {

struct GrammarFlags {
  std::string json_schema;  // a file
  bool json_object = false;
  std::string regex;
  std::vector<std::string> choices;
  std::string grammar;  // a file
  bool blanks = false;
};

void AddGrammarFlags(FlagSet* set, GrammarFlags* flags);

// Reads the files. INVALID_ARGUMENT for what is none; all else is the service's to check.
absl::Status FillGrammar(const GrammarFlags& flags, v1::GenerateRequest* request);

}  // namespace tutti::client
