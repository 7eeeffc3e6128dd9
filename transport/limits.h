// Every limit of the transport, with its derivation.
#pragma once

#include <chrono>
#include <cstdint>

namespace tutti::transport {

// The size of the pieces into which a sender of tensors cuts its payloads.
//
// Smaller chunks let the receiver start while the sender still copies; larger ones spread the cost
// of a frame, some tens of microseconds on loopback, over more bytes. A chunk this size takes 840
// us at 10 Gbit/s, so that cost stays below a tenth of the time on the wire.
inline constexpr int64_t kPayloadChunkBytes = int64_t{1} << 20;

// The largest payload of one frame: a chunk, plus one row, because a sender may round a chunk up to
// whole rows and no row we know is longer (hidden size 16384 in f32).
inline constexpr int64_t kPayloadBytesMax = kPayloadChunkBytes + (int64_t{64} << 10);

// The largest frame without its payload and checksum, as Frame::ByteSizeLong says. The big ones are
// plans that carry prompts: a token takes at most 3 bytes up to a vocabulary of 2 Mi entries, so 8
// MiB hold 21 prompts of 131072 tokens, or one of 2.7 million.
inline constexpr int64_t kMessageBytesMax = int64_t{8} << 20;
// The field `checksum` of a frame: a tag of two bytes and four of CRC-32C.
inline constexpr int64_t kChecksumFieldBytes = 6;

// Tag and length of the payload field around the payload itself: one byte and at most five.
inline constexpr int64_t kPayloadHeaderBytesMax = 6;
inline constexpr int64_t kFrameBytesMax =
    kMessageBytesMax + kChecksumFieldBytes + kPayloadHeaderBytesMax + kPayloadBytesMax;

// Fields in one frame, those of nested messages included; a packed array counts once.
//
// Two bytes on the wire can become a hundred in memory (an empty nested message), so bytes alone do
// not bound the memory that parsing takes. The fullest honest frame is a plan of 4096 sequences,
// each new and scheduled: about 30 fields each, half of this limit. A frame within the limit costs
// at most about 32 MiB on top of packed arrays.
inline constexpr int64_t kFrameFieldsMax = int64_t{1} << 18;
// Below this size even the worst ratio stays under 4 MiB, and the fields need not be counted.
inline constexpr int64_t kUncountedMessageBytesMax = int64_t{64} << 10;

// Payloads up to this size are copied beside the message instead of being handed over by reference.
//
// Measured (2 vCPU AMD EPYC Zen 3, 2026-11-21): encoding and letting go of a frame takes 140 ns
// with 2 KiB either way, 125 ns copied and 142 ns referred to with 1 KiB, 218 and 131 ns with 4
// KiB.
inline constexpr int64_t kInlinePayloadBytesMax = 2048;

// A frame up to this size waits in gRPC's buffer for the next one when that is already queued: one
// system call for several. Measured: 233,000 instead of 123,000 frames without payload per second
// over TCP on loopback.
inline constexpr int64_t kGatheredFrameBytesMax = int64_t{16} << 10;

// Bytes that may wait in one link to be sent.
//
// The largest step we plan for has 8192 rows of 8192 bf16 values, 128 MiB; the next may be queued
// while it drains. A sender that needs more has lost control of its flow. The bytes of payloads
// belong to the sender all the while.
inline constexpr int64_t kQueuedBytesMax = int64_t{256} << 20;
// The cost of a queued frame beside its bytes, so that very many very small frames are bounded as
// well.
inline constexpr int64_t kQueuedFrameOverheadBytes = 256;

// One way of a pipe in shared memory: three frames with the largest payload and one that is cut off
// by the end of the ring. A step of 512 rows and hidden size 1024 sends 2 MiB in one exchange.
inline constexpr int64_t kSharedRingBytes = int64_t{4} << 20;
// A frame there, without its payload: an exchange of ranks takes less than 60 bytes.
inline constexpr int64_t kSharedMessageBytesMax = 256;

// The frames that a stranger may send before it has said who it is: one frame at a time, of this
// size. Hello has at most some 20 short fields.
inline constexpr int64_t kStrangerFramesMax = 1;
inline constexpr int64_t kStrangerFrameBytesMax = int64_t{64} << 10;
// Links of one listener whose peer is not known yet, proved or not; the oldest makes way for a
// newer one, so that strangers who only hold their places keep nobody out. gRPC
// lets each of them send a message of kFrameBytesMax before we see a byte of it, so all of them
// together cost at most 590 MB. A pipeline of 64 workers that all dial at once says hello within
// milliseconds.
inline constexpr int64_t kStrangersMax = 64;

// The bytes that a known peer may have sent that its receiver has not taken yet; beyond it, it is
// not read. A step of 8192 rows of 8192 bf16 values, 128 MiB in 128 frames, arrives while the one
// before is computed.
inline constexpr int64_t kUnreadBytesMax = int64_t{128} << 20;
inline constexpr int64_t kUnreadFramesMax = 512;

// Frames one in-process link may have delivered before the others get their turn: a few
// microseconds' worth.
inline constexpr int kDeliveriesPerTurn = 64;

// Links one listener serves at a time. A cluster of 256 workers makes one control link each to the
// coordinator; a worker with 8 ranks in its stage accepts 7 rank links and one activation link.
// Four times the larger.
inline constexpr int64_t kAcceptedLinksMax = 1024;

// A reason for closing travels in HTTP/2 trailers, percent-encoded to at most three times its size,
// and gRPC gives all trailers together 8 KiB.
inline constexpr int64_t kCloseMessageBytesMax = 1024;

// The time that a link which closes may take to send its queue and to part from its peer. 256 MiB
// take 2.2 s at 1 Gbit/s.
inline constexpr std::chrono::milliseconds kCloseTimeout{5000};
// The time for which a listener or dialer that stops waits for its links to part in good order.
inline constexpr std::chrono::milliseconds kStopTimeout{2000};

// A connection that is not made by then has failed. Between machines of one cluster it takes
// milliseconds; a SYN is repeated after 1 s and 3 s, so one loss is forgiven.
inline constexpr std::chrono::milliseconds kConnectTimeout{3000};
// A TLS or HTTP/2 handshake that is not done by then is dropped, as is a connection on which no
// stream is open for so long: neither can be used to hold descriptors.
inline constexpr std::chrono::milliseconds kHandshakeTimeout{5000};
inline constexpr std::chrono::milliseconds kIdleConnectionTimeout{10000};

// --- connections of a port

// Descriptors that a process keeps for all but its ports: files of a checkpoint, logs, dialled
// links, the ends that gRPC's threads wait on. A half of those it may have, if they are very few.
inline constexpr int64_t kOwnDescriptors = 512;
// Connections of one port. A cluster of 256 workers has one control link each; a worker has links
// from 8 ranks and a stage. Clients send any number of calls over one connection, so this is so
// many client processes; each costs some 40 KB in gRPC, all of them 330 MB.
inline constexpr int64_t kPeerConnectionsMax = 2048;
inline constexpr int64_t kPublicConnectionsMax = 8192;
// One address may hold half of them: two are needed to shut a port.
inline constexpr int64_t kPerAddressDivisor = 2;
// Bytes that a connection must send before gRPC sees it at all: HTTP/2's preface, or the first of a
// TLS handshake. Until then it costs a descriptor, and makes way for a newer one.
inline constexpr int64_t kPrefaceBytes = 24;
// Connections taken from one backlog before others get their turn.
inline constexpr int kAcceptsPerTurn = 64;
// The kernel's queue of connections that we have not taken yet.
inline constexpr int kListenBacklog = 1024;
// A look at which connections of a full port are closed takes 0.3 us for each, and is taken again
// after this time for each: it costs a quarter of the loop's time at most.
inline constexpr std::chrono::microseconds kSweepPausePerConnection{1};
// The pause between two lines of log about refused connections or links: whoever is refused must
// not fill the disk.
inline constexpr std::chrono::milliseconds kRefusalLogInterval{5000};
// Without a descriptor even for refusing, the next try is after this.
inline constexpr std::chrono::milliseconds kNoDescriptorPause{10};

// --- what a connection's bytes become (connection_conduct.h, docs/decisions/0040)

// Looks at the connections that gRPC has: often enough that a flood holds a thread of gRPC's for
// little longer than a request does. A look costs 1 us for each connection, so with very many the
// looks are further apart, and take a twentieth of a processor at most.
inline constexpr std::chrono::milliseconds kLookInterval{25};
inline constexpr std::chrono::microseconds kLookPausePerConnection{20};
// Bytes of a connection that need not become requests: headers of a burst of calls before the
// first is counted, or four times the windows in which a message may come before anybody reads it.
// A header value of this size costs gRPC 1.51 some 2 ms (the time grows with its square), as many
// streams opened and reset as fit into it 0.3 s.
inline constexpr int64_t kDebtBytesMax = int64_t{256} << 10;
// And so many each second: pings, health checks, a header block of kHeaderBytesMax every other
// second, whose call is cancelled.
inline constexpr int64_t kDebtForgivenPerSecond = int64_t{4} << 10;
// And so many more behind each message that has begun, or may begin on a stream that waits for
// its next one: the largest, and as much again for one that is too large and whose sender must
// hear so.
inline constexpr int64_t kMessageDebtBytesMax = 2 * kMessageBytesMax;
// But all messages of a connection together: sixteen of the largest, as many as the door holds for
// one client (half of coordinator::kDoorBytesMax), and a sixteenth for the headers of frames. Calls
// without a message cost their sender a hundred bytes, and there may be thousands.
inline constexpr int64_t kMessagesDebtBytesMax = int64_t{136} << 20;
// Bytes of messages that were too large, or broke off, that a connection may owe: three of 9 MiB at
// once.
inline constexpr int64_t kLostBytesMax = int64_t{24} << 20;
// They are paid off at this speed: a gateway's clients give up uploads of 2 MiB every four seconds,
// on one connection for all of them, and a program whose messages are too large sends one of 9 MiB
// in 18 s, after the first three. Nothing tells whether the bytes were of a message at all; those
// that cost most (headers) keep a thread busy, and end the connection for that (kCaptiveMax).
inline constexpr int64_t kLostPaidPerSecond = int64_t{512} << 10;
// Bytes that clients send for each that they get: a frame of 50 bytes with a token is followed by a
// ping and two updates of windows at most, all in TLS records of their own.
inline constexpr int64_t kAcknowledgedPerSent = 2;
// Bytes of a call beside its message and its headers: frames, records of TLS, and a sixteenth of
// the message for those who send it in pieces of 512 bytes.
inline constexpr int64_t kCallCreditBytes = 256;
// A large request that is refused for what it is gets its answer as late as if its account
// (listening_sockets.h) had sent such requests at this speed, over however many connections.
// Reading 8 MiB takes a core 20 ms, and looking at them as long again; on two cores that is 50 to
// 100 ms more for each answer that is on its way, and at this speed one in a hundred or two.
inline constexpr int64_t kLargeRefusalBytesPerSecond = int64_t{1} << 20;
// Pauses of an account that has sent none for a while are not held up: two of the largest.
inline constexpr std::chrono::seconds kPausesForgiven{16};
// The longest that an account waits for such answers: shorter than most clients wait for any.
inline constexpr std::chrono::seconds kPausesMax{20};
// Accounts without a connection of which that is remembered: 100 bytes each.
inline constexpr size_t kPausesKept = 1024;
inline constexpr int64_t kCallCreditDivisor = 16;
// A connection whose socket is never empty for so much processor time, at so many looks, keeps a
// thread busy. The longest request, 8 MiB, is read in 20 ms; in 250 ms on a processor shared by
// twelve.
inline constexpr std::chrono::milliseconds kCaptiveMax{250};
inline constexpr int kCaptiveLooks = 5;
// And with so many bytes read meanwhile that became no requests: 400 streams opened and reset.
inline constexpr int64_t kCaptiveDebtBytesMax = int64_t{64} << 10;
// But fewer than this: messages are read fifteen times as fast, streams that are opened and reset
// at a quarter of it, a header value slower after 75 ms. What is read faster costs less for each
// byte, and is bounded by its bytes.
inline constexpr int64_t kCaptiveBytesPerSecond = int64_t{24} << 20;
// Bytes gRPC takes from a socket at once: what it has when a connection is cut it still parses.
inline constexpr int kStrangerReadBytesMax = 128 << 10;
// An account of whose connections one was cut is slowed for so long after the last: its new
// connections are handed over with this pause between two, and keep a thread busy for a shorter
// time before they are cut. So floods of one account have less than half of one thread, whatever it
// opens, and clients beside them at the same address wait for a few pauses at most. (An 8 MiB
// request takes 20 ms, so they may send those too.)
inline constexpr std::chrono::milliseconds kSlowedFor{10000};
inline constexpr std::chrono::milliseconds kSlowedPause{200};
inline constexpr std::chrono::milliseconds kSlowedCaptiveMax{50};
inline constexpr int kSlowedCaptiveLooks = 3;
// What connections of such an account may owe together for messages beside the first of each: those
// of clients that send several large texts at once. Of a connection that is cut it is missing until
// it is paid off at this speed, which is that of one message of the largest in each kSlowedPause:
// floods behind calls have twice what they have without, and leave clients beside them nothing to
// borrow.
inline constexpr int64_t kLentBytesMax = kMessagesDebtBytesMax;
inline constexpr int64_t kLentPaidPerSecond = int64_t{40} << 20;
// Accounts that are slowed at a time; some hundred bytes each.
inline constexpr size_t kSlowedAccountsMax = 4096;
// Thrown away of a connection that is cut, which has at most its receive buffer (6 MiB by Linux's
// defaults) waiting.
inline constexpr int64_t kDiscardBytes = int64_t{1} << 20;
inline constexpr int kDiscardsMax = 16;
// The time of one look that counts as a stall, when bytes lay unread at its beginning and its end:
// the watch's own gaps are no gaps of gRPC's.
inline constexpr std::chrono::milliseconds kUnreadPerLookMax{100};

// A process calls itself through its own port this often. A call that takes longer than the
// deadline is a miss; so many in a row and the port is opened again, so many more and the process
// ends. A flooded or stopped machine answers within seconds, so two minutes of silence are no load.
inline constexpr std::chrono::milliseconds kProbeInterval{5000};
inline constexpr std::chrono::milliseconds kProbeDeadline{15000};
inline constexpr int kProbeMissesMax = 4;

// All headers of one call. Ours have a few hundred bytes; gateways add tokens and trace contexts.
inline constexpr int kHeaderBytesMax = 8192;
// gRPC sends at most one keepalive ping a second at any setting, so a shorter time buys nothing;
// the peer is declared lost after at most time + timeout. The server must permit the interval, or
// it cuts the connection itself. Keepalive is for machines that are gone without a word: workers
// that fall silent are found by their leases, much sooner. The timeout is longer than a process
// stands still that goes on afterwards (stopped, in a debugger, moved to another host: seconds),
// because that one's own pings are late too, and it would take all its peers for dead.
inline constexpr std::chrono::milliseconds kKeepaliveTime{1000};
inline constexpr std::chrono::milliseconds kKeepaliveTimeout{15'000};
inline constexpr std::chrono::milliseconds kKeepalivePermitted{250};

// ---- Proof of who a peer is

// The cluster's secret: a key of HMAC-SHA-256 is worth 32 bytes; shorter ones could be guessed by
// trying. The most is a page, so that a wrong file is not read whole.
inline constexpr int64_t kSecretBytesMin = 32;
inline constexpr int64_t kSecretBytesMax = 4096;
// Nonces and proofs are as long as the hash.
inline constexpr int64_t kNonceBytes = 32;
inline constexpr int64_t kProofBytes = 32;
// The longest frame before a peer is proved: a nonce and a proof (78 bytes with their tags and a
// checksum), and some room.
inline constexpr int64_t kIdentifyFrameBytesMax = 128;
// The longest hello: worker id, cluster id and class of 128 bytes each, build and fingerprint of
// 256, a device's description of 512. Four times their sum.
inline constexpr int64_t kHelloFrameBytesMax = int64_t{8} << 10;
// Three frames of a handshake on an idle machine take a millisecond; a busy one gets 3 s, as for
// connecting.
inline constexpr std::chrono::milliseconds kIdentifyTimeout{3000};
// Frames a dialer may queue before the listener is proved: hello, and what may follow it.
inline constexpr size_t kHeldFramesMax = 16;

// ---- Addresses that workers announce

// DNS's own bounds, without the dot at the end.
inline constexpr size_t kHostNameBytesMax = 253;
inline constexpr size_t kHostLabelBytesMax = 63;
// The longest name, a colon and five digits; an IPv6 address in brackets has 47 at most.
inline constexpr size_t kAnnouncedAddressBytesMax = kHostNameBytesMax + 6;

}  // namespace tutti::transport
