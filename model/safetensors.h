// The safetensors format: 8 bytes of header length, a JSON header, then the data.
//
// Pure: bytes in, table out. Nothing in the header is believed before it is checked against the
// file's size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace tutti::model {

// Element types the format can name. Those narrower than a byte (F4, F6_*) are refused by name.
enum class StoredType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
  kC64,
};

int64_t StoredTypeBytes(StoredType type);
std::string_view StoredTypeName(StoredType type);  // "BF16", as in the file
std::optional<StoredType> StoredTypeFromName(std::string_view name);
StoredType StoredTypeOf(DType type);
// The type we compute with, if it is one of those.
std::optional<DType> ComputeType(StoredType type);

struct TensorInfo {
  std::string name;
  StoredType dtype = StoredType::kF32;
  std::vector<int64_t> shape;     // [] is one element
  int32_t file = 0;               // index into Checkpoint::files()
  int64_t offset = 0;             // of its first byte, from the start of the file
  int64_t bytes = 0;              // = elements * size of one
  std::string ShapeText() const;  // "[1024, 3072]"
};

// The bytes of the header's length field.
inline constexpr int64_t kSafetensorsPrefixBytes = 8;

// Length of the JSON header of a file of `file_bytes` bytes whose first bytes (at least 8, if it
// has them) are `prefix`. INVALID_ARGUMENT: too short, longer than the file or than
// kSafetensorsHeaderBytesMax.
absl::StatusOr<int64_t> SafetensorsHeaderBytes(std::string_view prefix, int64_t file_bytes);

// The tensors of a file of `file_bytes` bytes with JSON header `header`, in the order of their
// bytes.
//
// INVALID_ARGUMENT names the tensor and the reason: not an object of tensors, a key or tensor
// twice, an unknown dtype, offsets that are not shape * size, that overlap, leave a gap or do not
// end where the file ends. Memory: proportional to the header.
absl::StatusOr<std::vector<TensorInfo>> ParseSafetensorsHeader(std::string_view header,
                                                               int64_t file_bytes);

// The first bytes of a file with these tensors: length, header and the spaces that let the data
// begin at a multiple of
// 8. The data follows in the same order. Only name, dtype, shape and bytes are read.
std::string MakeSafetensorsHeader(const std::vector<TensorInfo>& tensors);

}  // namespace tutti::model
