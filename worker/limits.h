// Every bound of the worker, with its derivation. Frames that arrive are checked against these
// before memory is spent on them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "transport/limits.h"

namespace tutti::worker {

// Activations are cut into whole rows of at most transport::kPayloadChunkBytes together, so one row
// must fit: 262,144 values of 32 bits, far above any hidden size.
inline constexpr int64_t kActivationRowBytesMax = transport::kPayloadChunkBytes;

// Steps a worker keeps that it cannot run yet. A coordinator keeps about one step per stage in
// flight and one or two more to hide the control round trip; twice the stages and a handful is
// never reached in good order.
inline constexpr int32_t StepsAheadMax(int32_t num_stages) { return 2 * num_stages + 8; }

// Activation frames kept for an epoch whose assign_shard has not come yet. The previous stage can
// be at most one pipeline fill ahead; 64 MiB is 16 steps of 512 rows of 8 KiB.
inline constexpr int64_t kEarlyActivationBytesMax = int64_t{64} << 20;
inline constexpr int64_t kEarlyActivationFramesMax = 1024;

// Stages and ranks of a pipeline: more than any model has layers, small enough that products of
// limits fit 32 bits.
inline constexpr int32_t kStagesMax = 1024;
// KV slots per block: a multiple of 16 so that attention tiles never straddle blocks unevenly.
inline constexpr int32_t kBlockSizeMultiple = 16;
inline constexpr int32_t kBlockSizeMax = 4096;
// Blocks of a shard: 2^30 tokens in blocks of 16. With the largest block, 2^20 values per key and
// f32 the cache of a layer stays at 2^61 bytes, so sizes fit int64_t before memory says no.
inline constexpr int32_t kBlocksMax = 1 << 26;
// Rows of one step. 65,536 rows of 8,192 f32 values are 2 GiB; no larger one is of use.
inline constexpr int32_t kBatchTokensMax = 1 << 16;
inline constexpr int32_t kSequencesMax = 1 << 16;
// Positions are 32-bit and must survive being doubled.
inline constexpr int32_t kModelLenMax = 1 << 30;

// Biased token ids of one sequence, and alternatives reported per token, that a plan may carry. A
// client may ask for fewer of both (door/limits.h); these only bound the cost of a step.
inline constexpr int32_t kPlanBiasIdsMax = 1 << 16;
inline constexpr uint32_t kPlanTopLogprobsMax = 1024;
// Guessed tokens of one sequence in a step; the coordinator has fewer.
inline constexpr int32_t kPlanGuessesMax = 64;
// Rows that the draft model computes behind a step at most, beside as many as the step itself has
// of the sequences that it goes on with: others wait until it has.
inline constexpr int32_t kDraftRowsBehindMax = 256;
// For the same reason: tokens that end the output, rows of tokens that it must not have, and the
// tokens of all of these. Those that it may have are in order, at most the vocabulary.
inline constexpr int32_t kPlanEndIdsMax = 1 << 16;
inline constexpr int32_t kPlanBannedMax = 1 << 12;
inline constexpr int64_t kPlanBannedIdsMax = 1 << 17;

// ---- answers by grammars (sampling/grammar_cache.h)

// Bytes of all automata, and of grammars that no answer uses: four of the largest automata
// (grammar/limits.h), or some hundred of ordinary ones. They come out of the tenth of the machine
// that no plan uses (kMemoryShare).
inline constexpr int64_t kGrammarBytesMax = int64_t{256} << 20;
// Grammars held; beyond it those that no answer uses go. As many as sequences usually run.
inline constexpr int64_t kGrammarsKept = 256;
// What a source is written out to beside its graph's nodes: texts, and expressions as instructions.
inline constexpr size_t kGrammarBytesPerSourceByte = 8;
// Tokens of an output that is read again between two signs of life: one takes 5 ms, and some of
// grammars that are made for it 20, of the second in which the executor must be heard of.
inline constexpr size_t kFedTokensPerTell = 16;
// The one that waits for a mask looks this often whether the maker moves.
inline constexpr std::chrono::milliseconds kMaskLookInterval{50};
// The time of one mask, or of one token that is read, beside the steps of others; of MaskBench's
// masks the longest takes 3.6 ms. What takes more is made by the patient maker
// (sampling/grammar_pool.h).
inline constexpr std::chrono::milliseconds kQuickMaskTime{2};
// And for the masks of an answer in the mean, of at least so many.
inline constexpr std::chrono::microseconds kQuickMeanMaskTime{500};
inline constexpr int64_t kMasksOfMean = 16;
// Masks of answers whose masks take less in the mean go before all others: half of MaskBench's take
// 3 us, one in a hundred 220.
inline constexpr std::chrono::microseconds kProvenMaskTime{100};
// Outputs that are read again give others a turn after this time; the patient maker's later.
inline constexpr std::chrono::milliseconds kQuickTurn{2};
inline constexpr std::chrono::milliseconds kPatientTurn{50};
// The time that a step waits in all for masks of rows beside others that have all they need: 1 %
// of a step of 50 ms. Where no row has. And for those of rows behind right guesses, which are asked
// for then: some 200 of the usual ones.
inline constexpr std::chrono::microseconds kLateMaskGrace{500};
inline constexpr std::chrono::milliseconds kLateMaskPatience{10};
inline constexpr std::chrono::microseconds kGuessedMaskGrace{1000};
// A maker that has not moved for so long is stuck; the longest that one job has been seen to take
// beside three processes that compute is 4 s.
inline constexpr std::chrono::seconds kMaskMakerStuckAfter{60};

// Sequences of one step whose loss of numbers is traced to a layer. It is the checkpoint's doing
// and the same for many requests: the first few tell all there is to know.
inline constexpr int64_t kNumericFaultsMax = 16;

// A GPU's id as a file's name, and who has taken it: ours are 40 bytes and a worker's id.
inline constexpr size_t kDeviceIdBytesMax = 64;
inline constexpr size_t kDeviceHolderBytesMax = 256;

// The time for which sent memory may stay with the transport after its receiver has answered. The
// answer came through the same threads, so this is scheduling noise; a second of it is a machine
// that stands.
inline constexpr std::chrono::milliseconds kSentBufferPatience{1000};

// Exchanges of devices between two agreements of the hosts. A device holds about 1,024 operations
// that wait; a layer has two exchanges and at most twenty operations around them.
inline constexpr int64_t kExchangesUnagreedMax = 64;
// While a device works, the executor looks at its mailbox this often and at the device all the
// time.
inline constexpr std::chrono::microseconds kDeviceLookInterval{200};
// The time that devices may take for the work that one step queued between two looks of the host:
// the longest step of a large model on a slow GPU takes a few seconds.
inline constexpr std::chrono::milliseconds kDevicePatience{20'000};
// The time for which rows may be on their way between two devices once they are sent: the largest
// step of a large model, 1 GiB, takes a tenth of a second over PCIe, and a kernel that keeps the
// device busy some milliseconds.
inline constexpr std::chrono::milliseconds kTransferPatience{5'000};
// The time for the devices of a stage to find each other: NCCL takes seconds on a machine that is
// busy loading.
inline constexpr std::chrono::milliseconds kFormPatience{30'000};
// The pause between two looks at whether they have.
inline constexpr std::chrono::milliseconds kFormLookInterval{2};

// --- The shell: links and time ---

// Frames kept for later while a step waits for another rank. A step's activation is a handful of
// chunks and StepsAheadMax bounds the steps, so peers in good order never come near. What one link
// may have waiting for the executor is in transport/limits.h (kUnreadFramesMax).
inline constexpr size_t kMailboxFramesMax = 1024;

// Links accepted and not yet refused, and those accepted while the executor computes. One is the
// previous stage, a few are ranks; the others are strangers about to be turned away, the oldest of
// which make way.
inline constexpr int64_t kAcceptedLinksKept = 64;
// A dialer says hello at once; the rest is the network's.
inline constexpr std::chrono::milliseconds kHelloTimeout{5000};
// The coordinator answers hello from its event loop, within milliseconds.
inline constexpr std::chrono::milliseconds kWelcomeTimeout{10000};

// First and slowest pause between attempts to reach a peer. The first is short because after a
// repair all peers come back at once; the slowest bounds how long a coordinator waits for us after
// its own restart.
inline constexpr std::chrono::milliseconds kFirstRedial{50};
inline constexpr std::chrono::milliseconds kSlowestRedial{2000};
// The slowest pause where there are several coordinators: one of them is about to take over, and
// streams wait for it. Four attempts a second of each worker at each of them cost nothing.
inline constexpr std::chrono::milliseconds kSlowestLeaderRedial{250};
// Coordinators of one cluster: one leads, and one for each machine that may be lost stands by.
inline constexpr size_t kCoordinatorsMax = 8;
// The next stage is part of a pipeline that is waiting for us.
inline constexpr std::chrono::milliseconds kSlowestStageRedial{500};
inline constexpr std::chrono::milliseconds kWaitingLogInterval{5000};

// Ranks that share memory: how long one looks for the other's frame before it sleeps. Two ranks of
// a decoding step come to their exchange some tens of microseconds apart; to be woken over the link
// takes 100 to 300 us (docs/PERFORMANCE.md).
inline constexpr std::chrono::microseconds kMemoryPollTime{300};
// Looks into the memory for one into the mailbox, which costs a lock.
inline constexpr int64_t kMemoryPollsPerLook = 16;
// The pause between tries to send when the memory is full: it takes the other one about 200 us to
// read a mebibyte.
inline constexpr std::chrono::microseconds kFullMemoryPause{50};

// A worker that closes its links is missed by the coordinator too, which knows better why. Only
// when the epoch goes on for this long is it the link that broke, and we say so.
inline constexpr std::chrono::milliseconds kBrokenLinkGrace{1000};
// The time for which the next stage may be unreachable from the start of an epoch. It listened
// before it joined.
inline constexpr std::chrono::milliseconds kUnreachablePatience{10000};

// The time for which the executor may stay at one slice of its work (position.h, pace_model.h). At
// least a second: the slices that are not predicted (a frame, a page of a file, a malloc, a log
// line) take milliseconds on a quiet machine, and a stuck executor is named a second after it. At
// most as long as devices may take.
inline constexpr std::chrono::milliseconds kSliceTimeMin{1000};
inline constexpr std::chrono::milliseconds kSliceTimeMax = kDevicePatience;
// A multiple of the prediction: a shared memory bus, another instruction set's clock, experts that
// all rows choose at once, each about two.
inline constexpr double kSliceMargin = 8;
// Speeds of a worker that has not measured its own, until its steps show better: one thread of an
// old server.
inline constexpr double kAssumedReadSpeed = 1e9;
inline constexpr double kAssumedFlops = 1e9;
// Steps beside their prediction: bounds of what is believed, and the share of the worst that stays
// with each step since (half after 34 steps).
inline constexpr double kSlownessMin = 1e-3;
inline constexpr double kSlownessMax = 8;
inline constexpr double kSlownessKept = 0.98;
// The least share of a processor at which time counts against a thread that could run: 32 threads
// of equal rank beside each of ours. With less a worker is of no use.
inline constexpr double kProcessorShareMin = 1.0 / 32;

// Beats stay between these for any request of the coordinator: faster they are load, slower no
// lease survives.
inline constexpr std::chrono::milliseconds kBeatIntervalMin{10};
inline constexpr std::chrono::milliseconds kBeatIntervalMax{1000};

// Leases are seconds. No wait is derived from a longer one, even if the coordinator asks for it.
inline constexpr std::chrono::milliseconds kLeaseMax{60000};

// Leases for which a rank may be silent that a step waits for. A dead one's links close at once and
// a stuck one loses its own lease, or is found without progress after two; this ends the wait when
// neither is to blame but the way between two ranks.
inline constexpr int kRankPatienceLeases = 4;

// After SIGTERM the step in progress may finish; loading a shard cannot be broken off and is left
// behind.
inline constexpr std::chrono::milliseconds kStopPatience{5000};

// A worker that is told to stop serves on while its coordinator finishes what runs, for as long as
// a coordinator gives running requests (program/daemon.h), and so much longer, so that it is the
// coordinator that ends them, with a reason.
inline constexpr std::chrono::milliseconds kLeaveMargin{2000};
// The pause between two looks of the main thread at whether it was let go, or told to hurry.
inline constexpr std::chrono::milliseconds kLeaveLookInterval{20};

// As peer.proto says.
inline constexpr size_t kWorkerIdBytesMax = 128;
// Lines of a peer table: more workers than any pipeline has stages and ranks.
inline constexpr size_t kPeersMax = size_t{1} << 16;
// Workers whose addresses one assignment tells: 8 ranks of this stage, 8 of the next, and the one
// before; twice that.
inline constexpr size_t kNeighboursMax = 32;
// Networks, and patterns of names, that an operator allows: each is looked at for every address.
inline constexpr size_t kPeerRulesMax = 256;

// A CPU worker's share of the machine's memory unless told otherwise. The rest is for the system
// and code. Of a GPU's: kGpuOfferedShare.
inline constexpr double kMemoryShare = 0.9;

// Sizes of the speed probe (speed_probe.h). The weights, 96 MiB of bf16, are three times the
// largest cache of the machines we know, so that at most a third could come from there; the matrix
// is as wide as those of small models; the rows are as many as a long prompt's chunk. A pass over
// them takes 10 ms at 10 GB/s, one of all rows 30 ms at 50 Gflop/s.
inline constexpr int64_t kProbeWidth = 2048;
inline constexpr int64_t kProbeRows = 192;
inline constexpr int64_t kProbeWeightBytes = int64_t{96} << 20;
inline constexpr int kProbePasses = 3;
// A line of it has about 60 bytes, or 150 where it is of choices: a machine of hundreds of kinds of
// workers.
inline constexpr size_t kSharedFileBytesMax = 64 << 10;
// Others measure for a second or two each, one after the other: those of a machine with sixteen
// workers. Whoever holds the file for longer is stopped, or holds it for something else.
inline constexpr Duration kSharedFilePatience = std::chrono::seconds(60);
// The period at which the one that waits for it looks.
inline constexpr std::chrono::milliseconds kSharedFileLook{20};

// Sizes of the choices made at start (kernel_tuner.h). Models whose weights are smaller are not
// worth the time, and come from caches that larger ones do not fit into.
inline constexpr int64_t kTunedModelBytesMin = int64_t{256} << 20;
// The time of all measuring, without the 0.1 to 0.2 s in which the weights are packed.
inline constexpr double kTuneSeconds = 1.2;
// Rounds beyond which a median moves little, and below which it says nothing.
inline constexpr int kTuneRoundsMax = 9;
inline constexpr int kTuneRoundsMin = 3;
// A value must be better than the usual one by so much, in so many of the rounds: two measurements
// of one value differ by 1 to 2 % on a quiet machine.
inline constexpr double kTuneGain = 0.03;
inline constexpr double kTuneRoundsFaster = 0.6;
// Weights of 4 MiB in bf16: as wide as those of small models, and with work for 16 threads.
inline constexpr int64_t kTuneInFeatures = 2048;
inline constexpr int64_t kTuneOutFeatures = 1024;
// Together four times the largest cache of most machines; a product of few rows is timed on a
// quarter of them, 32 MiB, in 1 to 4 ms.
inline constexpr int64_t kTuneWeightBytes = int64_t{128} << 20;
inline constexpr int64_t kTunePassesOfWeights = 4;
// From here on a product waits for the multiplier, and is timed on one weight.
inline constexpr int64_t kTuneManyRows = 48;

// Frequencies of rotary embedding that depend on a sequence's length (step_rotary.h), kept from
// step to step: of 64 values each, 1 MiB. Those of one step are kept however many they are.
inline constexpr size_t kRotaryVariantsKept = 4096;

// ---- loading (read_ahead.h)

// Memory that holds what was read of the checkpoint and is not packed yet; a larger matrix is held
// alone. Twice what a disk of 7 GB/s reads in the time that packing the largest expert takes.
inline constexpr int64_t kReadAheadBytes = int64_t{128} << 20;
// Memory below this is new each time: it costs few pages, and larger memory stays free for
// matrices.
inline constexpr int64_t kReusedBufferBytesMin = int64_t{1} << 20;
// Threads that read and hash: each does some 3 GB/s of cached pages, and few processors pack four
// times as much.
inline constexpr int kReadThreadsMax = 4;
// The period at which the one that waits for the disk says that bytes arrive.
inline constexpr Duration kReadTellInterval = std::chrono::milliseconds(100);

// ---- fetching the checkpoint (fetch/shard_fetch.h, docs/decisions/0067)

// Questions on their way: chunks of 1 MiB, so that 8 ms pass between a question and its answer at
// 1 GB/s, more than a round trip and the time of reading from a disk.
inline constexpr size_t kFetchWindow = 8;
// Bytes of answers that nobody has taken: those of a window of chunks, and one with digests.
inline constexpr int64_t kFetchUnreadBytesMax = int64_t{12} << 20;
// The longest file that is believed: a thousand times the largest shard of a published checkpoint.
inline constexpr int64_t kFetchedFileBytesMax = int64_t{1} << 43;
// Digests asked for at once: 64 KiB.
inline constexpr int64_t kDigestsWanted = 4096;
// A chunk that came with another digest is asked for again, so often in all: bits flip on the way
// once in a while, and where they do each time somebody must look.
inline constexpr int kFetchTries = 3;
// Without an answer for so long a shard is given up, and the coordinator told, if it is there: it
// assigns again, and what has come is there. Longer than a coordinator takes to start anew.
inline constexpr Duration kFetchPatience = std::chrono::seconds(15);
// The period at which the one that waits for answers looks at what else has come.
inline constexpr Duration kFetchLookInterval = std::chrono::milliseconds(50);
// The period at which the coordinator is told how far it is, and the pace is measured.
inline constexpr Duration kFetchTellInterval = std::chrono::milliseconds(500);

// The period at which the driver is asked about the GPU. An answer takes it a few milliseconds.
inline constexpr Duration kGpuMonitorPeriod = std::chrono::seconds(2);
// A driver that takes longer for an answer is said not to answer: waking up takes it seconds.
inline constexpr Duration kGpuAnswerPatience = std::chrono::seconds(3);
// A worker that starts waits so long to hear who fills its GPU, and one that ends for the driver.
inline constexpr Duration kGpuFirstAnswerPatience = std::chrono::seconds(3);
inline constexpr Duration kGpuMonitorPatience = std::chrono::seconds(1);
// Others that hold more of a GPU are named when a worker starts on it: a display and a driver hold
// a few per cent.
inline constexpr double kGpuHeldShareNamed = 0.1;

}  // namespace tutti::worker
