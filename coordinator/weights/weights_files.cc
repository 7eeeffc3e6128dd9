#include "coordinator/weights/weights_files.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/plain_name.h"
#include "coordinator/weights/limits.h"
#include "model/checkpoint_file.h"
#include "model/limits.h"
#include "model/safetensors.h"
#include "text/text_file.h"

namespace tutti::coordinator {
namespace {

using model::ChunkCount;
using model::kChunkDigestBytes;
using model::kDigestChunkBytes;

constexpr char kConfig[] = "config.json";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kSingle[] = "model.safetensors";

// As a message can name it, and whoever gets it can keep it.
bool IsFileName(const std::string& name) { return IsPlainName(name) && name[0] != '.'; }

}  // namespace

absl::StatusOr<std::shared_ptr<const WeightsFiles>> WeightsFiles::Open(
    const std::string& fingerprint, std::shared_ptr<const model::CheckpointDigests> digests) {
  std::shared_ptr<WeightsFiles> files(new WeightsFiles);
  files->fingerprint_ = fingerprint;
  files->digests_ = std::move(digests);
  const model::Checkpoint& checkpoint = files->digests_->checkpoint();
  TUTTI_RETURN_IF_ERROR(files->AddText(kConfig, model::kConfigBytesMax));
  // A single file goes before an index that lies beside it, here as in model::Checkpoint.
  const bool single = checkpoint.files().size() == 1 && checkpoint.files()[0].name == kSingle;
  if (!single && text::IsThere(checkpoint.dir() + "/" + kIndex)) {
    TUTTI_RETURN_IF_ERROR(files->AddText(kIndex, model::kIndexBytesMax));
  }
  for (size_t i = 0; i < checkpoint.files().size(); ++i) {
    TUTTI_RETURN_IF_ERROR(files->AddWeights(static_cast<int32_t>(i)));
  }
  return std::shared_ptr<const WeightsFiles>(std::move(files));
}

absl::Status WeightsFiles::AddText(const std::string& name, int64_t bytes_max) {
  File file{.name = name};
  TUTTI_ASSIGN_OR_RETURN(file.text,
                         text::ReadTextFile(digests_->checkpoint().dir() + "/" + name, bytes_max));
  file.bytes = static_cast<int64_t>(file.text.size());
  const auto all = std::as_bytes(std::span(file.text));
  for (size_t at = 0; at < all.size(); at += kDigestChunkBytes) {
    const auto chunk = all.subspan(at, std::min<size_t>(kDigestChunkBytes, all.size() - at));
    const model::ChunkDigest digest = model::DigestOf(chunk);
    file.text_digests.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status WeightsFiles::AddWeights(int32_t number) {
  const model::Checkpoint& checkpoint = digests_->checkpoint();
  const model::Checkpoint::File& named = checkpoint.files()[static_cast<size_t>(number)];
  if (!IsFileName(named.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint's file \"", absl::CHexEscape(named.name),
                     "\" does not match [A-Za-z0-9._-]{1,128}, so no worker can ask for it"));
  }
  TUTTI_ASSIGN_OR_RETURN(
      const model::CheckpointFile open,
      model::CheckpointFile::OpenUnchanged(checkpoint.PathOf(number), named.identity));
  std::string prefix(static_cast<size_t>(std::min(named.bytes(), model::kSafetensorsPrefixBytes)),
                     '\0');
  TUTTI_RETURN_IF_ERROR(open.Read(0, std::as_writable_bytes(std::span(prefix))));
  TUTTI_ASSIGN_OR_RETURN(const int64_t header,
                         model::SafetensorsHeaderBytes(prefix, named.bytes()));
  files_.push_back({.name = named.name,
                    .bytes = named.bytes(),
                    .header_bytes = model::kSafetensorsPrefixBytes + header,
                    .number = number});
  return absl::OkStatus();
}

const WeightsFiles::File* WeightsFiles::Find(const std::string& name) const {
  const auto found = std::find_if(files_.begin(), files_.end(),
                                  [&](const File& file) { return file.name == name; });
  return found == files_.end() ? nullptr : &*found;
}

absl::StatusOr<const WeightsFiles::File*> WeightsFiles::FindChunks(const std::string& name,
                                                                   int64_t first,
                                                                   int64_t count) const {
  const File* const file = Find(name);
  if (file == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint has no file \"", absl::CHexEscape(name.substr(0, 128)), "\""));
  }
  const int64_t chunks = ChunkCount(file->bytes);
  if (first < 0 || count < 1 || first >= chunks || count > chunks - first) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " chunks from ", first, " on of ", name, ", which has ", chunks));
  }
  return file;
}

std::string_view WeightsFiles::DigestOf(const File& file, int64_t chunk) const {
  if (file.number >= 0) return digests_->Of(file.number, chunk);
  return std::string_view(file.text_digests)
      .substr(static_cast<size_t>(chunk * kChunkDigestBytes), kChunkDigestBytes);
}

bool WeightsFiles::IsOfWeights(const v1::FileChunkWanted& wanted) const {
  const File* const file = Find(wanted.file());
  // An unknown one is refused when it is answered.
  return file != nullptr && file->number >= 0 && wanted.chunk() >= ChunkCount(file->header_bytes);
}

