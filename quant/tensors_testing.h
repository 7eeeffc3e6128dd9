// Tensors of quantised matrices in memory, and parts of such matrices read from them, for tests.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/quantised_tensors.h"
#include "quant/quant_reader.h"
#include "quant/tensor_source.h"

namespace tutti::quant {

class Made final : public TensorSource {
 public:
  template <typename Value>
  void Add(const std::string& name, model::StoredType type, std::vector<int64_t> shape,
           const std::vector<Value>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(Value));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    tensors_[name] = {{.name = name,
                       .dtype = type,
                       .shape = std::move(shape),
                       .bytes = static_cast<int64_t>(bytes.size())},
                      std::move(bytes)};
  }
  void Remove(const std::string& name) { tensors_.erase(name); }
  const model::TensorInfo* Find(std::string_view name) const override {
    const auto found = tensors_.find(std::string(name));
    return found == tensors_.end() ? nullptr : &found->second.first;
  }
  absl::StatusOr<std::vector<std::byte>> Read(std::string_view name) const override {
    return tensors_.at(std::string(name)).second;
  }

 private:
  std::map<std::string, std::pair<model::TensorInfo, std::vector<std::byte>>> tensors_;
};

// Outputs `rows` and inputs `cols` of a matrix, as a rank reads them: only the bytes they need.
inline absl::StatusOr<QuantMatrix> DecodePart(const TensorSource& source,
                                              const model::QuantisedMatrix& matrix,
                                              const model::QuantConfig& config, model::Range rows,
                                              model::Range cols, int threads = 1,
                                              SpareCodes* spare = nullptr) {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<ReadPart> parts;
  for (const model::StoredPart& stored : model::PartsOf(matrix, config, rows, cols)) {
    TUTTI_ASSIGN_OR_RETURN(const auto all, source.Read(stored.tensor->name));
    const model::TensorSlice slice = stored.slice();
    std::vector<std::byte>& to = bytes.emplace_back();
    for (int64_t r = 0; r < slice.rows; ++r) {
      const auto* const from = all.data() + slice.begin + r * slice.stride;
      to.insert(to.end(), from, from + slice.row_bytes);
    }
    parts.push_back({stored, to});
  }
  return DecodeQuantMatrix(matrix, config, rows, cols, parts, threads, spare);
}

}  // namespace tutti::quant
