// Answers for tools/compare_text.py, which asks the reference libraries the same: token ids of
// texts, or prompts of conversations, one JSON value a line in and out.
//
//   text_probe encode MODEL_DIR    in: {"text": "...", "from_user": true}
//                                  out: {"ids": [...], "text": "..."}: and the ids back as text
//   text_probe render MODEL_DIR    in: {"messages": [...], "kwargs": {...}, "now": UNIX SECONDS}
//                                  out: {"prompt": "...", "ids": [...]}
//
// Instead of either result: {"error": "..."}.
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace tutti::tools {
namespace {

using Json = nlohmann::ordered_json;

Json Error(const absl::Status& status) { return {{"error", std::string(status.message())}}; }

Json Encode(const text::Tokenizer& tokenizer, const Json& question) {
  const text::Segment segment = {question.value("text", ""), question.value("from_user", true)};
  const auto ids = tokenizer.EncodeSegments(std::span(&segment, 1));
  if (!ids.ok()) return Error(ids.status());
  text::Detokenizer detokenizer(&tokenizer, /*skip_special_tokens=*/false,
                                text::Detokenizer::From::kBeginning);
  std::string text;
  for (const TokenId id : *ids) text += detokenizer.Push(id);
  text += detokenizer.Finish();
  return {{"ids", *ids}, {"text", text}};
}

Json Render(const text::Tokenizer& tokenizer, const text::ChatTemplate& chat,
            const Json& question) {
  const absl::Time now = absl::FromUnixSeconds(question.value("now", int64_t{0}));
  const auto segments =
      chat.Render(question.value("messages", Json()), question.value("kwargs", Json()), now);
  if (!segments.ok()) return Error(segments.status());
  std::string prompt;
  for (const text::Segment& segment : *segments) prompt += segment.text;
  const auto ids = tokenizer.EncodeSegments(*segments);
  if (!ids.ok()) return Error(ids.status());
  return {{"prompt", prompt}, {"ids", *ids}};
}

int Answer(const std::function<Json(const Json&)>& answer) {
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json question = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const Json reply =
        question.is_object() ? answer(question) : Json{{"error", "not a JSON object"}};
    std::cout << reply.dump(-1, ' ', /*ensure_ascii=*/true) << "\n";
  }
  return 0;
}

int Main(int argc, char** argv) {
  const std::string verb = argc == 3 ? argv[1] : "";
  if (verb != "encode" && verb != "render") {
    std::cerr << "usage: text_probe encode|render MODEL_DIR\n";
    return 2;
  }
  const auto tokenizer = text::Tokenizer::Load(argv[2]);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 1;
  }
  if (verb == "encode") {
    return Answer([&](const Json& question) { return Encode(**tokenizer, question); });
  }
  const auto chat = text::LoadChatTemplate(argv[2]);
  if (!chat.ok()) {
    std::cerr << chat.status() << "\n";
    return 1;
  }
  return Answer([&](const Json& question) { return Render(**tokenizer, *chat, question); });
}

}  // namespace
}  // namespace tutti::tools

int main(int argc, char** argv) { return tutti::tools::Main(argc, argv); }
