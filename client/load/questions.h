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
};

// Sums, differences, numbers to sort and words to spell backwards.
Question MakeQuestion(Random* random);

// A file like models/demo/questions.json: a list of {"messages": [{"content": …}], "answer": …}, of
// which the last message is the question. INVALID_ARGUMENT names the entry at fault.
absl::StatusOr<std::vector<Question>> ParseQuestions(const std::string& json,
                                                     const std::string& name);

}  // namespace tutti::client
