#include "quant/tensor_source.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "model/checkpoint.h"
#include "model/checkpoint_file.h"
#include "model/limits.h"

namespace tutti::quant {
namespace {

class OfCheckpoint final : public TensorSource {
 public:
  explicit OfCheckpoint(std::unique_ptr<model::Checkpoint> checkpoint)
      : checkpoint_(std::move(checkpoint)) {}
  const model::TensorInfo* Find(std::string_view name) const override {
    return checkpoint_->Find(name);
  }
  absl::StatusOr<std::vector<std::byte>> Read(std::string_view name) const override {
    return checkpoint_->Read(name);
  }

 private:
  const std::unique_ptr<model::Checkpoint> checkpoint_;
};

class OfFile final : public TensorSource {
 public:
  OfFile(model::CheckpointFile file, std::vector<model::TensorInfo> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}
  const model::TensorInfo* Find(std::string_view name) const override {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                    [&](const auto& tensor) { return tensor.name == name; });
    return found == tensors_.end() ? nullptr : &*found;
  }
  absl::StatusOr<std::vector<std::byte>> Read(std::string_view name) const override {
    const model::TensorInfo& tensor = *Find(name);
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes));
    TUTTI_RETURN_IF_ERROR(file_.Read(tensor.offset, bytes));
    return bytes;
  }

 private:
  const model::CheckpointFile file_;
  const std::vector<model::TensorInfo> tensors_;
};

absl::StatusOr<std::string> ReadText(const model::CheckpointFile& file, int64_t offset,
                                     int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  TUTTI_RETURN_IF_ERROR(file.Read(offset, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> OpenTensors(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    TUTTI_ASSIGN_OR_RETURN(auto checkpoint, model::Checkpoint::Open(path));
    return std::make_unique<OfCheckpoint>(std::move(checkpoint));
  }
  TUTTI_ASSIGN_OR_RETURN(model::CheckpointFile file, model::CheckpointFile::Open(path));
  const int64_t bytes = file.identity().bytes;
  TUTTI_ASSIGN_OR_RETURN(const std::string prefix,
                         ReadText(file, 0, std::min(bytes, model::kSafetensorsPrefixBytes)));
  auto header_bytes = model::SafetensorsHeaderBytes(prefix, bytes);
  if (!header_bytes.ok()) return Annotate(header_bytes.status(), path);
  TUTTI_ASSIGN_OR_RETURN(const std::string header,
                         ReadText(file, model::kSafetensorsPrefixBytes, *header_bytes));
  auto tensors = model::ParseSafetensorsHeader(header, bytes);
  if (!tensors.ok()) return Annotate(tensors.status(), path);
  return std::make_unique<OfFile>(std::move(file), *std::move(tensors));
}

}  // namespace tutti::quant
