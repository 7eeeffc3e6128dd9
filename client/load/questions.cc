#include "client/load/questions.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/substitute.h"

namespace tutti::client {
namespace {

using Json = nlohmann::json;

constexpr std::array<const char*, 4> kSums = {
    "What is $0 + $1?", "$0 + $1 =", "How much is $0 + $1?", "Add $0 and $1."};
constexpr std::array<const char*, 3> kDifferences = {"What is $0 - $1?",
                                                     "$0 - $1 =", "Subtract $1 from $0."};
constexpr std::array<const char*, 2> kSorts = {"Sort $0.", "Put $0 in order."};
constexpr std::array<const char*, 2> kSpellings = {"Spell $0 backwards.", "Reverse the word $0."};

template <size_t N>
const char* Choose(const std::array<const char*, N>& phrasings, Random* random) {
  return phrasings[static_cast<size_t>(random->Between(0, int64_t{N} - 1))];
}

Question Arithmetic(Random* random) {
  const int64_t a = random->Between(0, 999);
  const int64_t b = random->Between(0, 999);
  if (random->Chance(0.5)) {
    return {absl::Substitute(Choose(kSums, random), a, b), absl::StrCat(a + b)};
  }
  return {absl::Substitute(Choose(kDifferences, random), a, b), absl::StrCat(a - b)};
}

Question Sorting(Random* random) {
  std::vector<int64_t> numbers(static_cast<size_t>(random->Between(3, 6)));
  for (int64_t& number : numbers) number = random->Between(0, 99);
  const std::string text = absl::Substitute(Choose(kSorts, random), absl::StrJoin(numbers, " "));
  std::sort(numbers.begin(), numbers.end());
  return {text, absl::StrJoin(numbers, " ")};
}

Question Spelling(Random* random) {
  std::string word(static_cast<size_t>(random->Between(3, 8)), ' ');
  for (char& c : word) c = static_cast<char>('a' + random->Between(0, 25));
  const std::string text = absl::Substitute(Choose(kSpellings, random), word);
  std::reverse(word.begin(), word.end());
  return {text, word};
}

// The text of a message, {"from": …, "value": …} as ShareGPT's or {"role": …, "content": …}; null
// where it is of nobody whom `from` names.
const std::string* TextFrom(const Json& messages, size_t i,
                            std::initializer_list<const char*> from) {
  if (i >= messages.size() || !messages[i].is_object()) return nullptr;
  const Json& message = messages[i];
  const bool as_openai = message.contains("role");
  const auto who = message.find(as_openai ? "role" : "from");
  const auto text = message.find(as_openai ? "content" : "value");
  const bool is_text =
      who != message.end() && who->is_string() && text != message.end() && text->is_string();
  if (!is_text) return nullptr;
  const std::string& name = who->get_ref<const std::string&>();
  return std::find(from.begin(), from.end(), name) == from.end()
             ? nullptr
             : &text->get_ref<const std::string&>();
}

// Of a conversation; empty for one that is not a question and its answer, after what a system says.
Question QuestionOf(const Json& messages) {
  const size_t first = TextFrom(messages, 0, {"system"}) != nullptr ? 1 : 0;
  const std::string* const asked = TextFrom(messages, first, {"human", "user"});
  const std::string* const said =
      TextFrom(messages, first + 1, {"gpt", "chatgpt", "assistant", "bing"});
  if (asked == nullptr || said == nullptr) return {};
  return {*asked, *said, /*is_known=*/false};
}

// The messages of an entry that is a conversation; null: it is none.
const Json* ConversationOf(const Json& entry) {
  if (!entry.is_object()) return nullptr;
  for (const char* name : {"conversations", "messages"}) {
    const auto messages = entry.find(name);
    if (messages != entry.end() && messages->is_array() && !entry.contains("answer")) {
      return &*messages;
    }
  }
  return nullptr;
}

// The entries of a list, or of JSON Lines.
absl::StatusOr<Json> ReadEntries(const std::string& json, const std::string& name) {
  Json list = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (list.is_array() && !list.empty()) return list;
  list = Json::array();
  int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(json, '\n')) {
    ++number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object()) {
      return absl::InvalidArgumentError(
          number == 1 ? absl::StrCat(name, " is not a JSON list of questions, nor JSON Lines")
                      : absl::StrCat(name, ":", number, ": this is not a JSON object"));
    }
    list.push_back(std::move(entry));
  }
  if (list.empty()) return absl::InvalidArgumentError(absl::StrCat(name, " has no questions"));
  return list;
}

}  // namespace

Question MakeQuestion(Random* random) {
  switch (random->Between(0, 3)) {
    case 0:
      return Sorting(random);
    case 1:
      return Spelling(random);
    default:
      return Arithmetic(random);
  }
}

absl::StatusOr<std::vector<Question>> ParseQuestions(const std::string& json,
                                                     const std::string& name) {
  TUTTI_ASSIGN_OR_RETURN(const Json list, ReadEntries(json, name));
  std::vector<Question> questions;
  for (size_t i = 0; i < list.size(); ++i) {
    if (const Json* const messages = ConversationOf(list[i]); messages != nullptr) {
      Question question = QuestionOf(*messages);
      if (!question.text.empty()) questions.push_back(std::move(question));
      continue;
    }
    const Json& entry = list[i];
    const bool complete =
        entry.is_object() && entry.contains("answer") && entry["answer"].is_string() &&
        entry.contains("messages") && entry["messages"].is_array() && !entry["messages"].empty() &&
        entry["messages"].back().is_object() && entry["messages"].back().contains("content") &&
        entry["messages"].back()["content"].is_string();
    if (!complete) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": entry ", i, " has no messages with content, or no answer that is a text"));
    }
    questions.push_back({entry["messages"].back()["content"].get<std::string>(),
                         entry["answer"].get<std::string>()});
  }
  if (questions.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": no conversation begins with a question and its answer"));
  }
  return questions;
}

}  // namespace tutti::client
