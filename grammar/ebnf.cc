#include "grammar/ebnf.h"

#include <map>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "grammar/limits.h"
#include "grammar/regex_parser.h"
#include "grammar/text_cursor.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

// Repetitions of one part right behind each other.
constexpr int kRepeatsMax = 4;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
}

void AppendUtf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  *out += static_cast<char>((0xF0 << (3 - more) & 0xFF) | c >> (6 * more));
  for (int i = more; i-- > 0;) *out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
}

struct EbnfPart {
  enum class Kind { kText, kSet, kRule, kSequence, kChoice, kRepeat };
  Kind kind = Kind::kText;
  std::string text;  // kText; the name of kRule
  CharSet set;
  std::vector<EbnfPart> children;
  uint32_t min = 0;
  uint32_t max = kEndless;
  size_t at = 0;  // kRule: the byte
};

class EbnfReader {
 public:
  EbnfReader(std::string_view text, Graph* graph) : text_(text), cursor_(text), graph_(*graph) {}

  absl::Status Read(std::vector<std::string>* names) {
    std::vector<std::pair<std::string, EbnfPart>> rules;
    SkipBlanks();
    while (!cursor_.AtEnd()) {
      const std::string name(TakeName());
      SkipBlanks();
      if (name.empty() || !cursor_.Take("::=")) return Error("not NAME ::=");
      if (rule_of_.contains(name)) return Error(Concat("a second rule ", name, ","));
      TUTTI_ASSIGN_OR_RETURN(EbnfPart body, ReadChoice());
      rule_of_[name] = graph_.AddRule();
      names->push_back(name);
      rules.emplace_back(name, std::move(body));
      SkipBlanks();
    }
    if (rules.empty()) return Error("no rule");
    graph_.end = graph_.Add({NodeKind::kEnd});
    return_ = graph_.Add({NodeKind::kReturn});
    for (const auto& [name, body] : rules) {
      TUTTI_ASSIGN_OR_RETURN(const NodeId entry, Emit(body, return_));
      graph_.rules[rule_of_[name]] = entry;
    }
    const auto root = rule_of_.find("root");
    graph_.root = root == rule_of_.end() ? 0 : root->second;
    return absl::OkStatus();
  }

 private:
  absl::Status Error(std::string_view what) const {
    return absl::InvalidArgumentError(Concat(what, " at byte ", cursor_.at()));
  }

  void SkipBlanks() {
    while (!cursor_.AtEnd()) {
      if (cursor_.Peek() == '#') {
        while (!cursor_.AtEnd() && cursor_.Peek() != '\n') cursor_.set_at(cursor_.at() + 1);
      } else if (absl::ascii_isspace(static_cast<unsigned char>(cursor_.Peek()))) {
        cursor_.set_at(cursor_.at() + 1);
      } else {
        return;
      }
    }
  }

  std::string_view TakeName() {
    const size_t begin = cursor_.at();
    while (!cursor_.AtEnd() && IsNameCharacter(cursor_.Peek()) &&
           !(cursor_.Peek() == '.' && cursor_.at() == begin)) {
      cursor_.set_at(cursor_.at() + 1);
    }
    return text_.substr(begin, cursor_.at() - begin);
  }

  // Whether another rule begins here.
  bool AtRule() {
    const size_t begin = cursor_.at();
    const bool name = !TakeName().empty();
    SkipBlanks();
    const bool rule = name && cursor_.rest().starts_with("::=");
    cursor_.set_at(begin);
    return rule;
  }

  absl::StatusOr<EbnfPart> ReadChoice() {
    if (++depth_ > kSourceDepthMax) return Error("groups nested too deep");
    EbnfPart choice{.kind = EbnfPart::Kind::kChoice};
    do {
      EbnfPart sequence{.kind = EbnfPart::Kind::kSequence};
      for (SkipBlanks();
           !cursor_.AtEnd() && cursor_.Peek() != '|' && cursor_.Peek() != ')' && !AtRule();
           SkipBlanks()) {
        TUTTI_ASSIGN_OR_RETURN(EbnfPart part, ReadPart());
        sequence.children.push_back(std::move(part));
      }
      choice.children.push_back(std::move(sequence));
    } while (cursor_.Take("|"));
    --depth_;
    return choice;
  }

