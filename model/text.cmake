# The text side of model/: tokenizer, detokenizer, chat template.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

tutti_library(text
  SOURCES added_tokens.cc byte_alphabet.cc byte_pairs.cc pretokenizer.cc split_pattern.cc text_file.cc
          tokenizer.cc tokenizer_spec.cc unicode.cc vocabulary.cc vocabulary_json.cc
  DEPS tutti_base absl::flat_hash_map absl::flat_hash_set absl::inlined_vector absl::function_ref
       absl::str_format nlohmann_json::nlohmann_json PkgConfig::PCRE2 PkgConfig::UTF8PROC)
