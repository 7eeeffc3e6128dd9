#include "grammar/regex_program.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "grammar/limits.h"
#include "grammar/reversed.h"
#include "grammar/text_cursor.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {

// Writes instructions one behind the other; what follows a part follows its instructions.
class RegexProgram::Emitter {
 public:
  Emitter(RegexProgram* program, size_t most) : program_(program), most_(most) {}

  bool full() const { return full_; }
  size_t parts() const { return parts_; }

  uint32_t Add(Instruction instruction) {
    if (program_->code_.size() >= most_) full_ = true;
    if (!full_) program_->code_.push_back(instruction);
    return here() - 1;
  }
  uint32_t here() const { return static_cast<uint32_t>(program_->code_.size()); }
  Instruction& at(uint32_t index) { return program_->code_[index]; }

  uint32_t SetIndex(const CharSet& set) {
    const auto [found, added] =
        set_indexes_.try_emplace(set, static_cast<uint32_t>(program_->sets_.size()));
    if (added) program_->sets_.push_back(set);
    return found->second;
  }

  // Of a part that may be emitted many times.
  uint32_t SetIndexOf(const RegexTree& tree) {
    const auto [found, added] = tree_indexes_.try_emplace(&tree, 0);
    if (added) found->second = SetIndex(tree.set);
    return found->second;
  }

  void Emit(const RegexTree& tree) {
    // Parts without instructions count too: ((){9999}){9999}.
    if (++parts_ > 4 * kRegexInstructionsMax) full_ = true;
    if (full_) return;
    switch (tree.kind) {
      case RegexTree::Kind::kEmpty:
        return;
      case RegexTree::Kind::kSet:
        Add({Op::kSet, SetIndexOf(tree)});
        return;
      case RegexTree::Kind::kBegin:
        Add({Op::kBegin});
        return;
      case RegexTree::Kind::kEnd:
        Add({Op::kEnd});
        return;
      case RegexTree::Kind::kSequence:
        for (const RegexTree& child : tree.children) Emit(child);
        return;
      case RegexTree::Kind::kChoice:
        EmitChoice(tree);
        return;
      case RegexTree::Kind::kRepeat:
        EmitRepeat(tree);
        return;
    }
  }

  // Any characters, any number of them; the instruction that takes them.
  uint32_t EmitAnything() {
    const uint32_t split = Add({Op::kSplit});
    const uint32_t any = Add({Op::kSet, SetIndex(CharSet::All())});
    Add({Op::kJump, split});
    if (!full_) at(split) = {Op::kSplit, any, here()};
    return any;
  }

 private:
  void EmitChoice(const RegexTree& tree) {
    std::vector<uint32_t> jumps;
    for (size_t i = 0; i < tree.children.size(); ++i) {
      const bool last = i + 1 == tree.children.size();
      const uint32_t split = last ? 0 : Add({Op::kSplit});
      Emit(tree.children[i]);
      if (!last) jumps.push_back(Add({Op::kJump}));
      if (full_) return;
      if (!last) at(split) = {Op::kSplit, split + 1, here()};
    }
    for (const uint32_t jump : jumps) at(jump).a = here();
  }

  void EmitRepeat(const RegexTree& tree) {
    const RegexTree& child = tree.children.front();
    for (int64_t i = 0; i < tree.min && !full_; ++i) Emit(child);
    if (tree.max == RegexTree::kUnbounded) {
      const uint32_t split = Add({Op::kSplit});
      Emit(child);
      Add({Op::kJump, split});
      if (!full_) at(split) = {Op::kSplit, split + 1, here()};
      return;
    }
    std::vector<uint32_t> splits;
    for (int64_t i = tree.min; i < tree.max && !full_; ++i) {
      splits.push_back(Add({Op::kSplit}));
      Emit(child);
    }
    if (full_) return;
    for (const uint32_t split : splits) at(split) = {Op::kSplit, split + 1, here()};
  }

  RegexProgram* const program_;
  const size_t most_;
  std::map<CharSet, uint32_t> set_indexes_;
  absl::flat_hash_map<const RegexTree*, uint32_t> tree_indexes_;
  size_t parts_ = 0;
  bool full_ = false;
};

absl::StatusOr<RegexProgram> RegexProgram::Compile(const RegexTree& tree, bool whole,
                                                   BuildWork* work) {
  RegexProgram program;
  Emitter emitter(&program, kRegexInstructionsMax);
  if (!whole) emitter.EmitAnything();
  emitter.Emit(tree);
  if (!whole) program.tail_ = emitter.EmitAnything();
  emitter.Add({Op::kMatch});
  work->Add(static_cast<int64_t>(program.code_.size() * 12 + emitter.parts() / 2));
  if (emitter.full()) {
    return absl::ResourceExhaustedError(
        Concat("with its repetitions written out an expression of more than ",
               kRegexInstructionsMax, " instructions"));
  }
  program.Finish();
  return program;
}