  absl::StatusOr<EbnfPart> ReadPart() {
    TUTTI_ASSIGN_OR_RETURN(EbnfPart part, ReadAtom());
    for (int repeats = 0;; ++repeats) {
      SkipBlanks();
      EbnfPart repeat{.kind = EbnfPart::Kind::kRepeat};
      if (cursor_.Take("*")) {
        repeat.min = 0;
      } else if (cursor_.Take("+")) {
        repeat.min = 1;
      } else if (cursor_.Take("?")) {
        repeat.max = 1;
      } else if (cursor_.Take("{")) {
        TUTTI_RETURN_IF_ERROR(ReadCount(&repeat));
      } else {
        return part;
      }
      if (repeats == kRepeatsMax) return Error("repetitions of repetitions");
      repeat.children.push_back(std::move(part));
      part = std::move(repeat);
    }
  }

  absl::StatusOr<uint32_t> TakeCount() {
    SkipBlanks();
    uint64_t value = 0;
    if (!absl::ascii_isdigit(static_cast<unsigned char>(cursor_.Peek()))) {
      return Error("a repetition without its count");
    }
    while (absl::ascii_isdigit(static_cast<unsigned char>(cursor_.Peek()))) {
      value = value * 10 + static_cast<uint64_t>(cursor_.Peek() - '0');
      if (value >= kEndless) return Error("a count that is too large");
      cursor_.set_at(cursor_.at() + 1);
    }
    SkipBlanks();
    return static_cast<uint32_t>(value);
  }

  absl::Status ReadCount(EbnfPart* repeat) {
    TUTTI_ASSIGN_OR_RETURN(repeat->min, TakeCount());
    repeat->max = repeat->min;
    if (cursor_.Take(",")) {
      SkipBlanks();
      repeat->max = kEndless;
      if (cursor_.Peek() != '}') {
        TUTTI_ASSIGN_OR_RETURN(repeat->max, TakeCount());
      }
    }
    if (!cursor_.Take("}")) return Error("a { without its }");
    if (repeat->max < repeat->min) return Error("a repetition with its counts turned round");
    return absl::OkStatus();
  }

  absl::StatusOr<EbnfPart> ReadAtom() {
    const size_t begin = cursor_.at();
    if (cursor_.Take("(")) {
      TUTTI_ASSIGN_OR_RETURN(EbnfPart group, ReadChoice());
      if (!cursor_.Take(")")) return Error("a ( without its )");
      return group;
    }
    if (cursor_.Peek() == '"' || cursor_.Peek() == '[') return ReadQuoted();
    if (cursor_.Take(".")) return EbnfPart{.kind = EbnfPart::Kind::kSet, .set = CharSet::All()};
    EbnfPart rule{.kind = EbnfPart::Kind::kRule, .text = std::string(TakeName()), .at = begin};
    if (rule.text.empty()) return Error("no rule, string, class or group");
    return rule;
  }

  // A string or a class: the same escapes as those of regular expressions, which read it.
  absl::StatusOr<EbnfPart> ReadQuoted() {
    const size_t begin = cursor_.at();
    const char close = cursor_.Peek() == '"' ? '"' : ']';
    cursor_.set_at(begin + 1);
    while (!cursor_.AtEnd() && cursor_.Peek() != close) {
      if (cursor_.Take("\\") && cursor_.AtEnd()) break;
      cursor_.TakeCharacter();
    }
    if (cursor_.AtEnd()) return Error("a string or class without its end");
    cursor_.set_at(cursor_.at() + 1);
    const std::string_view all = text_.substr(begin, cursor_.at() - begin);
    if (close == ']') {
      TUTTI_ASSIGN_OR_RETURN(const RegexTree tree, ParseQuoted(all, begin));
      const RegexTree& sequence = tree.children.front();
      return EbnfPart{.kind = EbnfPart::Kind::kSet, .set = sequence.children.front().set};
    }
    EbnfPart part;
    TextCursor inside(all.substr(1, all.size() - 2));
    while (!inside.AtEnd()) {
      if (inside.Peek() != '\\') {
        AppendUtf8(inside.TakeCharacter(), &part.text);
        continue;
      }
      TUTTI_ASSIGN_OR_RETURN(const uint32_t character, TakeEscape(&inside, begin));
      AppendUtf8(character, &part.text);
    }
    return part;
  }

