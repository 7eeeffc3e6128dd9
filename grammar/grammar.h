// A grammar: which texts an answer may be. Made from a source, which is what travels; all else
// follows from it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/build_work.h"
#include "grammar/graph.h"
#include "grammar/preface.h"
#include "grammar/whitespace.h"

namespace tutti::grammar {

enum class SourceKind : uint8_t {
  kJsonSchema,  // a schema of JSON Schema, draft 7 or 2020-12 (see README.md for what is served)
  kJsonObject,  // any object of JSON; the text is not looked at
  kRegex,       // a regular expression that the whole answer matches (regex_parser.h)
  kChoice,      // an array of JSON with strings, one of which is the answer
  kEbnf,        // rules of a context-free grammar (ebnf.h), the first or `root` being the whole
};

struct GrammarSource {
  SourceKind kind = SourceKind::kJsonSchema;
  std::string text;
  Whitespace whitespace = Whitespace::kCompact;  // of JSON
  Preface preface = {};
};

// Immutable, whatever uses it.  Thread: any.
class Grammar {
 public:
  using Digest = std::array<uint8_t, 32>;

  // Of all of the source, SHA-256: equal sources are equal grammars.
  static Digest DigestOf(const GrammarSource& source);

  // Work is counted and bounded (kBuildWorkMax), for less than 100 ms.
  // Errors, with the place in the source (a JSON pointer and the keyword, or a byte):
  // InvalidArgument for a source that is none, asks for what is not served, or is satisfied by no
  // text; ResourceExhausted for one beyond the limits.
  // `work`, where it is not null: what it took (BuildWork). `work_max`: where it is less than
  // kBuildWorkMax and not enough, Aborted, and whoever can wait longer asks again with more.
  static absl::StatusOr<std::shared_ptr<const Grammar>> Create(const GrammarSource& source,
                                                               int64_t* work = nullptr,
                                                               int64_t work_max = kBuildWorkMax);

  const Digest& digest() const { return digest_; }
  const Graph& graph() const { return graph_; }
  // Texts of the special tokens that %special asks for: where a vocabulary lacks one, nothing may
  // come in its place.
  const std::vector<std::string>& specials() const { return graph_.specials; }

 private:
  static absl::StatusOr<std::shared_ptr<const Grammar>> Make(const GrammarSource& source,
                                                             BuildWork* work);
  Grammar(Graph graph, const Digest& digest) : graph_(std::move(graph)), digest_(digest) {}

  const Graph graph_;
  const Digest digest_;
};

}  // namespace tutti::grammar
