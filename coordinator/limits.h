// Every limit of the coordinator, with its derivation; those of what clients may ask and make us
// hold are in door/limits.h.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "transport/limits.h"

namespace tutti::coordinator {

// ---- streams that go on (coordinator/service/resume_token.h, docs/decisions/0043)

// The life of a resume token: longer than a client tries to reach a service, and than most
// answers take; short enough that a token that leaked is worth little.
inline constexpr int64_t kResumeTokenLifeSeconds = 3600;
// Largest name of a numerics class in a token. Where workers of several classes are mixed it has
// some 30 bytes for each of them: 256 workers.
inline constexpr int64_t kNumericsClassBytesMax = 8 << 10;

// Connections of the operator's port: people, and what watches the cluster for them.
inline constexpr int64_t kOperatorConnectionsMax = 64;

// Peers turned away that the status tells of, and bytes of what it says of each.
inline constexpr size_t kRefusedPeersMax = 16;
inline constexpr size_t kRefusedPeerBytesMax = 256;

// Requests between the door and the engine's own queue: one burst of arrivals between two steps.
inline constexpr int64_t kMailboxEventsMax = 8192;
// A connection that has not said hello by then is closed.
inline constexpr int64_t kHelloTimeoutMs = 5000;
// Frames of one worker that wait for the engine, in bytes: results of some steps of 8192 rows, or
// two frames of the largest size.
inline constexpr int64_t kUnreadControlBytesMax = 16 << 20;
// Control links at once: 10,000 devices would need a coordinator of another shape.
inline constexpr int64_t kWorkerLinksMax = 1024;

// Priority classes, as vLLM counts them: lower goes first. More classes than a service tells apart,
// few enough that the queue's memory per class does not matter.
inline constexpr int32_t kPriorityMin = -100;
inline constexpr int32_t kPriorityMax = 100;

// ---- order of turns (admission_queue.h, router.h, docs/decisions/0007)

// A request without a deadline, or with a later one, waits for its turn as if its deadline were so
// far away: longer than any client waits for a first token, and short enough that a stream of
// requests in a hurry cannot hold it up for good.
inline constexpr Duration kPatience = std::chrono::seconds(60);
// Owners whose served tokens differ by less are level, and the earliest deadline decides between
// them: a few ordinary requests of a thousand tokens each.
inline constexpr int64_t kLevelTokens = 4096;
// The assumed length of an answer until it has ended; the mean of public chat traces is 200 to 300
// tokens.
inline constexpr int32_t kExpectedOutputTokens = 256;
// Owners that have nothing waiting and are remembered all the same, because they were served more
// than others that wait; about 100 bytes each.
inline constexpr size_t kIdleOwnersMax = 4096;

// ---- requests on board of a loss (admission_recovery.cc, docs/decisions/0042)

// Losses over the same rows after which a sequence is computed alone: one is most often an
// accident, a second before a single token came of it may be its doing.
inline constexpr int32_t kLossesSuspected = 2;
// ... and after which it is given up, if it was alone when the last worker died, and of its rows no
// more than these were under way: a step so short is hardly hit by chance.
inline constexpr int32_t kLossesMax = 3;
inline constexpr int32_t kRowsSentenced = 16;
// The number of steps over which a trial spreads the rows suspected.
inline constexpr int32_t kTrialSteps = 8;
// Deaths in a row, over whatever rows, after which it is given up all the same, if it was alone
// when the last worker died; and from half of them on it is computed alone. So that nothing kills
// for ever; more than come together on any bad day.
inline constexpr int32_t kDeathsMax = 64;
// The time within which a worker that lives has dialled again: its pauses between two attempts grow
// to a few seconds. As long a request waits for its verdict.
inline constexpr Duration kVerdictPatience = std::chrono::seconds(10);
// Requests like one another that must have been given up before the next is refused.
inline constexpr int32_t kSentencesOfLikes = 2;
// The time in which requests like those that were given up are refused, and how many of these are
// remembered: long enough that a client that tries again in a loop does no harm, short enough that
// a worker that has been mended gets another try. 40 bytes each.
inline constexpr Duration kPoisonRefusedTime = std::chrono::minutes(10);
inline constexpr size_t kPoisonsKept = 1024;
// Ends of pipelines that the status tells of.
inline constexpr size_t kRecoveriesTold = 16;

// --kept-rows where it is not given: what placement leaves of a worker's memory, at most rows of
// all slots of its KV cache.
inline constexpr int64_t kKeptRowsLeft = -1;

// ---- plans of steps (scheduler.h, plan_size.h)

// The largest plan that a step may have: what a link takes.
inline constexpr int64_t kPlanBytesMax = transport::kMessageBytesMax;
// The largest size of an integer on the wire.
inline constexpr int32_t kVarint32BytesMax = 5;
inline constexpr int32_t kVarint64BytesMax = 10;
// A plan without its lists, in its frame: five integers, a checksum and their tags take 50.
inline constexpr int64_t kPlanEnvelopeBytes = 64;
// A ScheduledSequence with one block and one token: its name (11), four integers (6 each), two
// lists with one entry (11 each), two bools and the number of drafts (2 each), and its own tag and
// length (6): 69.
inline constexpr int64_t kScheduledSequenceBytes = 72;
// The list of a ScheduledSequence's guesses without them: its tag and length.
inline constexpr int64_t kGuessListBytes = 6;
// A NewSequence without its tokens and without the fields of its sampling: its name (11), two
// integers (6 each), tags and lengths of the tokens, the sampling and itself (6 each): 41.
inline constexpr int64_t kNewSequenceBytes = 48;
// Sequences in one step. A plan may have transport::kFrameFieldsMax fields, and one that begins
// takes 31 with all of its sampling but what it bans (plan_size.h): 8192 take 253,952 of 262,144.
// Their tokens with 20 log-probabilities each make a result of 2 MiB.
inline constexpr int32_t kStepSequencesMax = 8192;
static_assert(kStepSequencesMax * 31 + 64 < transport::kFrameFieldsMax);
// A row whose mask was late is computed again by the next step, then after 2, 4, … steps, at most
// after two to the power of this: of a mask that takes a second, some steps of 50 ms each carry a
// row in vain.
inline constexpr int kLateStepsLogMax = 5;
// One row of so many in a step is kept for prompts, when sequences that generate would take all.
// A prompt then takes at most four times as long as on an idle pipeline, and an answer a third
// longer than without it.
inline constexpr int32_t kRowsPerPromptRow = 4;
// Rows of prompts in every step beside sequences that generate, whatever --itl-target: where steps
// take longer than that anyway, a prompt of 1,000 tokens still ends with the 125th.
inline constexpr int32_t kPromptRowsMin = 8;
// A sequence takes the place of another whose owner (within an owner: request) runs so many more:
// with two, the numbers of both are nearer to each other afterwards than before, whichever they
// were; with one they would only change over, for ever.
inline constexpr int32_t kPlacesAhead = 2;

// Beside others, the sequences that an owner or a request has more than these lengthen a step to so
// many times what it would take without (Scheduler::Share): half as long again is what a busy
// service does to an answer anyway.
inline constexpr double kQuickStep = 1.5;
// Guesses lengthen no step by more than that either, as long as others than its owner were there so
// lately: who comes next waits for it. People who talk to a service come back later than that,
// programs sooner.
inline constexpr Duration kOthersLately = std::chrono::seconds(1);

// ---- guesses (guess_source.h)

// Of one sequence in a step: with its last token they are sixteen rows, which a processor with AMX
// multiplies as fast as one.
inline constexpr int32_t kGuessesMax = 15;
// A step with more sequences has no guesses: rows cost time there, and so does looking for them.
inline constexpr size_t kGuessingSequencesMax = 32;
// Guesses lengthen a step for sequences without any by so much at most.
inline constexpr double kGuessesStretch = 0.04;
// Where all sequences of a step have some it becomes half as long again, whatever --itl-target.
inline constexpr double kGuessedStep = 1.5;
// Of the tokens that they are expected to bring to the sequences that have them, so much may be
// spent in time.
inline constexpr double kGuessesWorth = 0.8;
// Drafts of a sequence in a step while it is not known what they cost.
inline constexpr int32_t kDraftsToLearn = 4;
// Tokens of a step's sequences that the draft model may have to read before it goes on, where
// others wait for it: what comes while it pauses. Workers read no more in a step, beside as many as
// the step has of these sequences (kDraftRowsBehindMax of worker/limits.h). And how many for each
// token that is left of the output: where reading takes longest, sixteen rows take as long as a
// pass, and a step as long as ten.
inline constexpr int32_t kDraftsBehindMax = 256;
inline constexpr int32_t kDraftRowsWorth = 64;
// So many equal tokens before a place make it likely that what follows is equal too, whatever was
// right before.
inline constexpr int32_t kEqualLikely = 12;
// Tokens of the longest text that is looked up, and bytes of all indexes of one pipeline: those of
// 64 such texts (prompt_lookup.h).
inline constexpr int32_t kLookupTokensMax = 1 << 17;
inline constexpr int64_t kLookupBytesOfAll = int64_t{64} << 20;
// Tokens that are indexed in one step, of all its sequences: 6 us; and of each in any case, which
// is more than it gets in a step.
inline constexpr int32_t kIndexedInStep = 2048;
inline constexpr int32_t kIndexedLeast = 32;
static_assert(kIndexedLeast > kGuessesMax + 1);

// ---- finished answers, from which others of the same owner are guessed (finished_answers.h)

// Tokens of an answer that are kept, its last ones: a long file. Copying them takes a microsecond.
inline constexpr int32_t kAnswerTokensMax = 8192;
// A shorter one is hardly worth a place.
inline constexpr int32_t kAnswerTokensMin = 8;
// Parts of the answers of one owner and cache domain, all of which a search looks at: 32,768
// tokens, some 130 answers of ordinary length.
inline constexpr int32_t kAnswerPartsMax = 16;
// Bytes of the answers of one owner (ten such texts, each with a salt of its own), and of all:
// eight owners that have as much as they may.
inline constexpr int64_t kAnswersBytesOfOwner = int64_t{4} << 20;
inline constexpr int64_t kAnswersBytesMax = int64_t{32} << 20;
// An owner's answers go when it has kept none for so long: whoever works with a service asks again
// within the hour.
inline constexpr Duration kAnswersKept = std::chrono::hours(1);
// Tokens that are indexed in a step, and what its searches may look at, where a table of a part
// counts 1 and an entry of it 3: together 20 us where all of it comes from memory, 5 us where it is
// in the caches (bench "AnswersInStep").
inline constexpr int32_t kAnswersIndexedInStep = 512;
inline constexpr int32_t kAnswerLooksInStep = 192;
inline constexpr int32_t kLooksOfEntry = 3;

// The words of a worker about a grammar that leaves no token: a place and a rule's name.
inline constexpr size_t kUndrawnBytesMax = 1024;
// Numeric faults of one step whose requests get to know the layer; as many as workers trace. Others
// end all the same, when a token of theirs is no number.
inline constexpr int kNumericFaultsNamed = 16;

// Weight of a prompt token computed a second time, beside one that waits before it. It delays not
// only its own request but all that come after, and its copy takes KV room from others.
inline constexpr int64_t kRecomputeWeight = 4;
// Cached tokens thrown away that weigh as much as one computed: those that go have not been asked
// for longest, and we take one in eight of them to be asked for again.
inline constexpr int64_t kEvictionsPerRecompute = 8;

// Steps that are timed together: enough that results which arrive a little late or together do not
// look like a fast machine.
inline constexpr int32_t kRateGroupSteps = 8;
// Share at which the best rate counts after each group since: half after some 70 groups.
inline constexpr double kRateKept = 0.99;

// ---- the engine's waits

// Speeds that a worker may claim. A first Raspberry Pi reads some 100 MB/s and computes 100
// Mflop/s; 1 PB/s or an exaflop claimed for one worker is a mistake in the unit.
inline constexpr double kReadSpeedMin = 1e6;
inline constexpr double kReadSpeedMax = 1e15;
inline constexpr double kFlopsMin = 1e6;
inline constexpr double kFlopsMax = 1e18;
// Numerics classes that a worker may name: a device computes in a few.
inline constexpr int kClassOffersMax = 8;
inline constexpr size_t kClassNameBytesMax = 64;

// Workers of one cluster are started within seconds of each other. What depends on those that join
// (layout, numerics class) is settled when no worker has joined or left for so long.
inline constexpr Duration kJoinQuiet = std::chrono::seconds(2);
// ... and at most this long after it could first have been: ten times as long as the workers of one
// machine take to start, however many come and go meanwhile.
inline constexpr Duration kJoinWaitMax = std::chrono::seconds(20);
// A worker that left twice within this time comes and goes: nothing waits for it, and others are
// preferred. Longer than the slowest restart of a process manager that backs off (10 s).
inline constexpr Duration kComeAndGoTime = std::chrono::seconds(60);
// Workers and links whose failures are remembered: as many as have numbers.
inline constexpr size_t kFaultsKept = 4096;
// Two workers whose link failed are not put side by side for so long if others can be had: time for
// an operator to mend a peer table, and no reason to waste a spare for good.
inline constexpr Duration kLinkAvoidedTime = std::chrono::seconds(60);
// Sets of workers that are tried to avoid links that failed: a handful of spares, each in the place
// of either end.
inline constexpr int kFormationsTried = 64;
// A pipeline that has loaded and whose probe does not come back gives up when none of its workers
// has made progress for so long: a worker says after kUnreachablePatience (worker/limits.h, 10 s)
// which link it cannot make, and knows better why.
inline constexpr Duration kLinkingPatience = std::chrono::seconds(12);
// ... and after this long in any case: devices take up to 30 s to find each other.
inline constexpr Duration kLinkingMax = std::chrono::seconds(60);
// The length of a transport's words about a link: a few lines.
inline constexpr size_t kLinkErrorBytesMax = 1024;
// Workers that have a number (device_numbers.h); those beyond it have none. Several times
// kWorkerLinksMax, because those that were replaced keep theirs; about 100 bytes each.
inline constexpr size_t kDeviceNumbersMax = 4096;
// The time that a worker's executor may stay at one slice of work, whatever the worker allows it. A
// worker allows a second and what it predicts, 20 s at most, at its full share of the processors,
// and stretches that for what it did not get: three times the 20 s, or a sixtieth of the processors
// for the second.
inline constexpr Duration kExecutorPatience = std::chrono::seconds(60);
// The name of what an executor does: a few words.
inline constexpr size_t kActivityBytesMax = 128;
// The engine's thread looks at the time at least so often, so that it notices when it could not.
// Ten wake-ups a second cost an idle coordinator a thousandth of a processor.
inline constexpr Duration kTurnInterval = std::chrono::milliseconds(100);
// A worker with everything for its next step whose executor is idle is stuck after this long,
// though it beats: most likely its link from the previous stage is cut. It is named within two
// leases: what it last did is known a beat later, a second beat is for a busy machine, and the
// engine's turn comes after. One lease would do; the rest is for the activation on its way.
constexpr Duration StuckAfter(Duration lease, Duration beat) {
  return std::max(lease, 2 * lease - 2 * beat - kTurnInterval);
}
// Longer between two looks is a stall, which is held against nobody. Twice the interval, for the
// noise of a busy machine, and a small part of a lease, which absorbs what is below it.
inline constexpr Duration kStallMin = 2 * kTurnInterval;
// Told in the log from here on: it delays streams visibly.
inline constexpr Duration kStallWarned = std::chrono::seconds(1);
// Frames of workers that came, and that gRPC's threads have not read, are a stall too. So much of
// it is forgiven at once, as long as any stop of a process that goes on afterwards; and a tenth of
// the time from then on, by which leases grow if somebody keeps those threads busy for ever.
inline constexpr Duration kUnreadForgivenMax = std::chrono::seconds(10);
inline constexpr int kUnreadForgivenShare = 10;

// The time over which the times of steps are added up before they are compared, and how many steps
// it takes at least. A worker that slows is named after the window in which it did and two more;
// one that slows very much after one more, because its steps make the windows long.
inline constexpr Duration kPaceWindow = std::chrono::seconds(2);
inline constexpr int kPaceWindowSteps = 2;
inline constexpr int kSlowWindows = 2;
// Below a factor of 2, for noise and for the mix of prompts and answers.
inline constexpr double kSlowdown = 1.7;
// More than a mix of prompts and answers does to a stage with a large head beside one without:
// computing a prompt instead of reading weights makes the latter's steps some five times as long.
inline constexpr double kGreatSlowdown = 6;
// A worker has left its pace when its steps take this many times as long as is predicted, beside
// its best and beside the others, and keeps away from it until they take less than kSlowdown: three
// times, less what a busy machine takes from the others meanwhile. Where no speed is known it is
// kGreatSlowdown.
inline constexpr double kLeftPace = 2.5;
// So long, in every window; then its place moves.
inline constexpr Duration kSlowPatience = std::chrono::seconds(10);
// Share that the average time of a step keeps with each step since: half after 34.
inline constexpr double kStepAverageKept = 0.98;
// A pipeline that has served this long has not failed because of its composition.
inline constexpr Duration kStableServing = std::chrono::seconds(10);
// Pause of a worker, or of two that failed side by side, after this many failures in a row: none
// after the first, then 250 ms and doubling, at most 16 s, so that a shard that cannot be loaded is
// not tried all the time.
constexpr Duration FormBackOff(int32_t failures) {
  if (failures <= 1) return Duration::zero();
  return std::chrono::milliseconds(250) * (int64_t{1} << (failures < 8 ? failures - 2 : 6));
}
// A worker that read other bytes of the checkpoint than the coordinator has stays away for 5 s, and
// twice as long every time, at most 80 s: each attempt reads a shard, and the remedy is a person's.
constexpr Duration BarredFor(int32_t times) {
  return std::chrono::seconds(5) * (int64_t{1} << (times < 5 ? times - 1 : 4));
}
// Workers that are remembered for it: as many as may be linked.
inline constexpr size_t kBarredWorkersMax = kWorkerLinksMax;

// ---- who leads (coordinator/service/leader_lease.h, docs/decisions/0044)

// Whoever stands by looks so often whether the leader is gone: a part of the time without a leader.
// A look is one small call of etcd, which answers tens of thousands a second.
inline constexpr Duration kStandbyLookInterval = std::chrono::milliseconds(50);
// The pause after a look or a renewal that failed.
inline constexpr Duration kLeaseRetryInterval = std::chrono::milliseconds(500);
// An etcd that elects a leader of its own answers after its election timeout, 1 s by default.
inline constexpr Duration kEtcdPatience = std::chrono::seconds(1);
inline constexpr int kEtcdReconnectMs = 200;
inline constexpr size_t kEtcdServersMax = 16;  // clusters of etcd have 3, 5 or 7 members
// etcd grants no shorter lease with its defaults (1.5 election timeouts, in whole seconds). 5 s let
// it elect a leader, twice, and renewals be late on a busy machine; 10 minutes without a leader are
// more than anybody wants.
inline constexpr int64_t kEtcdLeaseSecondsMin = 2;
inline constexpr int64_t kEtcdLeaseSeconds = 5;
inline constexpr int64_t kEtcdLeaseSecondsMax = 600;
// The end of a lease in which its holder commands nobody any more: for a frame that is being sent,
// and clocks that run apart; 600 s at 100 ppm are 60 ms.
inline constexpr Duration kLeaseMargin = std::chrono::milliseconds(500);
// Renewals in the time of one lease. Of the shortest, 2 s with 1.5 s to command in, four may fail.
inline constexpr int kLeaseRenewals = 6;
// A leader looks so often whether its lock file is still the one at its path.
inline constexpr Duration kLockLookInterval = std::chrono::seconds(1);
inline constexpr size_t kLockFileBytesMax = 160;    // a number, a name of 128, two separators
inline constexpr size_t kOtherCoordinatorsMax = 7;  // as many as workers take
// Refusals by the leader's port, before its lease is ended: a listener opened anew gives one.
inline constexpr int kRefusalsMin = 2;
// A round trip between machines of one cluster, with a margin.
inline constexpr Duration kWatchDialPatience = std::chrono::milliseconds(250);
// Exit status of a coordinator that led and does so no longer: its supervisor starts it again, to
// stand by.
inline constexpr int kExitLeadsNoMore = 3;

// Tokens at the end of a prompt among which the model's turn begins; longer turns are continued
// rarely.
inline constexpr size_t kTurnTokensMax = 16 << 10;
// A client that is sent away for a while is told when to come back: after the time that its place
// takes to come free at the pace measured, or where nothing has been measured yet, after that of an
// ordinary answer of 200 tokens on a loaded machine. Not sooner than a round trip is worth, and not
// later than a person waits who is told to wait.
inline constexpr Duration kRetryDelayMin = std::chrono::milliseconds(100);
inline constexpr Duration kRetryDelayUnknown = std::chrono::seconds(5);
inline constexpr Duration kRetryDelayMax = std::chrono::seconds(60);

}  // namespace tutti::coordinator
