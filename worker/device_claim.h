// A worker's word to the other workers of this machine that a GPU is its own: a locked file.
//
// Two workers on one GPU halve its memory and its speed, and the second finds out after the first
// has loaded. The word reaches workers of the same user only, who find the same folder; those of
// others are met by the memory that they hold.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti::worker {

// Thread: any.
class DeviceClaim {
 public:
  // Takes the GPU of that id until the object or the process ends, however it ends. `folder` is
  // private (transport/private_folder.h), `holder` says who we are. ALREADY_EXISTS: another holds
  // it, by the text that it left. UNAVAILABLE: the file cannot be made.
  static absl::StatusOr<DeviceClaim> Take(const std::string& folder, const std::string& id,
                                          const std::string& holder);
  DeviceClaim(DeviceClaim&& other) noexcept;
  DeviceClaim& operator=(DeviceClaim&& other) noexcept;
  ~DeviceClaim();

 private:
  explicit DeviceClaim(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace tutti::worker
