// The bounds of everything this folder reads from outside, each with its derivation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/limits.h"

namespace tutti::model {

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

// The bound on how far a scaled rotary embedding stretches a context: published ones by up to 64.
// The bounds of YaRN's and Llama 3's other numbers are as wide; the formulas stay finite within
// them.
inline constexpr double kRopeFactorMax = 1e4;
inline constexpr double kRopeNumberMin = 1e-3;

// Tokens that end an answer. Published models have 1 to 3.
inline constexpr size_t kEosTokensMax = 64;

// Formats of quantised matrices in one checkpoint: published ones have two or three.
inline constexpr size_t kQuantFormatsMax = 16;

// Sampling values in a generation_config.json: the bounds of the same fields of a request.
inline constexpr double kAdvisedTemperatureMax = 100.0;
inline constexpr double kAdvisedPenaltyMin = 0.01;
inline constexpr double kAdvisedPenaltyMax = 100.0;

// The limit of the format's own reference reader.
inline constexpr int64_t kSafetensorsHeaderBytesMax = 100'000'000;

// Tensors of one checkpoint. The largest published ones (mixtures of 256 experts in 61 layers,
// three matrices with a scale each) have about 95,000. At some 250 bytes for each in our tables
// this bounds them to 130 MB.
inline constexpr int64_t kTensorsMax = 1 << 19;

// Read at once of each of two tensors that are compared: large enough that the disk is the limit.
inline constexpr int64_t kCompareChunkBytes = 4 << 20;

// Characters and values of an index outside of its weight_map. Published ones have the total size,
// some 40 bytes.
inline constexpr int64_t kIndexMetadataMax = 1 << 20;

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
inline constexpr int64_t kFingerprintFileBytesMax = text::kTokenizerFileBytesMax;
// Bytes hashed at each end of a tensor. Two kernel pages per tensor are read for it, so 300 tensors
// cost about 10 ms from a cold disk and well under 1 ms from the page cache.
inline constexpr int64_t kFingerprintSampleBytes = 64;

// ---- digests of the checkpoint (chunk_digest.h)

// Bytes of a file that have one digest. Both ends of a control link must agree on it. It fits into
// the second-level cache of a processor, so that bytes are hashed while they are still there; a
// checkpoint of 140 GB has 134,000 chunks, 2.1 MB of digests.
inline constexpr int64_t kDigestChunkBytes = int64_t{1} << 20;
inline constexpr int64_t kChunkDigestBytes = 16;

// Chunks at the edges of tensors that are kept for each reader while their neighbours are read: the
// tensors of a layer lie beside each other, and few of them are read at once.
inline constexpr size_t kEdgeChunksKept = 8;

// Bytes of a worker's report about the chunks it read: a frame without its payload has 8 MiB at
// most and 2^18 fields, of which a run takes 4. 7 MiB are the digests of 448 GiB read by one
// worker, less the names of their files.
inline constexpr int64_t kReportBytesMax = int64_t{7} << 20;
inline constexpr int64_t kReportedRunsMax = 1 << 15;
// The bytes of a run beside its file's name and its digests: tags and lengths, rounded up.
inline constexpr int64_t kReportedRunOverheadBytes = 32;

// A cache of digests: those of 4 TiB, and the names of kShardFilesMax files.
inline constexpr int64_t kDigestCacheBytesMax = int64_t{80} << 20;
inline constexpr int64_t kCheckpointFileNameBytesMax = 255;
// Names in a folder among which weights are looked for, to say what is there.
inline constexpr size_t kFolderEntriesMax = 1000;
// Below this many bytes a checkpoint is hashed anew at every start, which takes some 100 ms at
// most, and leaves no cache behind.
inline constexpr int64_t kCachedCheckpointBytesMin = int64_t{256} << 20;
// A file that changed less than this before it was hashed is not cached: a second change within the
// same tick of the file system's clock would not show in its times. FAT counts in 2 s.
inline constexpr int64_t kSettledFileNanoseconds = int64_t{2'000'000'000};
// Threads that hash; one reads and hashes some 3 GB/s of cached pages, and disks that are faster
// than four of them are rare.
inline constexpr int kDigestThreadsMax = 4;

}  // namespace tutti::model
