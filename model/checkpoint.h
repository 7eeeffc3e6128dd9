// A checkpoint's tensors: model.safetensors, or shards named by model.safetensors.index.json.
//
// Opening reads headers only and closes the files again. Whoever reads bytes later compares size,
// modification time and inode with those seen then (checkpoint_file.h), so a checkpoint that was
// replaced in between is refused.
//
// Thread: constant after Open; any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "model/checkpoint_file.h"
#include "model/safetensors.h"

namespace tutti::model {

class Checkpoint {
 public:
  // Reads the headers of every file of the checkpoint in `dir`.
  //
  // NOT_FOUND: no checkpoint there, or a shard the index names is missing. INVALID_ARGUMENT: index
  // or file malformed, a tensor the index promises is not in its shard; file and tensor are named.
  // UNIMPLEMENTED: only pickled weights (pytorch_model.bin), with the remedy.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& dir);

  // The same, but opens only the files that hold a tensor named in `names`; the others need not
  // exist. Names the index does not know are left to the caller's Find.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> OpenFor(const std::string& dir,
                                                             std::span<const std::string> names);

  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // Null when there is no tensor of that name (in the opened files).
  const TensorInfo* Find(std::string_view name) const;

  // All tensors, file by file, in the order of their bytes.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  // The tensor that byte `offset` of file number `file` belongs to. Null: none, as in headers.
  const TensorInfo* FindAt(int32_t file, int64_t offset) const;

  // A copy of the tensor's bytes, for small ones; shards are read by a ChunkReader.
  //
  // NOT_FOUND: no such tensor. FAILED_PRECONDITION: the file changed since Open. UNAVAILABLE: the
  // system's reason.
  absl::StatusOr<std::vector<std::byte>> Read(std::string_view name) const;

  struct File {
    std::string name;  // "model-00001-of-00003.safetensors"
    FileIdentity identity;
    int64_t bytes() const { return identity.bytes; }
  };
  // The files opened, in the order of TensorInfo::file.
  const std::vector<File>& files() const { return files_; }
  std::string PathOf(int32_t file) const;

  const std::string& dir() const { return dir_; }
  // There is an index of shards as well, of which nothing is read: the one file is taken for the
  // whole, as transformers does. Either may be what is left of another save.
  bool ignores_shards() const { return ignores_shards_; }

 private:
  explicit Checkpoint(std::string dir);
  static absl::StatusOr<std::unique_ptr<Checkpoint>> OpenImpl(
      const std::string& dir, const std::span<const std::string>* names);
  absl::Status AddFile(const std::string& name, const std::vector<std::string>* expected_tensors);

  // Constant after construction.
  std::string dir_;
  bool ignores_shards_ = false;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, size_t> by_name_;
  std::vector<File> files_;
};

}  // namespace tutti::model
