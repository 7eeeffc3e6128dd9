#include "client/grammar_flags.h"

#include <utility>

#include "client/command.h"
#include "client/limits.h"

namespace tutti::client {

void AddGrammarFlags(FlagSet* set, GrammarFlags* flags) {
  set->Add(
      {
          {.names = "--json-schema",
           .variable = &flags->json_schema,
           .help = "JSON by the schema in this file; -: from stdin"},
          {.names = "--json-object",
           .variable = &flags->json_object,
           .help = "Any JSON object",
           .excludes = {"--json-schema"}},
          {.names = "--regex",
           .variable = &flags->regex,
           .help = "Text that this expression matches as a whole",
           .excludes = {"--json-schema", "--json-object"}},
          {.names = "--choice",
           .variable = &flags->choices,
           .help = "One of these texts; may be repeated",
           .list = FlagList::kRepeated,
           .excludes = {"--json-schema", "--json-object", "--regex"}},
          {.names = "--grammar",
           .variable = &flags->grammar,
           .help = "Text by the rules (EBNF) in this file; -: from stdin",
           .excludes = {"--json-schema", "--json-object", "--regex", "--choice"}},
          {.names = "--json-blanks",
           .variable = &flags->blanks,
           .help = "Blanks may stand between the parts of JSON"},
      },
      "What the answer is");
}

absl::Status FillGrammar(const GrammarFlags& flags, v1::GenerateRequest* request) {
  if (!flags.json_schema.empty()) {
    TUTTI_ASSIGN_OR_RETURN(std::string schema, ReadText(flags.json_schema, kGrammarFileBytesMax));
    request->mutable_grammar()->set_json_schema(std::move(schema));
  } else if (flags.json_object) {
    request->mutable_grammar()->mutable_json_object();
  } else if (!flags.regex.empty()) {
    request->mutable_grammar()->set_regex(flags.regex);
  } else if (!flags.choices.empty()) {
    for (const std::string& choice : flags.choices) {
      request->mutable_grammar()->mutable_choice()->add_texts(choice);
    }
  } else if (!flags.grammar.empty()) {
    TUTTI_ASSIGN_OR_RETURN(std::string rules, ReadText(flags.grammar, kGrammarFileBytesMax));
    request->mutable_grammar()->set_ebnf(std::move(rules));
  } else if (flags.blanks) {
    return absl::InvalidArgumentError(
        "--json-blanks is of JSON: give --json-schema FILE or --json-object too");
  }
  if (flags.blanks) request->mutable_grammar()->set_whitespace(v1::GRAMMAR_WHITESPACE_BOUNDED);
  return absl::OkStatus();
}

}  // namespace tutti::client
