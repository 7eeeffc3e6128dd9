// A checkpoint's tensors, memory-mapped: model.safetensors, or shards named by
// model.safetensors.index.json.
//
// Opening reads headers only. A file is mapped when the first of its tensors is asked for, so a
// worker touches the bytes of its own shard and no others. Nothing is ever copied.
//
// A mapped file that another process truncates kills this one with SIGBUS at the next access: the
// kernel offers no other answer. The size and the modification time are compared with those seen at
// Open when a file is mapped, which catches a checkpoint replaced in between; a checkpoint
// directory must not be written to while it is being loaded.
//
// Thread: one thread at a time. The spans may be read by any thread until the Checkpoint dies.
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

  // The tensor's bytes, valid while this object lives. They may be unaligned for their type: the
  // format aligns nothing. NOT_FOUND: no such tensor. FAILED_PRECONDITION: the file changed since
  // Open.
  absl::StatusOr<std::span<const std::byte>> Map(std::string_view name);

  // Says that `bytes`, from Map, will be read once from front to back.
  void AdviseSequential(std::span<const std::byte> bytes);

  // Gives the pages under `bytes`, from Map, back to the system, so that resident memory stays
  // bounded while a checkpoint is repacked. The span stays valid: reading it again reads the file
  // again.
  void ReleasePages(std::span<const std::byte> bytes);

  struct File {
    std::string name;  // "model-00001-of-00003.safetensors"
    int64_t bytes = 0;
    bool mapped = false;
  };
  // The files opened, in the order of TensorInfo::file.
  std::vector<File> files() const;

  const std::string& dir() const { return dir_; }

 private:
  struct OpenFile;

  explicit Checkpoint(std::string dir);
  static absl::StatusOr<std::unique_ptr<Checkpoint>> OpenImpl(
      const std::string& dir, const std::span<const std::string>* names);
  absl::Status AddFile(const std::string& name, const std::vector<std::string>* expected_tensors);
  absl::Status MapFile(OpenFile& file);

  // Constant after construction.
  std::string dir_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, size_t> by_name_;

  // Owned by the one thread.
  std::vector<std::unique_ptr<OpenFile>> files_;
};

}  // namespace tutti::model
