// A safetensors file from outside: refused, or a table whose tensors lie in the file without gap or
// overlap.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto file_bytes = static_cast<int64_t>(size);
  const auto header_bytes = tutti::model::SafetensorsHeaderBytes(file.substr(0, 8), file_bytes);
  if (!header_bytes.ok()) return 0;
  CHECK(*header_bytes >= 0 && *header_bytes <= file_bytes - 8);
  const auto tensors = tutti::model::ParseSafetensorsHeader(
      file.substr(8, static_cast<size_t>(*header_bytes)), file_bytes);
  if (!tensors.ok()) return 0;

  int64_t at = 8 + *header_bytes;
  for (const tutti::model::TensorInfo& tensor : *tensors) {
    int64_t bytes = tutti::model::StoredTypeBytes(tensor.dtype);
    for (int64_t dimension : tensor.shape) {
      CHECK(dimension >= 0 && !__builtin_mul_overflow(bytes, dimension, &bytes));
    }
    CHECK(tensor.bytes == bytes && tensor.offset == at) << tensor.name;
    at += bytes;
  }
  CHECK(at == file_bytes);
  return 0;
}
