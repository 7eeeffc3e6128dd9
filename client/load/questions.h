// Questions whose answers are known: the training task of the demo model (models/demo).
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "base/status.h"

namespace tutti::client {

struct Question {
  std::string text;
  std::string answer;
  bool is_known = true;  // whether any other answer is wrong
};

// Sums, differences, numbers to sort and words to spell backwards.
Question MakeQuestion(Random* random);

// A file like models/demo/questions.json: a list of {"messages": [{"content": …}], "answer": …}, of
// which the last message is the question; or one like ShareGPT's, {"conversations": [{"from":
// "human", "value": …}, {"from": "gpt", …}]}, of which the first message is, and the second is an
// answer among others; "messages" without "answer", and "role" and "content", are the same, and so
// is a line for each entry. Conversations that begin otherwise are left out. INVALID_ARGUMENT names
// the entry at fault.
absl::StatusOr<std::vector<Question>> ParseQuestions(const std::string& json,
                                                     const std::string& name);

}  // namespace tutti::client
