#include "worker/quantised_weights.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "kernels/float_formats.h"
#include "kernels/quantised_source.h"
#include "model/quantise_choice.h"
#include "model/quantised_tensors.h"
#include "model/weight_map.h"
#include "program/machine.h"
#include "quant/in_parts.h"
#include "quant/make_codes.h"
#include "quant/quant_reader.h"

namespace tutti::worker {
namespace {

const model::QuantConfig& FormatOf(const model::ModelConfig& config,
                                   const model::ShardTensor& part) {
  const model::QuantConfig* const format = config.quant.Find(part.spec.role, part.spec.layer);
  CHECK(format != nullptr) << part.spec.name;
  return *format;
}

absl::StatusOr<model::QuantisedMatrix> FindMatrix(const model::Checkpoint& checkpoint,
                                                  const model::QuantConfig& format,
                                                  const model::WeightSpec& spec) {
  const auto find = [&](const std::string& name) { return checkpoint.Find(name); };
  return model::FindQuantisedMatrix(find, model::QuantPrefix(spec.name), format, spec.tensor_rows,
                                    spec.shape[1]);
}

// Codes made of what the checkpoint has instead.
absl::StatusOr<quant::QuantMatrix> MakeCodes(const model::Checkpoint& checkpoint,
                                             const model::ModelConfig& config,
                                             const model::ShardTensor& part,
                                             const std::byte** bytes, quant::SpareCodes* spare) {
  const quant::PlainRows plain = {
      .tensor = &part.spec.name,
      .first_row = part.stored_rows().begin,
      .rows = part.rows.size(),
      .cols = model::ColsOfCodes(config, part),
      .in = part.spec.shape[1],
      .type = *model::ComputeType(checkpoint.Find(part.spec.name)->dtype),
      .elements = *bytes};
  *bytes += plain.rows * plain.cols.size() * DTypeBytes(plain.type);
  return quant::MakeQuantMatrix(FormatOf(config, part), plain, part.cols, CpuCount(), spare);
}

// The codes of one piece; *bytes moves behind what they are read from.
absl::StatusOr<quant::QuantMatrix> Decode(const model::Checkpoint& checkpoint,
                                          const model::ModelConfig& config,
                                          const model::ShardTensor& part, const std::byte** bytes,
                                          quant::SpareCodes* spare) {
  if (config.quantise.has_value()) return MakeCodes(checkpoint, config, part, bytes, spare);
  const model::QuantConfig& format = FormatOf(config, part);
  TUTTI_ASSIGN_OR_RETURN(const model::QuantisedMatrix matrix,
                         FindMatrix(checkpoint, format, part.spec));
  std::vector<quant::ReadPart> parts;
  for (const model::StoredPart& stored :
       model::PartsOf(matrix, format, part.stored_rows(), part.cols)) {
    const auto size = static_cast<size_t>(stored.slice().bytes());
    parts.push_back({stored, std::span(*bytes, size)});
    *bytes += size;
  }
  return quant::DecodeQuantMatrix(matrix, format, part.stored_rows(), part.cols, parts, CpuCount(),
                                  spare);
}

}  // namespace

std::vector<ReadItem::Part> QuantisedReads(const model::Checkpoint& checkpoint,
                                           const model::ModelConfig& config,
                                           const model::ShardTensor& part) {
  if (config.quantise.has_value()) {
    const model::TensorInfo* const tensor = checkpoint.Find(part.spec.name);
    const int64_t element = model::StoredTypeBytes(tensor->dtype);
    const model::Range cols = model::ColsOfCodes(config, part);
    const int64_t stride = part.spec.shape[1] * element;
    return {{.tensor = tensor,
             .slice = {.begin = part.stored_rows().begin * stride + cols.begin * element,
                       .rows = part.rows.size(),
                       .row_bytes = cols.size() * element,
                       .stride = stride}}};
  }
  const model::QuantConfig& format = FormatOf(config, part);
  const auto matrix = FindMatrix(checkpoint, format, part.spec);
  CHECK(matrix.ok()) << matrix.status();
  std::vector<ReadItem::Part> reads;
  for (const model::StoredPart& stored :
       model::PartsOf(*matrix, format, part.stored_rows(), part.cols)) {
    reads.push_back({.tensor = stored.tensor, .slice = stored.slice()});
  }
  return reads;
}

absl::StatusOr<std::unique_ptr<kernels::Weight>> PackQuantised(
    const model::Checkpoint& checkpoint, const model::ModelConfig& config, RankPlace place,
    const std::vector<QuantisedPiece>& pieces, std::vector<int64_t> leaf_begin,
    const std::byte* bytes, kernels::Backend* backend, quant::SpareCodes* spare) {
  std::vector<quant::QuantMatrix> matrices;
  matrices.reserve(pieces.size());
  kernels::QuantisedSource source;
  source.name = pieces.front().part->spec.name;
  source.leaf_begin = std::move(leaf_begin);
  source.computed_in = config.dtype;
  const model::QuantConfig& format = FormatOf(config, *pieces.front().part);
  source.rounds_rows = format.quantises_activations;
  std::vector<int64_t> rows;
  for (const QuantisedPiece& piece : pieces) {
    TUTTI_ASSIGN_OR_RETURN(matrices.emplace_back(),
                           Decode(checkpoint, config, *piece.part, &bytes, spare));
    const quant::QuantMatrix& matrix = matrices.back();
    source.kind = matrix.kind;
    source.scale_type = matrix.scale_type;
    source.in_features = matrix.in;
    source.groups = matrix.groups;
    source.first_input = matrix.first_input;
    for (const model::HeadSlice& slice : piece.order) {
      source.parts.push_back(matrix.Rows(slice.first, slice.count, slice.step));
      // Only then may the groups of one product differ.
      if (format.any_order) source.parts.back().section = static_cast<int32_t>(rows.size());
    }
    rows.push_back(piece.part->held_rows);
  }
  const model::Role role = pieces.back().part->spec.role;
  source.bytes_at_least =
      model::QuantisedProductBytes(config, format, role, rows, place.ranks, place.rank,
                                   model::PackingOf(backend->device().kind));
  source.padded_at_least =
      model::CountProductStrips(config, format, role, place.ranks, place.rank).padded;
  auto packed = backend->PackQuantised(source);
  for (quant::QuantMatrix& matrix : matrices) spare->GiveBack(std::move(matrix.codes));
  return packed;
}

absl::StatusOr<std::vector<std::byte>> ExpandRows(const model::Checkpoint& checkpoint,
                                                  const model::ModelConfig& config,
                                                  const model::ShardTensor& part,
                                                  const std::byte* bytes) {
  TUTTI_ASSIGN_OR_RETURN(const quant::QuantMatrix matrix,
                         Decode(checkpoint, config, part, &bytes, nullptr));
  std::vector<std::byte> rows(
      static_cast<size_t>(matrix.out * matrix.in * DTypeBytes(config.dtype)));
  TUTTI_RETURN_IF_ERROR(quant::InParts(matrix.out, CpuCount(), [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(matrix.in));
    for (int64_t n = begin; n < end; ++n) {
      matrix.Dequantise(n, row.data());
      for (int64_t k = 0; k < matrix.in; ++k) {
        kernels::StoreFromF32(rows.data(), config.dtype, n * matrix.in + k,
                              row[static_cast<size_t>(k)]);
      }
    }
    return absl::OkStatus();
  }));
  return rows;
}

absl::Status CheckUnusedBiases(const model::Checkpoint& checkpoint,
                               const model::ModelConfig& config, const model::StageShare& share) {
  std::set<std::string> used;
  const std::vector<model::WeightSpec> specs = model::ListWeights(config, share);
  for (const model::WeightSpec& spec : specs) used.insert(spec.name);
  for (const model::WeightSpec& spec : specs) {
    if (!config.is_quantised(spec.role, spec.layer)) continue;
    const std::string bias = model::QuantPrefix(spec.name) + ".bias";
    if (used.contains(bias) || checkpoint.Find(bias) == nullptr) continue;
    TUTTI_ASSIGN_OR_RETURN(const auto bytes, checkpoint.Read(bias));
    // A zero with a sign is one too, in every type.
    const int64_t element = model::StoredTypeBytes(checkpoint.Find(bias)->dtype);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const bool top = (i + 1) % static_cast<size_t>(element) == 0;
      if ((bytes[i] & (top ? std::byte{0x7f} : std::byte{0xff})) == std::byte{0}) continue;
      return model::RefuseTensor(bias, "is not all zeros, and the model has no such bias");
    }
  }
  return absl::OkStatus();
}

}  // namespace tutti::worker
