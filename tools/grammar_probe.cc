// Answers of the grammar engine for tests that ask other libraries the same, one JSON value a line
// in and out.
//
//   grammar_probe [MODEL_DIR [IDS]]      IDS: how many the model computes
//
// in:  {"kind": "json_schema" | "json_object" | "regex" | "choice" | "grammar", "source": "...",
//       "bounded": false,
//       "texts": ["..."],                     texts to follow
//       "walks": 3, "seed": 1, "tokens": 200, texts to make, of tokens drawn from masks
//       "end": 0.3,                           how likely the end is taken, where it may be
//       "finish": 3000}                       tokens at most to end a text with that was cut, or
//                                             one of `texts`
// out: {"us": time to make the grammar,
//       "texts": [{"accepted": true, "prefix": true, "stop": bytes allowed, "finished": "..."}],
//       "walks": [{"text": "...", "ended": true, "finished": "..."}],
//       "masks": [microseconds of each, the first first], "bytes": of the automaton,
//       "forced": how many masks of texts allow one token only}
// or:  {"error": "...", "us": …}
//
// With a model's vocabulary texts are followed by its tokens, and a mask is made before each, which
// must allow it; "broken" tells where it does not.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "text/tokenizer.h"

namespace tutti::tools {
namespace {

using Json = nlohmann::ordered_json;
using grammar::Grammar;
using grammar::Matcher;
using grammar::SourceKind;
using grammar::TokenTrie;

// Of the processor, in microseconds: what others do meanwhile is not in it.
double CpuTime() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

SourceKind KindOf(const std::string& name) {
  if (name == "json_object") return SourceKind::kJsonObject;
  if (name == "regex") return SourceKind::kRegex;
  if (name == "choice") return SourceKind::kChoice;
  if (name == "grammar") return SourceKind::kEbnf;
  return SourceKind::kJsonSchema;
}

size_t Count(const std::vector<uint32_t>& mask) {
  size_t count = 0;
  for (const uint32_t word : mask) count += static_cast<size_t>(std::popcount(word));
  return count;
}

// One of the ids of a mask; nothing when it has none.
std::optional<TokenId> Draw(const std::vector<uint32_t>& mask, Random* random) {
  const size_t count = Count(mask);
  if (count == 0) return std::nullopt;
  auto left = static_cast<size_t>(random->Uniform() * static_cast<double>(count));
  for (size_t i = 0;; ++i) {
    const auto here = static_cast<size_t>(std::popcount(mask[i]));
    if (left >= here) {
      left -= here;
      continue;
    }
    uint32_t word = mask[i];
    for (; left > 0; --left) word &= word - 1;
    return static_cast<TokenId>(i * 32) + std::countr_zero(word);
  }
}

bool Has(const std::vector<uint32_t>& mask, TokenId id) {
  return (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0;
}

class Probe {
 public:
  Probe(std::unique_ptr<text::Tokenizer> tokenizer, int64_t ids)
      : tokenizer_(std::move(tokenizer)) {
    std::vector<std::string> bytes;
    if (tokenizer_ == nullptr) {  // a token for each byte
      for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
    } else {
      for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
        bytes.emplace_back(tokenizer_->TokenBytes(id).value_or(""));
      }
    }
    const std::vector<std::string_view> views(bytes.begin(), bytes.end());
    end_ = static_cast<TokenId>(views.size());
    const std::vector<TokenId> ends = {end_};
    trie_ = std::make_shared<const TokenTrie>(
        *TokenTrie::Create(views, ends, std::max<int64_t>(end_ + int64_t{1}, ids)));
    single_ = std::vector<uint32_t>(trie_->words());
    for (TokenId id = 0; id <= end_; ++id) {
      if (trie_->Bytes(id).size() == 1) {
        single_[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
        by_byte_[static_cast<uint8_t>(trie_->Bytes(id)[0])] = id;
      }
    }
  }

  Json Answer(const Json& question) {
    grammar::GrammarSource source;
    source.kind = KindOf(question.value("kind", ""));
    source.text = question.value("source", "");
    if (question.value("bounded", false)) source.whitespace = grammar::Whitespace::kBounded;
    const double begin = CpuTime();
    const auto made = Grammar::Create(source);
    const double us = CpuTime() - begin;
    if (!made.ok()) return {{"error", std::string(made.status().message())}, {"us", us}};
    const auto automaton = std::make_shared<grammar::Automaton>(*made, trie_);
    Json answer = {{"us", us}};
    Json masks = Json::array();
    for (const Json& text : question.value("texts", Json::array())) {
      Json followed = Follow(automaton, text.get<std::string>(), &masks);
      if (question.contains("finish")) FinishText(automaton, text, question["finish"], &followed);
      answer["texts"].push_back(std::move(followed));
    }
    Random random(question.value("seed", uint64_t{1}));
    for (int i = 0; i < question.value("walks", 0); ++i) {
      answer["walks"].push_back(Walk(automaton, question, &random, &masks));
    }
    answer["masks"] = std::move(masks);
    answer["forced"] = std::exchange(forced_, 0);
    answer["bytes"] = automaton->bytes();
    return answer;
  }

 private:
  Json Follow(const std::shared_ptr<grammar::Automaton>& automaton, const std::string& text,
              Json* masks) {
    Json answer;
    Matcher matcher(automaton);
    size_t stop = 0;
    while (stop < text.size() && matcher.Accept(std::string_view(text).substr(stop, 1)).ok()) {
      ++stop;
    }
    answer["stop"] = stop;
    answer["prefix"] = stop == text.size();
    answer["accepted"] = stop == text.size() && matcher.IsComplete().value_or(false);
    if (tokenizer_ == nullptr || stop < text.size()) return answer;
    const auto ids = tokenizer_->Encode(text);
    if (!ids.ok()) return answer;
    Matcher again(automaton);
    std::vector<uint32_t> mask(trie_->words());
    for (const TokenId id : *ids) {
      const double begin = CpuTime();
      const absl::Status status = again.Mask(mask);
      masks->push_back(CpuTime() - begin);
      forced_ += Count(mask) == 1 ? 1 : 0;
      if (!status.ok() || !Has(mask, id) || !again.AcceptToken(id).ok()) {
        answer["broken"] = again.text().size();
        return answer;
      }
    }
    return answer;
  }

  void FinishText(const std::shared_ptr<grammar::Automaton>& automaton, const std::string& text,
                  int tokens, Json* answer) {
    Matcher matcher(automaton);
    Random random(text.size());
    if (!matcher.Accept(text).ok() || !Finish(tokens, &matcher, &random)) return;
    (*answer)["finished"] = std::string(matcher.text());
  }

  Json Walk(const std::shared_ptr<grammar::Automaton>& automaton, const Json& question,
            Random* random, Json* masks) {
    Matcher matcher(automaton);
    std::vector<uint32_t> mask(trie_->words());
    Json answer;
    const int tokens = question.value("tokens", 200);
    const double end = question.value("end", 0.3);
    for (int i = 0; i < tokens && !matcher.ended() && !answer.contains("error"); ++i) {
      const double begin = CpuTime();
      const absl::Status status = matcher.Mask(mask);
      masks->push_back(CpuTime() - begin);
      std::optional<TokenId> id = Draw(mask, random);
      // Ends are rare among so many tokens, and texts must end to be looked at.
      if (Has(mask, end_) && random->Uniform() < end) id = end_;
      const absl::Status accepted = !status.ok() ? status : matcher.AcceptToken(id.value_or(-1));
      if (!accepted.ok()) answer["error"] = std::string(accepted.message());
    }
    answer["ended"] = matcher.ended();
    answer["text"] = std::string(matcher.text());
    if (!matcher.ended() && Finish(question.value("finish", 0), &matcher, random)) {
      answer["finished"] = std::string(matcher.text());
    }
    return answer;
  }

  // Closes what is open where that is allowed, else goes on byte by byte, mostly with the same one:
  // many patterns ask for some characters of one kind.
  bool Finish(int tokens, Matcher* matcher, Random* random) {
    std::vector<uint32_t> mask(trie_->words());
    std::optional<TokenId> last;
    for (int i = 0; i < tokens && !matcher->ended(); ++i) {
      if (!matcher->Mask(mask).ok()) return false;
      const bool may_end = Has(mask, end_);
      std::optional<TokenId> id;
      for (size_t word = 0; word < mask.size(); ++word) mask[word] &= single_[word];
      // Behind an opening brace a quote begins a member; where a string is under way it ends it,
      // and other bytes are allowed by the dozen.
      const size_t count = Count(mask);
      if (Has(mask, by_byte_['}']) && count == 2) id = by_byte_['}'];
      for (const TokenId closing : {by_byte_['"'], by_byte_['}'], by_byte_[']']}) {
        if (!id && Has(mask, closing) && (count < 20 || closing == by_byte_['"'])) id = closing;
      }
      if (may_end) id = end_;
      if (!id && last && Has(mask, *last) && random->Uniform() < 0.7) id = last;
      if (!id) id = last = Draw(mask, random);
      if (!id || !matcher->AcceptToken(*id).ok()) return false;
    }
    return matcher->ended();
  }

  int forced_ = 0;  // tokens of texts that alone were allowed
  const std::unique_ptr<text::Tokenizer> tokenizer_;
  std::shared_ptr<const TokenTrie> trie_;
  TokenId end_ = 0;
  std::vector<uint32_t> single_;           // tokens of one byte
  std::array<TokenId, 256> by_byte_ = {};  // the ids of these
};

int Main(int argc, char** argv) {
  std::unique_ptr<text::Tokenizer> tokenizer;
  if (argc >= 2) {
    auto loaded = text::Tokenizer::Load(argv[1]);
    if (!loaded.ok()) {
      std::cerr << loaded.status() << "\n";
      return 1;
    }
    tokenizer = *std::move(loaded);
  }
  Probe probe(std::move(tokenizer), argc >= 3 ? std::atoll(argv[2]) : 0);
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json question = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const Json reply =
        question.is_object() ? probe.Answer(question) : Json{{"error", "not a JSON object"}};
    // A text that was cut may end inside a character.
    std::cout << reply.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace)
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace tutti::tools

int main(int argc, char** argv) { return tutti::tools::Main(argc, argv); }
