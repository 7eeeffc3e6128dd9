// A template after parsing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/builtins.h"
#include "text/jinja/value.h"

namespace tutti::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

// Arguments of a call, filter or test, in the order of the callee's parameters: null where not
// given. Of a callee with open ends (Builtin::more), those beyond its parameters follow, named ones
// with their name.
struct Arguments {
  std::vector<ExprPtr> values;
  std::vector<std::string> names;  // of values beyond the parameters; "" when positional
};

struct Expr {
  enum Kind {
    kConstant,   // constant
    kName,       // name
    kList,       // children
    kTuple,      // children
    kDict,       // children: key, value, key, value, ...
    kAttribute,  // children[0] . name
    kItem,       // children[0] [children[1]]
    kSlice,      // children[0] [children[1] : children[2] : children[3]], each but the first may be
                 // null
    kFunction,   // builtin(arguments)
    kMethod,     // children[0] . builtin(arguments)
    kMacro,      // name(arguments), where macro is the one of that name
    kFilter,     // children[0] | builtin(arguments)
    kTest,       // children[0] is builtin(arguments)
    kNot,        // not children[0]
    kNegate,     // - children[0]
    kAnd,        // children[0] and children[1]
    kOr,         // children[0] or children[1]
    kBinary,     // children[0] op children[1]; op: + - * / // % **
    kConcat,     // children[0] ~ children[1] ~ ...
    kCompare,    // children[0] ops[0] children[1] ops[1] ...; ops: == != < <= > >= in, "not in"
    kConditional,  // children[0] if children[1] else children[2]; the last may be null
  };
  Kind kind = kConstant;
  int line = 0;
  int depth = 1;  // of the tree below, this node included
  std::string name;
  Value constant;
  std::vector<ExprPtr> children;
  std::vector<std::string> ops;
  const Builtin* builtin = nullptr;
  Arguments arguments;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Branch {
  ExprPtr condition;  // null: else
  Body body;
};

struct Stmt {
  enum Kind {
    kText,          // constant
    kOutput,        // {{ expr }}
    kIf,            // branches
    kFor,           // for names in expr if filter: body, else: otherwise
    kSet,           // set names = expr
    kSetAttribute,  // set names[0].names[1] = expr
    kSetBlock,      // set names[0]: body
    kMacro,         // macro
    kBreak,
    kContinue,
  };
  Kind kind = kText;
  int line = 0;
  Value constant;
  ExprPtr expr;
  std::vector<std::string> names;
  bool unpack = false;  // kFor, kSet: names are those of a tuple
  std::vector<Branch> branches;
  ExprPtr filter;
  Body body;
  Body otherwise;
  std::unique_ptr<Macro> macro;
};

struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // [parameters], null where there is none
  Body body;
};

struct Template {
  Body body;
};

}  // namespace tutti::text::jinja
