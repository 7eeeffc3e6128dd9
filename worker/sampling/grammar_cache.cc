#include "worker/sampling/grammar_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "transport/keyed_hash.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

std::string DigestOfSource(const v1::SequenceGrammar& source) {
  v1::SequenceGrammar grammar = source;
  grammar.clear_ends_late();  // a matter of the answer
  transport::KeyedHash hash("the source of a grammar");
  hash.Add(grammar.SerializeAsString());
  return hash.Finish();
}

// What a graph holds, about: its nodes, and by the source what is written out of it.
int64_t GrammarBytes(const grammar::Grammar& grammar, const v1::SequenceGrammar& source) {
  const grammar::Graph& graph = grammar.graph();
  const size_t nodes = graph.nodes.size() * sizeof(grammar::Node) +
                       graph.rules.size() * sizeof(grammar::RuleId) +
                       graph.sets.size() * sizeof(grammar::CharSet) +
                       graph.strings.size() * sizeof(grammar::StringNode) +
                       graph.objects.size() * sizeof(grammar::ObjectNode) +
                       graph.arrays.size() * sizeof(grammar::ArrayNode);
  return static_cast<int64_t>(nodes + source.text().size() * kGrammarBytesPerSourceByte);
}

}  // namespace

absl::StatusOr<grammar::GrammarSource> GrammarSourceOf(const v1::SequenceGrammar& source) {
  grammar::GrammarSource made;
  switch (source.kind()) {
    case v1::GRAMMAR_KIND_JSON_SCHEMA:
      made.kind = grammar::SourceKind::kJsonSchema;
      break;
    case v1::GRAMMAR_KIND_JSON_OBJECT:
      made.kind = grammar::SourceKind::kJsonObject;
      break;
    case v1::GRAMMAR_KIND_REGEX:
      made.kind = grammar::SourceKind::kRegex;
      break;
    case v1::GRAMMAR_KIND_CHOICE:
      made.kind = grammar::SourceKind::kChoice;
      break;
    case v1::GRAMMAR_KIND_EBNF:
      made.kind = grammar::SourceKind::kEbnf;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("grammar is of kind ", static_cast<int>(source.kind()), ", which is none"));
  }
  made.text = source.text();
  made.preface = {.open = source.preface_open(), .close = source.preface_close()};
  made.whitespace = source.blanks() ? grammar::Whitespace::kBounded : grammar::Whitespace::kCompact;
  return made;
}

void GrammarCache::SetVocabulary(std::shared_ptr<const grammar::TokenTrie> tokens) {
  entries_.clear();
  tokens_ = std::move(tokens);
  bytes_ = 0;
}

absl::StatusOr<std::shared_ptr<GrammarCache::Entry>> GrammarCache::Find(
    const v1::SequenceGrammar& source, int64_t work_max) {
  if (tokens_ == nullptr) {
    return absl::FailedPreconditionError("this worker was not told the model's vocabulary");
  }
  std::string digest = DigestOfSource(source);
  if (const auto found = entries_.find(digest); found != entries_.end()) {
    found->second->used_ = ++now_;
    return found->second;
  }
  TUTTI_ASSIGN_OR_RETURN(const grammar::GrammarSource as_source, GrammarSourceOf(source));
  const auto entry = std::make_shared<Entry>();
  TUTTI_ASSIGN_OR_RETURN(entry->grammar_,
                         grammar::Grammar::Create(as_source, /*work=*/nullptr, work_max));
  entry->source_ = source;
  entry->tokens_ = tokens_;
  entry->grammar_bytes_ = GrammarBytes(*entry->grammar_, source);
  entry->used_ = ++now_;
  entries_.emplace(std::move(digest), entry);
  Count(entry.get());
  return entry;
}

std::shared_ptr<grammar::Automaton> GrammarCache::AutomatonOf(Entry* entry) {
  entry->used_ = ++now_;
  if (entry->automaton_ == nullptr) {
    entry->automaton_ = std::make_shared<grammar::Automaton>(entry->grammar_, entry->tokens_);
  }
  return entry->automaton_;
}

void GrammarCache::Count(Entry* entry) {
  const int64_t automaton =
      entry->automaton_ == nullptr ? 0 : static_cast<int64_t>(entry->automaton_->bytes());
  bytes_ += entry->grammar_bytes_ + automaton - entry->counted_;
  entry->counted_ = entry->grammar_bytes_ + automaton;
}

bool GrammarCache::Trim(Entry* in_use) {
  Count(in_use);
  if (!IsFull()) return false;
  // Seldom: an automaton has grown to a part of the bound since the last time.
  std::vector<Entries::iterator> oldest_first;
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (at->second.get() != in_use) oldest_first.push_back(at);
  }
  std::sort(oldest_first.begin(), oldest_first.end(),
            [](const auto& a, const auto& b) { return a->second->used_ < b->second->used_; });
  std::vector<Entry*> held;
  for (const auto& at : oldest_first) {
    if (at->second.use_count() > 1) {
      held.push_back(at->second.get());
    } else if (IsFull()) {
      bytes_ -= at->second->counted_;
      entries_.erase(at);
    }
  }
  bool let_go = false;
  for (Entry* const entry : held) {
    if (bytes_ <= bounds_.bytes || entry->automaton_ == nullptr) continue;
    entry->automaton_.reset();
    ++entry->generation_;
    Count(entry);
    let_go = true;
  }
  return let_go;
}

}  // namespace tutti::worker
