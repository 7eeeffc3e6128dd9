// A vocabulary of short texts for tests, of any size, and grammars that are fit for it.
#pragma once

#include <cstdint>
#include <string>

#include "proto/peer_messages.h"

namespace tutti::worker {

// Ends an answer; what its bytes are is of no matter.
inline constexpr int32_t kToyEnd = 0;

// Id 0 ends; the next 95 are the characters of ASCII; all others have two of those that JSON is
// made of, so that several ids have the same text.
inline std::string ToyText(int32_t id) {
  constexpr std::string_view kParts = "{}[]\",:0123456789truefalsn";
  if (id == kToyEnd) return "<end>";
  if (id < 96) return std::string(1, static_cast<char>(' ' + id - 1));
  const auto number = static_cast<size_t>(id) - 96;
  return {kParts[number % kParts.size()], kParts[number / kParts.size() % kParts.size()]};
}

inline v1::Vocabulary ToyVocabulary(int32_t size) {
  v1::Vocabulary vocabulary;
  for (int32_t id = 0; id < size; ++id) {
    vocabulary.mutable_text()->append(ToyText(id));
    vocabulary.add_lengths(static_cast<uint32_t>(ToyText(id).size()));
  }
  vocabulary.add_end_ids(kToyEnd);
  return vocabulary;
}

// One of some grammars; sets the sampling's end too.
inline void SetToyGrammar(int number, v1::SequenceSampling* sampling) {
  v1::SequenceGrammar& grammar = *sampling->mutable_grammar();
  sampling->add_end_ids(kToyEnd);
  switch (number % 4) {
    case 0:
      grammar.set_kind(v1::GRAMMAR_KIND_JSON_SCHEMA);
      grammar.set_text(R"({"type":"object","properties":{"a":{"type":"integer"},)"
                       R"("b":{"type":"array","items":{"type":"boolean"}}},"required":["a"]})");
      break;
    case 1:
      grammar.set_kind(v1::GRAMMAR_KIND_REGEX);
      grammar.set_text("[a-f]{2,8}(true|false)[0-9]*");
      break;
    case 2:
      grammar.set_kind(v1::GRAMMAR_KIND_CHOICE);
      grammar.set_text(R"(["true","truest","false","a long answer: none"])");
      break;
    default:
      grammar.set_kind(v1::GRAMMAR_KIND_JSON_OBJECT);
      grammar.set_blanks(true);
  }
}

}  // namespace tutti::worker
