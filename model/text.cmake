# The text side of model/: tokenizer, detokenizer, chat template.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

tutti_library(text
  SOURCES added_tokens.cc byte_alphabet.cc builtin_templates.cc byte_pairs.cc character_map.cc
          chat_template.cc detokenizer.cc
          jinja_arguments.cc jinja_arithmetic.cc jinja_evaluator.cc jinja_expression_parser.cc
          jinja_filters.cc jinja_format.cc jinja_lexer.cc jinja_methods.cc jinja_operations.cc
          jinja_parser.cc jinja_strings.cc jinja_tests.cc jinja_text.cc jinja_token_reader.cc
          jinja_value.cc merge_rules.cc pretokenizer.cc sentencepiece_file.cc split_pattern.cc
          stop_matcher.cc text_fields.cc text_file.cc text_normalizer.cc tiktoken_file.cc
          tokenizer.cc tokenizer_json.cc tokenizer_spec.cc unicode.cc vocabulary.cc
          vocabulary_json.cc wire_reader.cc
  DEPS tutti_base absl::flat_hash_map absl::flat_hash_set absl::inlined_vector absl::function_ref
       absl::str_format absl::time nlohmann_json::nlohmann_json PkgConfig::PCRE2 PkgConfig::UTF8PROC)

tutti_test(unicode_test SOURCES unicode_test.cc DEPS tutti_text)
tutti_test(pretokenizer_test SOURCES pretokenizer_test.cc DEPS tutti_text)
tutti_test(byte_pairs_test SOURCES byte_pairs_test.cc DEPS tutti_text)
tutti_test(tokenizer_test SOURCES tokenizer_test.cc DEPS tutti_text)
tutti_test(tokenizer_kinds_test SOURCES tokenizer_kinds_test.cc DEPS tutti_text)
tutti_test(detokenizer_test SOURCES detokenizer_test.cc stop_matcher_test.cc DEPS tutti_text)
tutti_test(text_golden_test SOURCES family_text_golden_test.cc text_golden_test.cc DEPS tutti_text)
tutti_test(jinja_test SOURCES jinja_test.cc DEPS tutti_text)
tutti_test(chat_template_test SOURCES chat_template_test.cc DEPS tutti_text)
