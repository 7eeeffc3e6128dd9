#include "model/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/checkpoint_index.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "model/what_is_there.h"
#include "text/text_file.h"

namespace tutti::model {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

absl::StatusOr<std::string> ReadText(const CheckpointFile& file, int64_t offset, int64_t count) {
  std::string bytes(static_cast<size_t>(count), '\0');
  TUTTI_RETURN_IF_ERROR(file.Read(offset, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

bool Exists(const std::string& path) { return text::IsThere(path); }

// The path, and what the file is rather than safetensors, by its first bytes.
std::string WhatIsInstead(const std::string& path, const std::string& prefix) {
  if (prefix == "version ") {
    return absl::StrCat(path,
                        " is a pointer of Git LFS, not the file it stands for; fetch that (git "
                        "lfs pull)");
  }
  return absl::StrCat(path, " is no whole safetensors file; fetch it again");
}

}  // namespace

Checkpoint::Checkpoint(std::string dir) : dir_(std::move(dir)) {}
Checkpoint::~Checkpoint() = default;

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& dir) {
  return OpenImpl(dir, nullptr);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::OpenFor(
    const std::string& dir, std::span<const std::string> names) {
  return OpenImpl(dir, &names);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::OpenImpl(
    const std::string& dir, const std::span<const std::string>* names) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint(dir));
  if (Exists(dir + "/" + kSingleFile)) {
    TUTTI_RETURN_IF_ERROR(checkpoint->AddFile(kSingleFile, nullptr));
    checkpoint->ignores_shards_ = Exists(dir + "/" + kIndexFile);
    return checkpoint;
  }
  const std::string index = dir + "/" + kIndexFile;
  if (!Exists(index)) return DescribeNoCheckpoint(dir);
  TUTTI_ASSIGN_OR_RETURN(const ShardMap shards, LoadCheckpointIndex(index));
  std::unordered_set<std::string> wanted;
  if (names != nullptr) wanted.insert(names->begin(), names->end());
  for (const auto& [file, tensors] : shards) {
    const bool needed = names == nullptr ||
                        std::any_of(tensors.begin(), tensors.end(),
                                    [&](const std::string& name) { return wanted.contains(name); });
    if (needed) TUTTI_RETURN_IF_ERROR(checkpoint->AddFile(file, &tensors));
  }
  return checkpoint;
}

absl::Status Checkpoint::AddFile(const std::string& name,
                                 const std::vector<std::string>* expected_tensors) {
  const std::string path = dir_ + "/" + name;
  absl::StatusOr<CheckpointFile> file = CheckpointFile::Open(path);
  if (!file.ok() && expected_tensors != nullptr) {
    const absl::Status status =
        Annotate(file.status(), absl::StrCat("a shard named by ", kIndexFile));
    if (!absl::IsNotFound(status)) return status;
    return absl::NotFoundError(absl::StrCat(status.message(), "; fetch it too"));
  }
  TUTTI_RETURN_IF_ERROR(file.status());
  const int64_t bytes = file->identity().bytes;
  TUTTI_ASSIGN_OR_RETURN(const std::string prefix,
                         ReadText(*file, 0, std::min(bytes, kSafetensorsPrefixBytes)));
  const absl::StatusOr<int64_t> header_bytes = SafetensorsHeaderBytes(prefix, bytes);
  if (!header_bytes.ok()) return Annotate(header_bytes.status(), WhatIsInstead(path, prefix));
  TUTTI_ASSIGN_OR_RETURN(const std::string header,
                         ReadText(*file, kSafetensorsPrefixBytes, *header_bytes));
  absl::StatusOr<std::vector<TensorInfo>> tensors = ParseSafetensorsHeader(header, bytes);
  if (!tensors.ok()) {
    return absl::Status(tensors.status().code(),
                        absl::StrCat(path, ": ", tensors.status().message(),
                                     "; the file is not whole or damaged: fetch it again"));
  }

  // Tensors of this shard that the index does not list are not part of the checkpoint.
  std::unordered_set<std::string> expected;
  if (expected_tensors != nullptr)
    expected.insert(expected_tensors->begin(), expected_tensors->end());
  for (TensorInfo& tensor : *tensors) {
    if (expected_tensors != nullptr && expected.erase(tensor.name) == 0) continue;
    tensor.file = static_cast<int32_t>(files_.size());
    by_name_.emplace(tensor.name, tensors_.size());
    tensors_.push_back(std::move(tensor));
  }
  if (!expected.empty()) {
    const std::string& missing = *std::min_element(expected.begin(), expected.end());
    return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", Quoted(missing),
                                                   " is missing, though ", kIndexFile,
                                                   " names this file for it"));
  }
  files_.push_back({.name = name, .identity = file->identity()});
  return absl::OkStatus();
}

const TensorInfo* Checkpoint::Find(std::string_view name) const {
  const auto at = by_name_.find(std::string(name));
  return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

const TensorInfo* Checkpoint::FindAt(int32_t file, int64_t offset) const {
  // Tensors lie file by file, in the order of their bytes.
  const auto after =
      std::partition_point(tensors_.begin(), tensors_.end(), [&](const TensorInfo& tensor) {
        return std::pair(tensor.file, tensor.offset + tensor.bytes) <= std::pair(file, offset);
      });
  const bool holds = after != tensors_.end() && after->file == file && after->offset <= offset;
  return holds ? &*after : nullptr;
}

std::string Checkpoint::PathOf(int32_t file) const {
  return dir_ + "/" + files_[static_cast<size_t>(file)].name;
}

absl::StatusOr<std::vector<std::byte>> Checkpoint::Read(std::string_view name) const {
  const TensorInfo* const tensor = Find(name);
  if (tensor == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(dir_, ": no tensor ", Quoted(name), " in the checkpoint"));
  }
  const File& file = files_[static_cast<size_t>(tensor->file)];
  TUTTI_ASSIGN_OR_RETURN(const CheckpointFile open,
                         CheckpointFile::OpenUnchanged(PathOf(tensor->file), file.identity));
  std::vector<std::byte> bytes(static_cast<size_t>(tensor->bytes));
  const absl::Status read = open.Read(tensor->offset, bytes);
  if (!read.ok()) return Annotate(read, absl::StrCat("tensor ", Quoted(name)));
  return bytes;
}

}  // namespace tutti::model
