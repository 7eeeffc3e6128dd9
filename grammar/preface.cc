#include "grammar/preface.h"

#include "grammar/limits.h"
#include "grammar/text_pieces.h"
#include "grammar/token_trie.h"

namespace tutti::grammar {
namespace {

absl::Status CheckMark(std::string_view name, std::string_view mark) {
  if (mark.size() > kPrefaceBytesMax) {
    return absl::InvalidArgumentError(
        Concat("preface.", name, ": ", mark.size(), " bytes, the limit is ", kPrefaceBytesMax));
  }
  return Annotate(CheckUtf8(mark), Concat("preface.", name));
}

// `text` as itself or as a special token.
NodeId AddMark(const std::string& text, NodeId next, Graph* graph) {
  graph->splits.push_back(
      {graph->AddText(text, next), graph->AddText(SpecialTokenBytes(text), next)});
  return graph->Add({NodeKind::kSplit, 0, static_cast<uint32_t>(graph->splits.size()) - 1});
}

}  // namespace

absl::Status AddPreface(const Preface& preface, Graph* graph) {
  TUTTI_RETURN_IF_ERROR(CheckMark("open", preface.open));
  TUTTI_RETURN_IF_ERROR(CheckMark("close", preface.close));
  if (preface.close.empty()) {
    if (preface.open.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("preface.close: must be there where preface.open is");
  }
  const NodeId whole = graph->Add({NodeKind::kGoto, 0, graph->root});
  const NodeId behind = graph->Add({NodeKind::kGap, whole});
  graph->frees.push_back({.search = TextSearch({preface.close}),
                          .until = true,
                          .special = graph->AddText(SpecialTokenBytes(preface.close), behind)});
  NodeId entry =
      graph->Add({NodeKind::kFree, behind, static_cast<uint32_t>(graph->frees.size()) - 1});
  if (!preface.open.empty()) {
    const NodeId opened = graph->Add({NodeKind::kGap, AddMark(preface.open, entry, graph)});
    graph->splits.push_back({opened, whole});
    entry = graph->Add({NodeKind::kSplit, 0, static_cast<uint32_t>(graph->splits.size()) - 1});
  }
  graph->root = graph->AddRule(entry);
  return absl::OkStatus();
}

}  // namespace tutti::grammar
