// The bounds of everything this folder reads from outside, each with its derivation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

// --- Text: tokenizer, detokenizer, chat template ---

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

// Bytes of what one character of a text becomes by the normalization table of a sentencepiece
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

// Macros that are being called at once. Each level may take kTemplateDepthMax frames of the
// evaluator.
inline constexpr int kTemplateMacroDepthMax = 8;

// Longest text a template renders, and longest string it makes on the way: what can be encoded.
inline constexpr size_t kTemplateOutputBytesMax = kEncodeBytesMax;

// Work of one rendering: one step for every node evaluated, list item visited and 16 bytes of
// string made. Qwen3's template takes about 60 steps for a message and copies its text five times,
// so 10,000 messages with 16 MiB of text take 6 million. The limit also bounds the memory of
// strings made to 16 bytes a step.
inline constexpr int64_t kTemplateStepsMax = 20'000'000;
inline constexpr int64_t kTemplateBytesPerStep = 16;

// --- Facts: configuration, checkpoint files ---

// Largest config.json or generation_config.json. Real ones have 1 kB; one with a long id-to-label
// map about 1 MB.
inline constexpr int64_t kConfigBytesMax = 4 << 20;

// Nesting in any JSON file about a model. A config.json has 3 levels, a safetensors header 3.
inline constexpr int kJsonDepthMax = 32;

// Sizes in a configuration. Each is at least eight times the largest published model's (hidden
// 18,432 in PaLM, intermediate 73,728, 126 layers and 128 heads in Llama 3.1 405B, vocabulary
// 262,144, context 10 M in Llama 4), and their product in any tensor stays far below 2^63: vocab *
// hidden * 4 bytes = 2^21 * 2^18 * 2^2 = 2^41, times 2^10 layers = 2^51.
inline constexpr int64_t kHiddenSizeMax = 1 << 18;
inline constexpr int64_t kIntermediateSizeMax = 1 << 20;
inline constexpr int64_t kNumLayersMax = 1 << 10;
inline constexpr int64_t kNumHeadsMax = 1 << 10;
inline constexpr int64_t kHeadDimMax = 1 << 10;
inline constexpr int64_t kVocabSizeMax = 1 << 21;
inline constexpr int64_t kContextMax = 1 << 27;

// Experts of a layer. The largest published mixtures have 512; their tensors are bounded by
// kTensorsMax too.
inline constexpr int64_t kExpertsMax = 1 << 12;

// A norm's epsilon: 1e-12 to 1e-5 are in use. Above 0.1 it would decide the result of a norm of
// ordinary activations. Below 1e-15 it would vanish in f32 beside a mean square of 1e-8, and an
// all-zero row would be divided by zero.
inline constexpr double kNormEpsilonMin = 1e-15;
inline constexpr double kNormEpsilonMax = 0.1;
// The smallest base that turns no pair faster than one radian per position; the largest in use is
// 1e8 or so.
inline constexpr double kRopeThetaMin = 1.0;
inline constexpr double kRopeThetaMax = 1e12;

// How far a scaled rotary embedding stretches a context: published ones by up to 64. The bounds of
// YaRN's and Llama 3's other numbers are as wide; the formulas stay finite within them.
inline constexpr double kRopeFactorMax = 1e4;
inline constexpr double kRopeNumberMin = 1e-3;

// Tokens that end an answer. Published models have 1 to 3.
inline constexpr size_t kEosTokensMax = 64;

// Sampling values in a generation_config.json: the bounds of the same fields of a request.
inline constexpr double kAdvisedTemperatureMax = 100.0;
inline constexpr double kAdvisedPenaltyMax = 100.0;

// The limit of the format's own reference reader.
inline constexpr int64_t kSafetensorsHeaderBytesMax = 100'000'000;

// Tensors of one checkpoint. The largest published ones (mixtures of 256 experts in 61 layers,
// three matrices with a scale each) have about 95,000. At some 250 bytes for each in our tables
// this bounds them to 130 MB.
inline constexpr int64_t kTensorsMax = 1 << 19;

// Dimensions of a tensor; a language model has 1 and 2, convolutions 4 and 5.
inline constexpr size_t kTensorRankMax = 8;

// A model.safetensors.index.json: kTensorsMax names of about 100 bytes are 50 MB; this is twice
// that.
inline constexpr int64_t kIndexBytesMax = 100'000'000;

// Shards of one checkpoint. The largest published one has 191.
inline constexpr size_t kShardFilesMax = 4096;

// Ranks share the vocabulary in units of this many rows: the row multiple of packed weights, so
// that only the last rank pads.
inline constexpr int64_t kVocabSplitRows = 64;

// Tokenizer files as hashed by the fingerprint: the tokenizer's own limit.
inline constexpr int64_t kFingerprintFileBytesMax = kTokenizerFileBytesMax;
// Bytes hashed at each end of a tensor. Two kernel pages per tensor are read for it, so 300 tensors
// cost about 10 ms from a cold disk and well under 1 ms from the page cache.
inline constexpr int64_t kFingerprintSampleBytes = 64;

}  // namespace tutti
