// A grammar as nodes: what may come next, where a part is called, and where it returns to.
//
// A rule is a stretch of nodes from its entry to a node that returns; it calls other rules and
// itself. A reading of a text is a node, up to three numbers that belong to it, and what is to be
// returned to. Numbers carried through a node: see there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/build_work.h"
#include "grammar/char_decoder.h"
#include "grammar/char_set.h"
#include "grammar/number_machine.h"
#include "grammar/string_machine.h"
#include "grammar/text_search.h"
#include "grammar/text_trie.h"

namespace tutti::grammar {

using NodeId = uint32_t;
using RuleId = uint32_t;

enum class NodeKind : uint8_t {
  // These take bytes. The first four hand the numbers a and b on to the next node.
  kText,    // the bytes of texts[arg]; c: how many are read
  kGap,     // whitespace, or nothing; c: bytes of it
  kClass,   // a character of sets[arg] in UTF-8; c: what is read of it
  kTexts,   // one of the texts of tries[arg]; c: the node there
  kString,  // strings[arg], without the first quote; a: state, b: character under way, c: length
  kNumber,  // numbers[arg]; a: phase, b and c: value
  kFree,    // frees[arg]; a: state of its search, b: character under way
  kKey,     // a property's key of objects[arg], and its quotes; a, b as kObject, c: the node there
  // These take none.
  kCall,     // of rule arg, then the next node
  kGoto,     // rule arg in our stead
  kSplit,    // any node of splits[arg]
  kRepeat,   // repeats[arg]; a: how many are read
  kObject,   // objects[arg], before a member or the end; a: the first property that may still
             // come, b: members read
  kMember,   // objects[arg], before a key; a, b as kObject
  kValue,    // of a property; a: the property, b: members read
  kArray,    // arrays[arg], before an item or the end; a: items read
  kElement,  // an item of arrays[arg]; a: items read
  kReturn,
  kEnd,      // of the whole text
  kNothing,  // no text
};

struct Node {
  NodeKind kind = NodeKind::kNothing;
  NodeId next = 0;
  uint32_t arg = 0;
  // Whose count a is where a node hands it on: an array's index and one more; 0: none.
  uint32_t counted_array = 0;
};

// Counts and lengths reach into the numbers of a reading; those that have no bound are kEndless.
inline constexpr uint32_t kEndless = std::numeric_limits<uint32_t>::max();

struct StringNode {
  StringMachine machine;
  TextForm form = TextForm::kPlain;
};

// Text in UTF-8 with none of some strings in it.
struct FreeNode {
  TextSearch search;
  bool until = false;  // it goes on, and ends with the first of them
  NodeId special = 0;  // of `until`: ends it too, between two characters
};

struct RepeatNode {
  RuleId rule = 0;
  uint32_t min = 0;
  uint32_t max = kEndless;

  uint32_t CountAfter(uint32_t count) const {
    return max == kEndless ? std::min(count + 1, min) : count + 1;
  }
};

// Members come in the order of `properties`, those that are not declared after them.
struct ObjectNode {
  struct Property {
    std::string name;
    bool required = false;
    RuleId value = 0;
  };
  // Keys that are not declared: a rule for the string with its quotes, one for the value.
  struct OpenKeys {
    RuleId key = 0;
    RuleId value = 0;
    NodeId colon = 0;  // behind the key; leads to the call of the value
  };
  std::vector<Property> properties;
  std::vector<OpenKeys> open;
  uint32_t min = 0;  // members
  uint32_t max = kEndless;
  NodeId object = 0;       // kObject
  NodeId member = 0;       // kMember
  NodeId key = 0;          // kKey
  NodeId comma = 0;        // leads to member
  NodeId close = 0;        // behind a member
  NodeId close_empty = 0;  // behind none
  // Filled in by Finish: how many of properties i and later are required; the first required one
  // from i on, or the number of properties.
  std::vector<uint32_t> required_after;
  std::vector<uint32_t> next_required;
  uint32_t keys = 0;  // in tries: their texts, numbered

  // How many members are remembered to be there after one more than `count`.
  uint32_t CountAfter(uint32_t count) const;
  // Of the properties from `next` on those that may come now, as [first, last]; first > last: none.
  struct Range {
    uint32_t first = 1;
    uint32_t last = 0;
    bool empty() const { return first > last; }
  };
  Range MayCome(uint32_t next, uint32_t count) const;
  bool OpenMayCome(uint32_t next, uint32_t count) const;
  bool MayClose(uint32_t next, uint32_t count) const;
};

struct ArrayNode {
  std::vector<RuleId> first;  // of the first items
  bool more = false;          // others may follow, of rule `rest`
  RuleId rest = 0;
  uint32_t min = 0;
  uint32_t max = kEndless;
  NodeId array = 0;    // kArray
  NodeId element = 0;  // kElement
  NodeId comma = 0;    // leads to element
  NodeId close = 0;
  NodeId close_empty = 0;

  RuleId RuleOf(uint32_t index) const { return index < first.size() ? first[index] : rest; }
  // How many items are remembered to be there after one more than `count`.
  uint32_t CountAfter(uint32_t count) const;
  uint32_t AlikeCount(uint32_t count) const;
};

// Immutable once it is finished.  Thread: any.
struct Graph {
  std::vector<Node> nodes;
  std::vector<NodeId> rules;  // entries
  std::vector<std::string> texts;
  std::vector<CharSet> sets;
  std::vector<TextTrie> tries;
  std::vector<StringNode> strings;
  std::vector<NumberMachine> numbers;
  std::vector<FreeNode> frees;
  std::vector<std::string> specials;  // special tokens that are asked for
  std::vector<std::vector<NodeId>> splits;
  std::vector<RepeatNode> repeats;
  std::vector<ObjectNode> objects;
  std::vector<ArrayNode> arrays;
  RuleId root = 0;
  NodeId end = 0;  // kEnd
  // Filled in by Finish.
  std::vector<bool> nullable;    // [rules] the empty text is one of the rule's
  std::vector<bool> productive;  // [rules] there is a text
  std::vector<uint32_t> rank;    // [rules] callers before any byte have a smaller one
  std::vector<bool> leads;       // [nodes] to an end

  NodeId Add(Node node) {
    nodes.push_back(node);
    return static_cast<NodeId>(nodes.size()) - 1;
  }
  NodeId AddText(std::string text, NodeId next, uint32_t counted_array = 0) {
    texts.push_back(std::move(text));
    return Add({NodeKind::kText, next, static_cast<uint32_t>(texts.size()) - 1, counted_array});
  }
  RuleId AddRule(NodeId entry = 0) {
    rules.push_back(entry);
    return static_cast<RuleId>(rules.size()) - 1;
  }

  // Says of every rule and node what is said of it above, and of objects and arrays; properties
  // that can have no value go. `names` of the rules, for errors; may be empty.
  // Errors: InvalidArgument when there is no text at all, or a rule calls itself before any byte;
  // ResourceExhausted beyond kNodesMax or kRulesMax, or as BuildWork's.
  absl::Status Finish(const std::vector<std::string>& names, BuildWork* work);
};

}  // namespace tutti::grammar
