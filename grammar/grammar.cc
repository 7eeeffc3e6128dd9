#include "grammar/grammar.h"

#include <openssl/sha.h>

#include <set>
#include <utility>

#include "grammar/ebnf.h"
#include "grammar/json_tree.h"
#include "grammar/limits.h"
#include "grammar/regex_parser.h"
#include "grammar/schema.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

Grammar::Digest Sha256Of(const GrammarSource& source) {
  std::string all = {static_cast<char>(source.kind), static_cast<char>(source.whitespace)};
  for (const std::string* part : {&source.text, &source.preface.open, &source.preface.close}) {
    all += Concat(part->size(), " ", *part);
  }
  Grammar::Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(), digest.data());
  return digest;
}

// The rule that is the whole text, from `entry` on.
void SetRoot(Graph* graph, NodeId entry) { graph->root = graph->AddRule(entry); }

absl::StatusOr<Graph> ReadRegex(const GrammarSource& source, BuildWork* work) {
  TUTTI_ASSIGN_OR_RETURN(const RegexTree tree, ParseRegex(source.text, work));
  TUTTI_ASSIGN_OR_RETURN(RegexProgram program, RegexProgram::Compile(tree, /*whole=*/true, work));
  StringPart part = {std::make_shared<const RegexProgram>(std::move(program))};
  TUTTI_ASSIGN_OR_RETURN(
      StringMachine machine,
      StringMachine::Create({std::move(part)}, 0, StringMachine::kUnbounded, work));
  Graph graph;
  graph.strings.push_back({std::move(machine), TextForm::kPlain});
  graph.end = graph.Add({NodeKind::kEnd});
  SetRoot(&graph, graph.Add({NodeKind::kString, graph.Add({NodeKind::kReturn}), 0}));
  return graph;
}

absl::StatusOr<Graph> ReadChoice(const GrammarSource& source, BuildWork* work) {
  TUTTI_ASSIGN_OR_RETURN(const JsonValue choices, ParseJsonTree(source.text, work));
  if (!choices.is(JsonValue::Kind::kArray) || choices.items.empty()) {
    return absl::InvalidArgumentError("not an array with at least one string");
  }
  std::set<std::string> texts;
  for (size_t i = 0; i < choices.items.size(); ++i) {
    if (!choices.items[i].is(JsonValue::Kind::kString)) {
      return absl::InvalidArgumentError(Concat("/", i, ": not a string"));
    }
    texts.insert(choices.items[i].text);
  }
  std::vector<std::pair<std::string, uint32_t>> numbered;
  for (const std::string& text : texts) {
    numbered.emplace_back(text, static_cast<uint32_t>(numbered.size()));
  }
  Graph graph;
  work->Add(static_cast<int64_t>(16 * numbered.size()));
  graph.tries.emplace_back(std::move(numbered), /*numbered=*/false, work);
  graph.end = graph.Add({NodeKind::kEnd});
  SetRoot(&graph, graph.Add({NodeKind::kTexts, graph.Add({NodeKind::kReturn}), 0}));
  return graph;
}

absl::StatusOr<Graph> ReadJson(std::string_view schema, Whitespace whitespace, BuildWork* work) {
  Graph graph;
  graph.end = graph.Add({NodeKind::kEnd});
  TUTTI_ASSIGN_OR_RETURN(graph.root, ReadSchema(schema, whitespace, work, &graph));
  return graph;
}

absl::StatusOr<Graph> Read(const GrammarSource& source, BuildWork* work,
                           std::vector<std::string>* names) {
  switch (source.kind) {
    case SourceKind::kJsonSchema:
      return ReadJson(source.text, source.whitespace, work);
    case SourceKind::kJsonObject:
      return ReadJson(R"({"type":"object"})", source.whitespace, work);
    case SourceKind::kRegex:
      return ReadRegex(source, work);
    case SourceKind::kChoice:
      return ReadChoice(source, work);
    case SourceKind::kEbnf:
      return ReadEbnf(source.text, source.whitespace, work, names);
  }
  return absl::InvalidArgumentError("a kind of grammar that is not known");
}

std::string_view NameOf(SourceKind kind) {
  switch (kind) {
    case SourceKind::kJsonSchema:
      return "json_schema";
    case SourceKind::kJsonObject:
      return "json_object";
    case SourceKind::kRegex:
      return "regex";
    case SourceKind::kChoice:
      return "choice";
    case SourceKind::kEbnf:
      return "grammar";
  }
  return "grammar";
}

}  // namespace

Grammar::Digest Grammar::DigestOf(const GrammarSource& source) { return Sha256Of(source); }

absl::StatusOr<std::shared_ptr<const Grammar>> Grammar::Create(const GrammarSource& source,
                                                               int64_t* work, int64_t work_max) {
  BuildWork spent(work_max);
  absl::StatusOr<std::shared_ptr<const Grammar>> grammar = Make(source, &spent);
  if (work != nullptr) *work = spent.spent();
  // Whatever a reader made of what it did not get to read.
  if (!grammar.ok() && spent.spent() > work_max && work_max < kBuildWorkMax) {
    return absl::AbortedError("takes more work than was given for now");
  }
  return grammar;
}

absl::StatusOr<std::shared_ptr<const Grammar>> Grammar::Make(const GrammarSource& source,
                                                             BuildWork* work) {
  const std::string_view name = NameOf(source.kind);
  if (source.text.size() > kSourceBytesMax) {
    return absl::ResourceExhaustedError(
        Concat(name, ": ", source.text.size(), " bytes, the limit is ", kSourceBytesMax));
  }
  TUTTI_RETURN_IF_ERROR(Annotate(CheckUtf8(source.text), name));
  std::vector<std::string> names;
  // UTF-8 and digest.
  work->Add(static_cast<int64_t>(source.text.size() / 5));
  absl::StatusOr<Graph> graph = Read(source, work, &names);
  if (!graph.ok()) return Annotate(graph.status(), name);
  TUTTI_RETURN_IF_ERROR(AddPreface(source.preface, &*graph));
  if (absl::Status status = graph->Finish(names, work); !status.ok()) return Annotate(status, name);
  return std::shared_ptr<const Grammar>(new Grammar(*std::move(graph), DigestOf(source)));
}

}  // namespace tutti::grammar
