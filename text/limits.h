// The bounds of everything this folder reads from outside, each with its derivation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::text {

// Longest text one call encodes. The longest context we know of is 262,144 tokens (Qwen3-2507) and
// a token of ordinary text is about 4 bytes; 32 MiB is 32 times that, so it never limits a prompt
// that fits.
inline constexpr size_t kEncodeBytesMax = 32 << 20;

// Largest tokenizer.json, vocab.json or merges.txt read. Qwen's tokenizer.json has 11 MB, the
// largest published byte-level one we know (256k tokens) about 33 MB.
inline constexpr size_t kTokenizerFileBytesMax = 64 << 20;

// Largest tokenizer_config.json or chat_template.jinja file. Qwen3's has 10 kB; those with 1,000
// added tokens written out have about 200 kB.
inline constexpr size_t kTextConfigFileBytesMax = 4 << 20;

// Largest token id accepted from a vocabulary. Published vocabularies end at 262,144; four times
// that bounds the arrays indexed by id to a few MB.
inline constexpr int64_t kTokenIdMax = 1 << 20;

// Bytes of a token in vocabularies whose merges follow from ranks: each is cut at every place and
// both halves looked up, so the cost grows with the square. The longest in qwen.tiktoken has 128
// bytes, in Llama 2's model 48.
inline constexpr size_t kRankedTokenBytesMax = 512;

// Longest line of a qwen.tiktoken: a token of kRankedTokenBytesMax bytes in base64 (4 characters
// for 3 bytes), a space, and a rank below kTokenIdMax.
inline constexpr size_t kTiktokenLineBytesMax = 700;

// Bytes that one character of a text becomes by the normalization table of a sentencepiece
// model. The longest in Unicode's NFKC is 33 (U+FDFA); with it bounds how much longer a text may
// become.
inline constexpr size_t kCharacterMapTargetBytesMax = 64;

// Tokens put before every prompt. Published tokenizers have one or two.
inline constexpr size_t kPromptPrefixTokensMax = 16;

// Added tokens of a vocabulary and bytes of each. Qwen 1 has 208, Llama 3 has 256 of at most 29
// bytes, Gemma 6,400. Together they bound the matcher to 4 million states.
inline constexpr size_t kAddedTokensMax = 16384;
inline constexpr size_t kAddedTokenBytesMax = 256;

// Nesting of JSON objects and arrays in tokenizer.json (a real one has 5) and in messages and tools
// given to a template (tool schemas have about 10). Values are walked recursively, so this bounds
// stack.
inline constexpr int kTextJsonDepthMax = 64;

// Bytes of a call's arguments that are read although they were cut off: they are tried some times.
inline constexpr size_t kCutJsonBytesMax = 64 << 10;

// Longest split pattern. Qwen's has 117 bytes, the longest published one (Llama 4) about 400.
inline constexpr size_t kSplitPatternBytesMax = 4096;

// Work PCRE2 may spend on finding one pretoken before it gives up (its own unit, about one
// backtracking point). The published patterns take at most three for each byte of the text,
// which has at most kEncodeBytesMax.
inline constexpr uint32_t kSplitMatchLimit = 100'000'000;

// Stop strings of one request and bytes of each. 64 x 1,024 bytes make an automaton of at most
// 65,537 states; APIs in use allow 4 to 16 strings of a few words.
inline constexpr size_t kStopStringsMax = 64;
inline constexpr size_t kStopStringBytesMax = 1024;

// Largest chat template source. Qwen3's has 4 kB, the largest published ones about 30 kB.
inline constexpr size_t kTemplateBytesMax = 256 << 10;

// Nesting of blocks and expressions in a template. One level costs the parser about six stack
// frames (one per precedence) of 200 bytes and the evaluator three: 128 levels stay below 256 KiB
// of stack.
inline constexpr int kTemplateDepthMax = 128;

// Bodies and expressions that are being evaluated inside each other, those of macros that call
// each other included: ten times what one expression or body may nest. A macro that calls itself in
// an if in a for takes six; schemas of tools nest about ten deep, and at most kTextJsonDepthMax.
// Each takes up to 1 KiB of stack.
inline constexpr int kTemplateLevelsMax = 10 * kTemplateDepthMax;

// Decimal digits of an integer: where Python refuses to write one, too.
inline constexpr int64_t kTemplateIntegerDigitsMax = 4300;

// Width and precision of a formatted value: more digits than any number has.
inline constexpr int kTemplateFormatWidthMax = 4300;

// Items of range(): the limit of Jinja's sandbox.
inline constexpr int64_t kTemplateRangeItemsMax = 100'000;

// Longest text a template renders, and longest string it makes on the way: the encoder's limit.
inline constexpr size_t kTemplateOutputBytesMax = kEncodeBytesMax;

// Work of one rendering: one step for every node evaluated, list item visited and 16 bytes of
// string made. Qwen3's template takes about 60 steps for a message and copies its text five times,
// so 10,000 messages with 16 MiB of text take 6 million. The limit also bounds the memory of
// strings made to 16 bytes a step.
inline constexpr int64_t kTemplateStepsMax = 20'000'000;
inline constexpr int64_t kTemplateBytesPerStep = 16;

}  // namespace tutti::text
