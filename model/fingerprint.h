// A short name for the contents of a model directory, for workers and coordinator to compare in
// their handshake.
#pragma once

#include <string>

#include "base/status.h"
#include "model/checkpoint.h"

namespace tutti::model {

// 32 hexadecimal digits: SHA-256, cut to 128 bits, over the configuration as we read it, every
// tensor's name, dtype, shape and offset, every file's size, the first and last bytes of every
// tensor, and the tokenizer's files.
//
// Equal directories give equal fingerprints, regardless of path, file times or the order of keys in
// config.json. It is a guard against mistakes, not against forgery: bytes in the middle of a tensor
// are not read, so that the model's size does not matter. Those are compared by their digests when
// they have been read (chunk_digest.h).
//
// Errors: those of LoadModelConfig and Checkpoint::Open. Takes some 10 ms; call it once, off the
// executor thread.
absl::StatusOr<std::string> ModelFingerprint(const std::string& dir);
// The same of a checkpoint that is open.
absl::StatusOr<std::string> ModelFingerprint(const Checkpoint& checkpoint);

}  // namespace tutti::model