absl::StatusOr<RegexProgram> RegexProgram::OfNames(std::vector<std::string> names,
                                                   BuildWork* work) {
  std::sort(names.begin(), names.end());
  RegexProgram program;
  Emitter emitter(&program, kRegexInstructionsAllMax);
  // Names [begin, end) have their first `depth` bytes in common.
  struct Group {
    size_t begin, end, depth;
    uint32_t entry;  // a jump that leads here once it is known where that is
  };
  std::vector<uint32_t> ends;
  std::vector<Group> groups = {{0, names.size(), 0, emitter.Add({Op::kJump})}};
  while (!groups.empty() && !emitter.full()) {
    Group group = groups.back();
    groups.pop_back();
    emitter.at(group.entry).a = emitter.here();
    const bool may_end = group.begin < group.end && names[group.begin].size() == group.depth;
    if (may_end) ++group.begin;
    while (group.begin < group.end && !emitter.full()) {
      TextCursor cursor(names[group.begin]);
      cursor.set_at(group.depth);
      const CharSet one = CharSet::One(cursor.TakeCharacter());
      const std::string common = names[group.begin].substr(0, cursor.at());
      size_t end = group.begin + 1;
      while (end < group.end && names[end].starts_with(common)) ++end;
      const uint32_t split = emitter.Add({Op::kSplit});
      emitter.Add({Op::kSet, emitter.SetIndex(one)});
      groups.push_back({group.begin, end, common.size(), emitter.Add({Op::kJump})});
      if (!emitter.full()) emitter.at(split) = {Op::kSplit, split + 1, emitter.here()};
      group.begin = end;
    }
    // Behind the splits: the end of a name, or nowhere.
    if (may_end) {
      ends.push_back(emitter.Add({Op::kJump}));
    } else {
      emitter.Add({Op::kSet, emitter.SetIndex(CharSet())});
    }
  }
  work->Add(
      static_cast<int64_t>(program.code_.size() * 5 + names.size() * std::bit_width(names.size())));
  if (emitter.full()) {
    return absl::ResourceExhaustedError(
        Concat("names of more than ", kRegexInstructionsAllMax, " instructions"));
  }
  for (const uint32_t jump : ends) emitter.at(jump).a = emitter.here();
  emitter.Add({Op::kMatch});
  program.Finish();
  return program;
}

// Says for every instruction whether the text may end there, and whether it leads to an end.
void RegexProgram::Finish() {
  ends_.assign(code_.size(), false);
  leads_.assign(code_.size(), false);
  const Reversed before = Reverse(static_cast<uint32_t>(code_.size()), [&](const auto& edge) {
    for (uint32_t i = 0; i < code_.size(); ++i) {
      const Instruction& instruction = code_[i];
      if (instruction.op == Op::kSplit || instruction.op == Op::kJump) {
        edge(i, instruction.a);
        if (instruction.op == Op::kSplit) edge(i, instruction.b);
      } else if (instruction.op != Op::kMatch) {
        edge(i, i + 1);
      }
    }
  });
  std::vector<uint32_t> work = {static_cast<uint32_t>(code_.size()) - 1};
  ends_.back() = true;
  while (!work.empty()) {
    const uint32_t at = work.back();
    work.pop_back();
    for (const uint32_t i : before.Of(at)) {
      if (code_[i].op == Op::kSet || code_[i].op == Op::kBegin || ends_[i]) continue;
      ends_[i] = true;
      work.push_back(i);
    }
  }
  for (uint32_t i = 0; i < code_.size(); ++i) {
    if (code_[i].op == Op::kSet && !sets_[code_[i].a].empty() && ends_[i + 1]) work.push_back(i);
  }
  for (const uint32_t i : work) leads_[i] = true;
  while (!work.empty()) {
    const uint32_t at = work.back();
    work.pop_back();
    for (const uint32_t i : before.Of(at)) {
      const Op op = code_[i].op;
      // A character before a $ or behind a ^ leads nowhere.
      if (op == Op::kBegin || op == Op::kEnd || leads_[i]) continue;
      if (op == Op::kSet && sets_[code_[i].a].empty()) continue;
      leads_[i] = true;
      work.push_back(i);
    }
  }
  Scratch scratch{.seen = std::vector<uint32_t>(code_.size()), .step = 1};
  Close(0, /*at_begin=*/true, &scratch, &start_);
  start_ = InOrder(std::move(start_));
}

// Adds the instructions that take a character and are reached from `from` without one.
void RegexProgram::Close(uint32_t from, bool at_begin, Scratch* scratch, Reached* reached) const {
  scratch->work.push_back(from);
  while (!scratch->work.empty()) {
    const uint32_t at = scratch->work.back();
    scratch->work.pop_back();
    ++scratch->visited;
    if (scratch->seen[at] == scratch->step) continue;
    scratch->seen[at] = scratch->step;
    if (ends_[at]) reached->accepts = true;
    const Instruction& instruction = code_[at];
    switch (instruction.op) {
      case Op::kSet:
        if (leads_[at]) reached->at.push_back(at);
        break;
      case Op::kSplit:
        scratch->work.push_back(instruction.b);
        [[fallthrough]];
      case Op::kJump:
        scratch->work.push_back(instruction.a);
        break;
      case Op::kBegin:
        if (at_begin) scratch->work.push_back(at + 1);
        break;
      case Op::kEnd:
      case Op::kMatch:
        break;
    }
  }
}

RegexProgram::Reached RegexProgram::InOrder(Reached reached) const {
  std::sort(reached.at.begin(), reached.at.end());
  if (IsUniversal(reached)) return {{tail_}, true};
  return reached;
}

RegexProgram::Reached RegexProgram::Step(const std::vector<uint32_t>& at, uint32_t character,
                                         Scratch* scratch) const {
  scratch->seen.resize(code_.size());
  ++scratch->step;
  Reached reached;
  for (const uint32_t i : at) {
    if (sets_[code_[i].a].Contains(character)) {
      Close(i + 1, /*at_begin=*/false, scratch, &reached);
    }
  }
  // They are put in order.
  scratch->visited += static_cast<int64_t>(2 * at.size() + 4 * reached.at.size());
  return InOrder(std::move(reached));
}

bool RegexProgram::IsUniversal(const Reached& reached) const {
  return std::binary_search(reached.at.begin(), reached.at.end(), tail_);
}

}  // namespace tutti::grammar
