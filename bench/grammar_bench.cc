// The price of masks: time to make a grammar, of its first mask, and of those that follow, on
// processors that do other things too (CPU time); grammar_bench MODEL_DIR SCHEMA...
//
// grammar_bench [MODEL_DIR] --hostile: time and units of work of sources made to take long.
//
// Texts are made of tokens drawn from the masks, for each schema until there are a thousand, and
// the memory of its automaton is told then.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "grammar/hostile_testing.h"
#include "grammar/matcher.h"
#include "text/tokenizer.h"

namespace tutti::bench {
namespace {

constexpr int kTexts = 50;
constexpr int kTokensOfText = 200;
constexpr int kTokens = 1'000;

double CpuMicroseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

void Print(const char* what, std::vector<double> times, const char* unit = "us") {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[std::min(times.size() - 1, static_cast<size_t>(share * times.size()))];
  };
  std::printf("%-12s %8zu  p50 %9.1f  p99 %9.1f  max %9.1f %s\n", what, times.size(), at(0.5),
              at(0.99), times.back(), unit);
}

std::shared_ptr<const grammar::TokenTrie> Tokens(const text::Tokenizer& tokenizer) {
  std::vector<std::string_view> bytes;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    bytes.push_back(tokenizer.TokenBytes(id).value_or(""));
  }
  const std::vector<TokenId> ends = {tokenizer.vocab_size()};
  auto trie = grammar::TokenTrie::Create(bytes, ends, tokenizer.vocab_size() + 1);
  CHECK(trie.ok()) << trie.status();
  return std::make_shared<const grammar::TokenTrie>(*std::move(trie));
}

// REQUIRES: not empty
TokenId Draw(const std::vector<uint32_t>& mask, Random* random) {
  size_t count = 0;
  for (const uint32_t word : mask) count += static_cast<size_t>(std::popcount(word));
  CHECK(count > 0);
  auto left = static_cast<size_t>(random->Uniform() * static_cast<double>(count));
  size_t i = 0;
  for (; left >= static_cast<size_t>(std::popcount(mask[i])); ++i) {
    left -= static_cast<size_t>(std::popcount(mask[i]));
  }
  uint32_t word = mask[i];
  for (; left > 0; --left) word &= word - 1;
  return static_cast<TokenId>(i * 32) + std::countr_zero(word);
}

struct Times {
  std::vector<double> first;
  std::vector<double> later;
  bool refused = false;  // a mask was
};

// Texts of a grammar's own tokens.
void Draw(const std::shared_ptr<grammar::Automaton>& automaton, int tokens_max, Random* random,
          Times* times) {
  std::vector<uint32_t> mask(automaton->tokens().words());
  int tokens = 0;
  for (int t = 0; t < kTexts && tokens < tokens_max; ++t) {
    grammar::Matcher matcher(automaton);
    for (int n = 0; n < kTokensOfText && !matcher.ended(); ++n, ++tokens) {
      const double before = CpuMicroseconds();
      const absl::Status status = matcher.Mask(mask);
      (tokens == 0 ? times->first : times->later).push_back(CpuMicroseconds() - before);
      times->refused |= !status.ok();
      if (!status.ok() || !matcher.AcceptToken(Draw(mask, random)).ok()) break;
    }
  }
}

// What making a grammar takes of sources that are made for it, what a unit of its work takes, and
// with a vocabulary the longest mask.
int Hostile(const std::shared_ptr<const grammar::TokenTrie>& trie) {
  double slowest = 0;
  double dearest = 0;
  double longest = 0;
  Random random(5);
  for (const grammar::HostileSource& hostile : grammar::HostileSources()) {
    double least = 1e30;
    int64_t units = 0;
    std::string outcome = "served";
    for (int i = 0; i < 3; ++i) {
      const double begin = CpuMicroseconds();
      const auto made = grammar::Grammar::Create(hostile.source, &units);
      least = std::min(least, CpuMicroseconds() - begin);
      if (!made.ok()) outcome = std::string(made.status().message());
    }
    const double ns = 1e3 * least / static_cast<double>(units);
    slowest = std::max(slowest, least);
    if (units > 100'000) dearest = std::max(dearest, ns);
    Times times;
    const auto made = grammar::Grammar::Create(hostile.source);
    if (made.ok() && trie != nullptr) {
      Draw(std::make_shared<grammar::Automaton>(*made, trie), 100, &random, &times);
      for (const double time : times.first) times.later.push_back(time);
      const double most = *std::max_element(times.later.begin(), times.later.end());
      longest = std::max(longest, most);
      outcome += times.refused ? ", a mask refused" : "";
      char text[40];
      std::snprintf(text, sizeof(text), ", masks up to %.1f ms", 1e-3 * most);
      outcome += text;
    }
    std::printf("%-40s %8lld units %8.1f ms %6.1f ns a unit  %.70s\n", hostile.name.c_str(),
                static_cast<long long>(units), 1e-3 * least, ns, outcome.c_str());
  }
  std::printf("slowest %.1f ms, dearest unit %.1f ns, longest mask %.1f ms\n", 1e-3 * slowest,
              dearest, 1e-3 * longest);
  return 0;
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--hostile") return Hostile(nullptr);
  if (argc < 3) {
    std::fprintf(stderr, "usage: grammar_bench MODEL_DIR SCHEMA... | [MODEL_DIR] --hostile\n");
    return 2;
  }
  const auto tokenizer = text::Tokenizer::Load(argv[1]);
  CHECK(tokenizer.ok()) << tokenizer.status();
  const auto trie = Tokens(**tokenizer);
  if (std::string_view(argv[2]) == "--hostile") return Hostile(trie);
  std::vector<double> made, kilobytes;
  Times times;
  int refused = 0;
  Random random(3);
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i]);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const double begin = CpuMicroseconds();
    const auto grammar = grammar::Grammar::Create({grammar::SourceKind::kJsonSchema, text});
    made.push_back(CpuMicroseconds() - begin);
    if (!grammar.ok()) {
      ++refused;
      continue;
    }
    const auto automaton = std::make_shared<grammar::Automaton>(*grammar, trie);
    Draw(automaton, kTokens, &random, &times);
    kilobytes.push_back(1e-3 * static_cast<double>(automaton->bytes()));
  }
  std::printf("%d schemas, %d refused\n", argc - 2, refused);
  Print("grammar", made);
  Print("first mask", times.first);
  Print("mask", times.later);
  Print("memory", kilobytes, "kB");
  return 0;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) { return tutti::bench::Main(argc, argv); }
