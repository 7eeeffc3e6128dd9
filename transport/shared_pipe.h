// A pipe between two processes of one machine, in memory that both map. It carries the frames of a
// link that exists already and stays: the link introduces the two, wakes a sleeping end, and says
// when the other is gone.
//
// The memory is a file in a folder that the operator named and both processes see (on Linux
// /dev/shm, or a volume that pods share). Its name is a random token that travels over the link, so
// that only the other end finds it; it is readable by its owner alone, and unlinked by the other
// end as soon as that has mapped it. Until then the first end holds a lock on it: a file without
// one is left from a process that was killed, and swept away by the next.
//
// Thread: one per end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "transport/descriptor.h"
#include "transport/link.h"
#include "transport/shared_ring.h"

namespace tutti::transport {

class SharedPipe {
 public:
  // The first end. The token goes to the other one. RESOURCE_EXHAUSTED: the folder has no room;
  // PERMISSION_DENIED, NOT_FOUND: it cannot be used.
  static absl::StatusOr<std::unique_ptr<SharedPipe>> Create(const std::string& folder);
  // The second end. NOT_FOUND: the other process sees another folder. INVALID_ARGUMENT: no token of
  // ours. PERMISSION_DENIED: the file is not one that Create made.
  static absl::StatusOr<std::unique_ptr<SharedPipe>> Open(const std::string& folder,
                                                          const std::string& token);
  // Removes the files in `folder` that ended processes of this user have left; how many.
  static int64_t Sweep(const std::string& folder);
  ~SharedPipe();
  SharedPipe(const SharedPipe&) = delete;
  SharedPipe& operator=(const SharedPipe&) = delete;

  const std::string& token() const { return token_; }
  // The other end will not take it, or has it.
  void Unlink();

  // False when there is no room now. The payload is copied.  DATA_LOSS: the memory holds bytes that
  // the other end cannot have written; so for all below.  REQUIRES: CheckFrame is OK and the
  // message is small (kSharedMessageBytesMax)
  absl::StatusOr<bool> TrySend(const v1::Frame& frame, const Payload& payload);
  // A question after sending: the other end sleeps and has to be woken over the link.
  bool ShouldWakePeer() { return writer_->ShouldWake(); }

  struct Received {
    v1::Frame frame;
    Payload payload;  // valid until the next TryReceive; no owner
  };
  absl::StatusOr<std::optional<Received>> TryReceive();

  // Called before waiting for anything else. False: something has come meanwhile.
  bool FallAsleep() { return reader_->FallAsleep(); }
  void WakeUp() { reader_->WakeUp(); }

 private:
  SharedPipe(std::string token, std::string path, std::span<std::byte> memory, bool is_first);

  const std::string token_;
  std::string path_;  // empty: unlinked, or not ours to unlink
  Descriptor lock_;   // while path_ is not
  const std::span<std::byte> memory_;
  std::optional<RingWriter> writer_;
  std::optional<RingReader> reader_;
};

}  // namespace tutti::transport
