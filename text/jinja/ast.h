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

// One argument of a call, filter or test.
struct Argument {
  enum Kind { kPositional, kNamed, kList, kDict };  // a, name=a, *a, **a
  Kind kind = kPositional;
  std::string name;
  ExprPtr value;
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
    kCall,       // children[0] (arguments)
    kFilter,     // children[0] | name(arguments); no child in {% filter %} and {% set | %}
    kTest,       // children[0] is name(arguments)
    kNot,        // not children[0]
    kNegate,     // - children[0]
    kPositive,   // + children[0]
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
  const Builtin* builtin = nullptr;  // kFilter, kTest; null: there is none of that name
  std::vector<Argument> arguments;
};

// The target of an assignment: a name, a namespace's attribute, or a tuple of targets.
struct Target {
  std::string name;
  std::string attribute;  // "" unless name.attribute
  bool is_tuple = false;
  std::vector<Target> parts;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Branch {
  ExprPtr condition;  // null: else
  Body body;
};

struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // [parameters], null where there is none
  Body body;
  // Whether its body mentions them: only then surplus arguments and a caller are taken.
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

struct Stmt {
  enum Kind {
    kText,         // constant
    kOutput,       // {{ expr }}
    kIf,           // branches
    kFor,          // for target in expr if filter: body, else: otherwise
    kSet,          // set target = expr
    kSetBlock,     // set target | filter: body; filter may be null
    kMacro,        // macro
    kCallBlock,    // call expr: macro is the caller
    kFilterBlock,  // filter filter: body
    kWith,         // with targets = exprs: body; {% generation %} is one without targets
    kBlock,        // block name: body
    kBreak,
    kContinue,
    kLoad,  // include, import, from, extends: there is nothing to load from
  };
  Kind kind = kText;
  int line = 0;
  std::string name;
  Value constant;
  ExprPtr expr;
  Target target;
  std::vector<std::pair<Target, ExprPtr>> assignments;  // kWith
  bool recursive = false;                               // kFor
  std::vector<Branch> branches;
  ExprPtr filter;
  Body body;
  Body otherwise;
  std::unique_ptr<Macro> macro;
};

struct Template {
  Body body;
  std::vector<const Stmt*> blocks;  // all {% block %}s
};

}  // namespace tutti::text::jinja