int64_t WeightsFiles::ChunkBytes(const v1::Frame& question) const {
  if (!question.has_file_chunk_wanted()) return 0;
  const v1::FileChunkWanted& wanted = question.file_chunk_wanted();
  const auto file = FindChunks(wanted.file(), wanted.chunk(), 1);
  if (!file.ok()) return 0;
  return std::min(kDigestChunkBytes, (*file)->bytes - wanted.chunk() * kDigestChunkBytes);
}

absl::StatusOr<WeightsFiles::Answer> WeightsFiles::AnswerTo(const v1::Frame& question,
                                                            bool joined) const {
  if (question.has_digests_wanted()) return AnswerDigests(question.digests_wanted(), joined);
  if (question.has_file_chunk_wanted()) return AnswerChunk(question.file_chunk_wanted(), joined);
  if (!question.has_files_wanted()) {
    return absl::InvalidArgumentError("a weights link carries questions about the checkpoint only");
  }
  Answer answer;
  v1::CheckpointFiles* const about = answer.frame.mutable_checkpoint_files();
  about->set_model_fingerprint(fingerprint_);
  for (const File& file : files_) {
    v1::CheckpointFile* const told = about->add_files();
    told->set_name(file.name);
    told->set_bytes(file.bytes);
    told->set_header_bytes(file.header_bytes);
  }
  return answer;
}

absl::StatusOr<WeightsFiles::Answer> WeightsFiles::AnswerDigests(const v1::DigestsWanted& wanted,
                                                                 bool joined) const {
  if (wanted.chunks() > kDigestsPerAnswerMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "digests of ", wanted.chunks(), " chunks at once, at most ", kDigestsPerAnswerMax));
  }
  TUTTI_ASSIGN_OR_RETURN(const File* const file,
                         FindChunks(wanted.file(), wanted.first_chunk(), wanted.chunks()));
  Answer answer;
  v1::ChunkDigests* const digests = answer.frame.mutable_chunk_digests();
  digests->set_file(file->name);
  digests->set_first_chunk(wanted.first_chunk());
  for (int64_t i = 0; i < wanted.chunks(); ++i) {
    const int64_t chunk = wanted.first_chunk() + i;
    if (joined || chunk != MixedChunk(*file)) {
      digests->mutable_digests()->append(DigestOf(*file, chunk));
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(const auto bytes, ReadChunk(*file, chunk, joined));
    const model::ChunkDigest digest = model::DigestOf(bytes);
    digests->mutable_digests()->append(reinterpret_cast<const char*>(digest.data()), digest.size());
  }
  return answer;
}

int64_t WeightsFiles::MixedChunk(const File& file) {
  const bool mixed = file.number >= 0 && file.header_bytes < file.bytes &&
                     file.header_bytes % kDigestChunkBytes != 0;
  return mixed ? file.header_bytes / kDigestChunkBytes : -1;
}

absl::StatusOr<WeightsFiles::Answer> WeightsFiles::AnswerChunk(const v1::FileChunkWanted& wanted,
                                                               bool joined) const {
  TUTTI_ASSIGN_OR_RETURN(const File* const file, FindChunks(wanted.file(), wanted.chunk(), 1));
  Answer answer;
  answer.frame.mutable_file_chunk()->set_file(file->name);
  answer.frame.mutable_file_chunk()->set_chunk(wanted.chunk());
  TUTTI_ASSIGN_OR_RETURN(answer.payload, ReadChunk(*file, wanted.chunk(), joined));
  return answer;
}

absl::StatusOr<std::vector<std::byte>> WeightsFiles::ReadChunk(const File& file, int64_t chunk,
                                                               bool joined) const {
  const int64_t begin = chunk * kDigestChunkBytes;
  std::vector<std::byte> bytes(
      static_cast<size_t>(std::min(kDigestChunkBytes, file.bytes - begin)));
  if (file.number < 0) {
    std::memcpy(bytes.data(), file.text.data() + begin, bytes.size());
    return bytes;
  }
  const model::Checkpoint& checkpoint = digests_->checkpoint();
  const auto& seen = checkpoint.files()[static_cast<size_t>(file.number)].identity;
  TUTTI_ASSIGN_OR_RETURN(
      const model::CheckpointFile open,
      model::CheckpointFile::OpenUnchanged(checkpoint.PathOf(file.number), seen));
  TUTTI_RETURN_IF_ERROR(open.Read(begin, bytes));
  const model::ChunkDigest digest = model::DigestOf(bytes);
  const std::string_view now(reinterpret_cast<const char*>(digest.data()), digest.size());
  if (now != DigestOf(file, chunk)) {
    return absl::DataLossError(
        absl::StrCat("the coordinator's own ", file.name, " has other bytes from ", begin,
                     " on than it had when it was digested: digest ", model::DigestText(now),
                     ", then ", model::DigestText(DigestOf(file, chunk)), "; look at its disk"));
  }
  if (!joined && chunk == MixedChunk(file)) {
    std::fill(bytes.begin() + (file.header_bytes - begin), bytes.end(), std::byte{0});
  }
  return bytes;
}

}  // namespace tutti::coordinator
