// Feeds a fuzz target its seeds, and mutations of them from a printed random seed, in builds
// without libFuzzer. The target aborts when it finds something wrong.
#include <errno.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tutti::tests {
namespace {

constexpr int kMutationsPerSeed = 2000;
// Larger seeds get fewer, so that a target stays below a few seconds.
constexpr int64_t kMutatedBytesPerSeed = 32 << 20;

void Feed(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

std::vector<std::string> Seeds() {
  const char* root = std::getenv("TUTTI_SOURCE_DIR");
  // "tokenizer" of tokenizer_fuzz_replay
  std::string name = program_invocation_short_name;
  name.resize(std::min(name.size(), name.find("_fuzz_replay")));
  const std::string dir = std::string(root == nullptr ? "." : root) + "/tests/fuzz/corpus/" + name;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return seeds;
}

// Cuts, doubles, overwrites or splices in a piece.
void MutateOnce(const std::vector<std::string>& seeds, Random& random, std::string* input) {
  const auto position = [&](const std::string& text) {
    return static_cast<size_t>(random.Between(0, static_cast<int64_t>(text.size())));
  };
  const size_t at = position(*input);
  const auto length = static_cast<size_t>(random.Between(1, 8));
  switch (random.Between(0, 4)) {
    case 0:
      input->erase(at, length);
      break;
    case 1:
      input->insert(at, input->substr(position(*input), length));
      break;
    case 2:
      if (at < input->size()) (*input)[at] = static_cast<char>(random.Bits());
      break;
    case 3:
      if (at < input->size()) (*input)[at] ^= static_cast<char>(1 << random.Between(0, 7));
      break;
    default: {
      const std::string& other =
          seeds[static_cast<size_t>(random.Between(0, static_cast<int64_t>(seeds.size()) - 1))];
      input->insert(at, other.substr(position(other), length * 4));
    }
  }
}

TEST(FuzzReplay, SeedsTheirPrefixesAndMutations) {
  const std::vector<std::string> seeds = Seeds();
  ASSERT_FALSE(seeds.empty());
  constexpr uint64_t kSeed = 1;
  RecordProperty("seed", static_cast<int>(kSeed));
  Random random(kSeed);
  for (const std::string& seed : seeds) {
    Feed(seed);
    const size_t stride = seed.size() / 2000 + 1;
    for (size_t n = 0; n < seed.size(); n += stride) Feed(seed.substr(0, n));
    const int64_t affordable = kMutatedBytesPerSeed / static_cast<int64_t>(seed.size() + 1);
    for (int64_t i = 0; i < std::min<int64_t>(kMutationsPerSeed, affordable); ++i) {
      std::string input = seed;
      for (int64_t edits = random.Between(1, 4); edits > 0; --edits) {
        MutateOnce(seeds, random, &input);
      }
      Feed(input);
    }
  }
}

}  // namespace
}  // namespace tutti::tests
