// The price of masks: time to make a grammar, of its first mask, and of those that follow, on
// processors that do other things too (CPU time); grammar_bench MODEL_DIR SCHEMA...
//
// Texts are made of tokens drawn from the masks, three for each schema.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "grammar/matcher.h"
#include "text/tokenizer.h"

namespace tutti::bench {
namespace {

constexpr int kTexts = 3;
constexpr int kTokens = 200;

double CpuMicroseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

void Print(const char* what, std::vector<double> times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[std::min(times.size() - 1, static_cast<size_t>(share * times.size()))];
  };
  std::printf("%-12s %8zu  p50 %9.1f  p99 %9.1f  max %9.1f us\n", what, times.size(), at(0.5),
              at(0.99), times.back());
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

TokenId Draw(const std::vector<uint32_t>& mask, Random* random) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < mask.size() * 32; ++i) {
    if ((mask[i / 32] >> (i % 32) & 1) != 0) ids.push_back(static_cast<TokenId>(i));
  }
  CHECK(!ids.empty());
  return ids[static_cast<size_t>(random->Uniform() * static_cast<double>(ids.size()))];
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: grammar_bench MODEL_DIR SCHEMA...\n");
    return 2;
  }
  const auto tokenizer = text::Tokenizer::Load(argv[1]);
  CHECK(tokenizer.ok()) << tokenizer.status();
  const auto trie = Tokens(**tokenizer);
  std::vector<double> made, first, later;
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
    std::vector<uint32_t> mask(trie->words());
    for (int t = 0; t < kTexts; ++t) {
      grammar::Matcher matcher(automaton);
      for (int n = 0; n < kTokens && !matcher.ended(); ++n) {
        const double before = CpuMicroseconds();
        if (!matcher.Mask(mask).ok()) break;
        (t == 0 && n == 0 ? first : later).push_back(CpuMicroseconds() - before);
        if (!matcher.AcceptToken(Draw(mask, &random)).ok()) break;
      }
    }
  }
  std::printf("%d schemas, %d refused\n", argc - 2, refused);
  Print("grammar", made);
  Print("first mask", first);
  Print("mask", later);
  return 0;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) { return tutti::bench::Main(argc, argv); }
