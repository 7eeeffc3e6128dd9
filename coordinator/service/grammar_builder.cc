#include "coordinator/service/grammar_builder.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/limits.h"
#include "coordinator/service/prompt_reasoning.h"
#include "grammar/grammar.h"
#include "grammar/limits.h"

namespace tutti::coordinator {
namespace {

absl::Status BadGrammar(std::string_view path, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("grammar",
                                                 absl::string_view(path.data(), path.size()),
                                                 absl::string_view(what.data(), what.size())));
}

absl::Status CheckBytes(std::string_view path, size_t bytes, int64_t most) {
  if (static_cast<int64_t>(bytes) <= most) return absl::OkStatus();
  return BadGrammar(path, absl::StrCat(" has ", bytes, " bytes, the limit is ", most));
}

absl::Status CheckChoice(const v1::Choice& choice) {
  if (choice.texts_size() < 1 || choice.texts_size() > kChoiceTextsMax) {
    return BadGrammar(".choice.texts", absl::StrCat(" has ", choice.texts_size(),
                                                    " texts, it must have 1 to ", kChoiceTextsMax));
  }
  for (int i = 0; i < choice.texts_size(); ++i) {
    const std::string path = absl::StrCat(".choice.texts[", i, "]");
    if (choice.texts(i).empty()) return BadGrammar(path, " is empty");
    TUTTI_RETURN_IF_ERROR(CheckBytes(path, choice.texts(i).size(), grammar::kSourceBytesMax));
  }
  return absl::OkStatus();
}

absl::Status CheckSource(const v1::Grammar& grammar) {
  constexpr int64_t kMost = grammar::kSourceBytesMax;
  switch (grammar.source_case()) {
    case v1::Grammar::kJsonSchema:
      return CheckBytes(".json_schema", grammar.json_schema().size(), kMost);
    case v1::Grammar::kRegex:
      return CheckBytes(".regex", grammar.regex().size(), kMost);
    case v1::Grammar::kEbnf:
      return CheckBytes(".ebnf", grammar.ebnf().size(), kMost);
    case v1::Grammar::kChoice:
      return CheckChoice(grammar.choice());
    case v1::Grammar::kJsonObject:
      return absl::OkStatus();
    case v1::Grammar::SOURCE_NOT_SET:
      break;
  }
  return BadGrammar("", ": one of json_schema, json_object, regex, choice and ebnf must be set");
}

struct NamedSource {
  grammar::GrammarSource source;
  v1::GrammarKind kind = v1::GRAMMAR_KIND_UNSPECIFIED;
  std::string_view field;
};

NamedSource SourceOf(const v1::Grammar& grammar) {
  using grammar::SourceKind;
  switch (grammar.source_case()) {
    case v1::Grammar::kJsonObject:
      return {{SourceKind::kJsonObject}, v1::GRAMMAR_KIND_JSON_OBJECT, "json_object"};
    case v1::Grammar::kRegex:
      return {{SourceKind::kRegex, grammar.regex()}, v1::GRAMMAR_KIND_REGEX, "regex"};
    case v1::Grammar::kChoice: {
      const nlohmann::json texts(std::vector<std::string>(grammar.choice().texts().begin(),
                                                          grammar.choice().texts().end()));
      return {{SourceKind::kChoice, texts.dump()}, v1::GRAMMAR_KIND_CHOICE, "choice"};
    }
    case v1::Grammar::kEbnf:
      return {{SourceKind::kEbnf, grammar.ebnf()}, v1::GRAMMAR_KIND_EBNF, "ebnf"};
    default:
      return {{SourceKind::kJsonSchema, grammar.json_schema()},
              v1::GRAMMAR_KIND_JSON_SCHEMA,
              "json_schema"};
  }
}

// The client's, or for a chat what its template has made of the prompt.
v1::GrammarPreface PrefaceFor(const v1::GenerateRequest& message, std::span<const TokenId> prompt,
                              const ServedModel& model) {
  if (message.grammar().has_preface()) return message.grammar().preface();
  if (!message.has_chat() || !model.chat_template.ok()) return {};
  return PrefaceOf(ReasoningOf(prompt, *model.tokenizer), model.chat_template->source());
}

// The special tokens that a grammar asks for, which is made unless it is known.
absl::StatusOr<std::vector<std::string>> SpecialsOf(const grammar::GrammarSource& source,
                                                    const std::string& path,
                                                    const std::string& digest,
                                                    const GrammarMeans& means) {
  std::optional<std::vector<std::string>> known;
  if (means.known != nullptr) known = means.known->Find(digest);
  if (known.has_value()) return *std::move(known);
  const auto made = grammar::Grammar::Create(source, /*work=*/nullptr, means.work_max);
  if (absl::IsAborted(made.status())) return made.status();
  if (!made.ok()) {
    // Its words begin with a name of its own.
    const std::string words(made.status().message());
    return BadGrammar(path, words.substr(std::min(words.find(": "), words.size())));
  }
  if (means.known != nullptr) means.known->Add(digest, (*made)->specials());
  return (*made)->specials();
}

}  // namespace