  absl::StatusOr<RegexTree> ParseQuoted(std::string_view text, size_t begin) const {
    absl::StatusOr<RegexTree> tree = ParseRegex(text);
    if (tree.ok()) return tree;
    return Annotate(tree.status(), Concat("in the string or class at byte ", begin));
  }

  // One escape, which is a class of one character.
  absl::StatusOr<uint32_t> TakeEscape(TextCursor* inside, size_t begin) const {
    const std::string_view rest = inside->rest();
    size_t size = 2;
    if (rest.starts_with("\\u{")) {
      size = std::min(rest.find('}'), rest.size() - 1) + 1;
    } else if (rest.starts_with("\\u")) {
      size = rest.substr(6).starts_with("\\u") ? 12 : 6;
    } else if (rest.starts_with("\\x")) {
      size = 4;
    }
    absl::StatusOr<RegexTree> tree = ParseQuoted(rest.substr(0, size), begin);
    if (size == 12 && !tree.ok()) tree = ParseQuoted(rest.substr(0, size = 6), begin);
    if (!tree.ok()) return tree.status();
    const std::vector<RegexTree>& parts = tree->children.front().children;
    const auto& ranges = parts.front().set.ranges();
    if (size == 12 && parts.size() == 2) size = 6;
    if (ranges.size() != 1 || ranges.front().first != ranges.front().last) {
      return absl::InvalidArgumentError(
          Concat("in the string at byte ", begin, ": a class, where a character must be"));
    }
    inside->set_at(inside->at() + std::min(size, rest.size()));
    return ranges.front().first;
  }

  absl::StatusOr<NodeId> Emit(const EbnfPart& part, NodeId next) {
    if (graph_.nodes.size() > kNodesMax) {
      return absl::ResourceExhaustedError(Concat("more than ", kNodesMax, " nodes"));
    }
    switch (part.kind) {
      case EbnfPart::Kind::kText:
        return graph_.AddText(part.text, next);
      case EbnfPart::Kind::kSet:
        graph_.sets.push_back(part.set);
        return graph_.Add({NodeKind::kClass, next, static_cast<uint32_t>(graph_.sets.size()) - 1});
      case EbnfPart::Kind::kRule: {
        const auto found = rule_of_.find(part.text);
        if (found == rule_of_.end()) {
          return absl::InvalidArgumentError(
              Concat("no rule ", part.text, ", named at byte ", part.at));
        }
        const NodeKind kind = next == return_ ? NodeKind::kGoto : NodeKind::kCall;
        return graph_.Add({kind, next, found->second});
      }
      case EbnfPart::Kind::kSequence:
        for (size_t i = part.children.size(); i-- > 0;) {
          TUTTI_ASSIGN_OR_RETURN(next, Emit(part.children[i], next));
        }
        return next;
      case EbnfPart::Kind::kChoice: {
        std::vector<NodeId> alternatives;
        for (const EbnfPart& child : part.children) {
          TUTTI_ASSIGN_OR_RETURN(const NodeId entry, Emit(child, next));
          alternatives.push_back(entry);
        }
        if (alternatives.size() == 1) return alternatives.front();
        graph_.splits.push_back(std::move(alternatives));
        return graph_.Add({NodeKind::kSplit, 0, static_cast<uint32_t>(graph_.splits.size()) - 1});
      }
      case EbnfPart::Kind::kRepeat: {
        TUTTI_ASSIGN_OR_RETURN(const NodeId entry, Emit(part.children.front(), return_));
        graph_.repeats.push_back({graph_.AddRule(entry), part.min, part.max});
        return graph_.Add(
            {NodeKind::kRepeat, next, static_cast<uint32_t>(graph_.repeats.size()) - 1});
      }
    }
    return next;
  }

  const std::string_view text_;
  TextCursor cursor_;
  Graph& graph_;
  std::map<std::string, RuleId> rule_of_;
  NodeId return_ = 0;
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<Graph> ReadEbnf(std::string_view text, std::vector<std::string>* names) {
  Graph graph;
  EbnfReader reader(text, &graph);
  TUTTI_RETURN_IF_ERROR(reader.Read(names));
  return graph;
}

}  // namespace tutti::grammar
