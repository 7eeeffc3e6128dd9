# Masks of grammars over a vocabulary: grammar_bench MODEL_DIR SCHEMA..., or --hostile
tutti_binary(grammar_bench SOURCES grammar_bench.cc DEPS tutti_grammar tutti_grammar_testing tutti_text)