absl::Status CheckGrammar(const v1::Grammar& grammar, const ServedModel& model) {
  TUTTI_RETURN_IF_ERROR(CheckSource(grammar));
  if (!v1::GrammarWhitespace_IsValid(grammar.whitespace())) {
    return BadGrammar(".whitespace", absl::StrCat(" is ", static_cast<int>(grammar.whitespace()),
                                                  ", which is no value of it"));
  }
  TUTTI_RETURN_IF_ERROR(
      CheckBytes(".preface.open", grammar.preface().open().size(), grammar::kPrefaceBytesMax));
  TUTTI_RETURN_IF_ERROR(
      CheckBytes(".preface.close", grammar.preface().close().size(), grammar::kPrefaceBytesMax));
  if (grammar.preface().close().empty() && !grammar.preface().open().empty()) {
    return BadGrammar(".preface.close", " is empty, and open is not: a preface has an end");
  }
  if (model.vocabulary == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("grammar: model '", model.name,
                     model.tokenizer == nullptr ? "' has no tokenizer files, so its answers have "
                                                  "no text"
                                                : "' has more texts of tokens than a link takes"));
  }
  if (model.generation.eos_token_ids.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("grammar: model '", model.name, "' has no token that ends an answer"));
  }
  return absl::OkStatus();
}

absl::StatusOr<BuiltGrammar> BuildGrammar(const v1::GenerateRequest& message,
                                          std::span<const TokenId> prompt, const ServedModel& model,
                                          const GrammarMeans& means) {
  NamedSource named = SourceOf(message.grammar());
  const bool blanks = message.grammar().whitespace() == v1::GRAMMAR_WHITESPACE_BOUNDED;
  named.source.whitespace = blanks ? grammar::Whitespace::kBounded : grammar::Whitespace::kCompact;
  const v1::GrammarPreface preface = PrefaceFor(message, prompt, model);
  named.source.preface = {.open = preface.open(), .close = preface.close()};
  const std::string path =
      absl::StrCat(".", absl::string_view(named.field.data(), named.field.size()));
  const grammar::Grammar::Digest digest = grammar::Grammar::DigestOf(named.source);
  BuiltGrammar built;
  built.digest = std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> specials,
                         SpecialsOf(named.source, path, built.digest, means));
  for (const std::string& special : specials) {
    if (model.tokenizer->SpecialId(special).has_value()) continue;
    return BadGrammar(path, absl::StrCat(": %special \"", special,
                                         "\" is no special token of model '", model.name, "'"));
  }
  built.source.set_kind(named.kind);
  built.source.set_text(std::move(named.source.text));
  built.source.set_blanks(blanks);
  built.source.set_preface_open(preface.open());
  built.source.set_preface_close(preface.close());
  return built;
}

}  // namespace tutti::coordinator
