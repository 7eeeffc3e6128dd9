// The bounds of grammars, each with its derivation. All that a source can make us hold or do
// follows from them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::grammar {

// Bytes of a source. 10,000 properties with a name and a type each take about 500 kB; the largest
// schema of JSON Schema Store's catalogue has 1.2 MB, 99 of 100 below 200 kB.
inline constexpr size_t kSourceBytesMax = 1 << 20;

// Nesting of a source's JSON, parentheses of a regular expression or of a grammar. They are read
// recursively, a few hundred bytes of stack a level.
inline constexpr int kSourceDepthMax = 128;

// Bytes of the marks around a preface.
inline constexpr size_t kPrefaceBytesMax = 256;

// Bytes of the strings of one %without, and entries of the tables of all: 4 MB.
inline constexpr size_t kSearchBytesMax = 1024;
inline constexpr size_t kSearchEntriesMax = 1'000'000;

// JSON values of a source, each held as a node of 136 bytes: 27 MB at most.
inline constexpr size_t kSourceValuesMax = 200'000;

// Bytes of one regular expression: the longest `pattern` known to us has 8 kB.
inline constexpr size_t kRegexBytesMax = 64 << 10;

// Instructions of one regular expression after its counted repetitions are written out, and of all
// of a grammar. `^[a-z]{1,63}$` has 130.
inline constexpr size_t kRegexInstructionsMax = 20'000;
inline constexpr size_t kRegexInstructionsAllMax = 200'000;

// Count of a counted repetition: beyond it no expression fits the instructions.
inline constexpr int64_t kRegexCountMax = 10'000;

// Ranges of characters in one class, and places where the classes of a machine begin or end.
inline constexpr size_t kCharRangesMax = 4096;

// States of an automaton that is explored whole because several expressions or lengths meet in it,
// and transitions computed for that: 100,000 take about 10 ms.
inline constexpr size_t kExploredStatesMax = 4096;
inline constexpr size_t kExploredStepsMax = 100'000;

// Lengths for which an explored automaton is asked whether they can still be reached; beyond them
// the answer must have become periodic, or the grammar is refused.
inline constexpr size_t kExploredLengthsMax = 8192;

// Nodes and rules of a grammar: 10,000 properties take 20,000.
inline constexpr size_t kNodesMax = 300'000;
inline constexpr size_t kRulesMax = 100'000;

// Properties of an object.
inline constexpr size_t kPropertiesMax = 20'000;

// Alternatives that the unions (anyOf, oneOf) of one place make when each meets each.
inline constexpr size_t kAlternativesMax = 512;

// Patterns of patternProperties that may meet in one key: every set of them is an alternative.
inline constexpr size_t kKeyPatternsMax = 4;

// Schemas that allOf and $ref bring together in one place.
inline constexpr size_t kConjunctsMax = 256;

// Units of work of making a grammar (build_work.h), where whoever asks gives no less: less than
// 100 ms. Of 8,845 schemas of MaskBench none takes a third of them; 10,000 properties take nearly
// all.
inline constexpr int64_t kBuildWorkMax = 2'900'000;

// ... where others wait meanwhile, at the service and on a worker: 3 to 5 ms, enough for 99 of 100
// schemas of MaskBench. What takes more is made on a thread so many steps of `nice` below all
// others: beside threads that compute it has 3 % of a processor.
inline constexpr int64_t kQuickBuildWork = 150'000;
inline constexpr int kPatientNiceSteps = 15;

// Characters of a number: a double that is written out has at most 1,075.
inline constexpr size_t kNumberCharactersMax = 1'100;

// Digits of a number before its point, and behind it. A double has at most 309 before it.
inline constexpr int kNumberDigitsMax = 320;

// Digits that count of a number with a minimum or a maximum: decimals of 15 digits are told apart
// by doubles, so that no reader's rounding carries one across a bound.
inline constexpr int kBoundedDigitsMax = 15;

// Largest divisor of an integer: ten times a remainder stays within 64 bits.
inline constexpr int64_t kStepMax = 100'000'000'000'000'000;

// Largest bound of an integer, from zero: what 64 bits hold.
inline constexpr uint64_t kIntegerBoundMax = UINT64_MAX;

// Bytes of whitespace between two parts of a JSON text, where the caller asks for it.
inline constexpr int kWhitespaceBytesMax = 24;

// Work of one operation of a matcher, in readings made or looked at, as if nothing were remembered;
// one takes some 20 to 100 ns. Masks of strings by patterns have been seen to take 300,000; those
// of sources made to take long take 44 ms before they are refused.
inline constexpr int64_t kOperationWorkMax = 600'000;

// Open calls of a text: an object or array within another is one or two. Texts that nest deeper are
// none of the grammar, whatever it says; Python's own reader of JSON goes to 1,000 levels. So what
// is kept because a text is there has a bound, 64 kB.
inline constexpr uint32_t kTextDepthMax = 1'024;

// Readings of one state: ways in which the text so far can be read. Those schemas have at most 100.
inline constexpr size_t kReadingsMax = 2'000;

// Bytes that an automaton holds of states and of masks before it forgets them; they are made again
// when they are needed. One operation may take as much again, and so may what is kept because texts
// are there: some 60 bytes for each of their open calls, so of 256 texts, each as deep as may be,
// half of it. A mask over 151,936 tokens has 19 kB at most.
inline constexpr size_t kAutomatonBytesMax = 16 << 20;
inline constexpr size_t kMaskBytesMax = 8 << 20;

// Places of a text that its matcher keeps: so many of its last ones, that drafts may be taken back,
// and before them one in so many bytes, from which it reads again where more is taken back.
inline constexpr size_t kLastPlaces = 32;
inline constexpr size_t kPlaceBytes = 1024;

// Longest token that a mask may allow; the longest of Qwen's has 128 bytes. Counters that are
// farther from their bounds than this allow the same tokens.
inline constexpr size_t kTokenBytesMax = 256;

// Units of work between two looks at the clock, where an operation has an end of time: 0.1 ms.
inline constexpr int64_t kWorkBetweenLooks = 2'048;

// Bytes of text that a matcher follows: 262,144 tokens of 16 bytes.
inline constexpr size_t kTextBytesMax = 4 << 20;

}  // namespace tutti::grammar
