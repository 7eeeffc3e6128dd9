#include "kernels/shape_checks.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/limits.h"
#include "kernels/mask_row.h"
#include "kernels/quantised_source.h"

namespace tutti::kernels {
namespace {

void CheckF32(const TensorView& view, const char* name) {
  CHECK(view.dtype == DType::kF32) << name << " is " << DTypeName(view.dtype);
  CHECK(view.row_stride >= view.cols || view.rows <= 1) << name;
}

// Whether a part fits the source and those before it.
std::string PartFault(const QuantisedSource& source, const QuantisedPart& part) {
  const QuantisedPart& first = source.parts.front();
  const bool lacks = part.codes == nullptr || part.scales == nullptr;
  if (part.rows < 0 || (part.rows > 0 && source.in_features > 0 && lacks)) {
    return "a part has no codes or scales";
  }
  if (static_cast<int64_t>(part.group_of.size()) != source.in_features) return "parts differ";
  if ((part.zeros != nullptr) != (first.zeros != nullptr)) {
    return "some parts have zero points, others none";
  }
  if (part.zeros != nullptr && !IsInteger(source.kind)) {
    return "zero points beside codes that are no integers";
  }
  if (HasInnerScales(source.kind) && part.inner == nullptr && part.rows > 0) {
    return "a part has no inner scales";
  }
  const auto bad = [&](int32_t group) { return group < 0 || group >= source.groups; };
  if (std::any_of(part.group_of.begin(), part.group_of.end(), bad)) {
    return absl::StrCat("an input of a group beyond the ", source.groups);
  }
  return "";
}

}  // namespace

absl::StatusOr<WeightShape> CheckWeightSource(const WeightSource& source) {
  const auto bad = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("weight ", source.name, ": ", why));
  };
  if (source.parts.empty()) return bad("has no parts");
  WeightShape shape;
  shape.in_features = source.parts[0].cols;
  shape.dtype = source.parts[0].dtype;
  for (const TensorView& part : source.parts) {
    if (part.dtype != shape.dtype) return bad("parts differ in type");
    if (part.cols != shape.in_features) return bad("parts differ in width");
    if (part.rows < 0 || part.cols < 0) return bad("negative shape");
    if (part.rows > 1 && part.row_stride < part.cols) return bad("rows overlap");
    shape.out_features += part.rows;
  }
  shape.leaf_begin = source.leaf_begin;
  if (shape.leaf_begin.empty()) shape.leaf_begin = {0, shape.in_features};
  const uint64_t leaves = shape.leaf_begin.size() - 1;
  if (!std::has_single_bit(leaves)) {
    return bad(absl::StrCat(leaves, " leaves, which is not a power of two"));
  }
  if (shape.leaf_begin.front() != 0 || shape.leaf_begin.back() != shape.in_features) {
    return bad("leaves do not cover the input");
  }
  for (size_t leaf = 0; leaf < leaves; ++leaf) {
    if (shape.leaf_begin[leaf] > shape.leaf_begin[leaf + 1]) return bad("leaves are not in order");
  }
  return shape;
}

absl::StatusOr<std::vector<int64_t>> CheckQuantisedSource(const QuantisedSource& source) {
  const auto bad = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("weight ", source.name, ": ", why));
  };
  if (source.parts.empty()) return bad("has no parts");
  for (const QuantisedPart& part : source.parts) {
    if (const std::string fault = PartFault(source, part); !fault.empty()) return bad(fault);
  }
  if (source.rounds_rows) {
    const bool plain = source.kind == CodeKind::kInt8 && !source.has_zeros() && source.groups == 1;
    if (!plain) return bad("rows are rounded beside other codes than integers with one scale");
    if (source.in_features > kIntegerInputsMax) {
      return bad(
          absl::StrCat(source.in_features, " inputs, of which integers fit ", kIntegerInputsMax));
    }
  }
  for (size_t i = 1; i < source.parts.size(); ++i) {
    const QuantisedPart& before = source.parts[i - 1];
    const QuantisedPart& part = source.parts[i];
    if (part.section < before.section) return bad("sections are not in order");
    if (part.section == before.section &&
        !std::equal(part.group_of.begin(), part.group_of.end(), before.group_of.begin())) {
      return bad("parts of one section have other groups");
    }
  }
  // As of a plain weight of these inputs, without rows.
  WeightSource plain;
  plain.parts.push_back({.cols = source.in_features, .row_stride = source.in_features});
  plain.leaf_begin = source.leaf_begin;
  plain.name = source.name;
  TUTTI_ASSIGN_OR_RETURN(WeightShape shape, CheckWeightSource(plain));
  return std::move(shape.leaf_begin);
}

void CheckEmbed(std::span<const int32_t> ids, const Weight& weight, const TensorView& out) {
  CheckF32(out, "out");
  CHECK(out.rows == static_cast<int64_t>(ids.size()) && out.cols == weight.in_features());
  for (int32_t id : ids) CHECK(id >= 0 && id < weight.out_features()) << "id " << id;
}

void CheckMatMul(const TensorView& in, const Weight& weight, const TensorView& out) {
  CheckF32(in, "in");
  CheckF32(out, "out");
  CHECK(in.rows == out.rows) << in.rows << " rows in, " << out.rows << " out";
  CHECK(in.cols == weight.in_features()) << in.cols << ", weight " << weight.in_features();
  CHECK(out.cols == weight.out_features()) << out.cols << ", weight " << weight.out_features();
}

void CheckRmsNorm(const TensorView& in, const TensorView& weight, const TensorView& out) {
  CheckF32(in, "in");
  CheckF32(weight, "weight");
  CheckF32(out, "out");
  CHECK(in.rows == out.rows && in.cols == out.cols);
  CHECK(weight.rows == 1 && weight.cols == in.cols);
}

void CheckHeadNormRope(const TensorView& x, int64_t head_dim, const TensorView& norm,
                       std::span<const int32_t> positions,
                       std::span<const float> inverse_frequency) {
  CheckF32(x, "x");
  CHECK(head_dim > 0 && head_dim % 2 == 0 && x.cols % head_dim == 0) << "head_dim " << head_dim;
  CHECK(static_cast<int64_t>(positions.size()) == x.rows);
  CHECK(static_cast<int64_t>(inverse_frequency.size()) == head_dim / 2);
  if (norm.data != nullptr) {
    CheckF32(norm, "norm");
    CHECK(norm.rows == 1 && norm.cols == head_dim);
  }
  for (int32_t position : positions) CHECK(position >= 0) << position;
}

void CheckAddBias(const TensorView& x, const TensorView& bias) {
  CheckF32(x, "x");
  CheckF32(bias, "bias");
  CHECK(bias.rows == 1 && bias.cols == x.cols);
}

void CheckSiluMul(const TensorView& gate_up, const TensorView& out) {
  CheckF32(gate_up, "gate_up");
  CheckF32(out, "out");
  CHECK(gate_up.rows == out.rows && gate_up.cols == 2 * out.cols);
}

void CheckAddResidual(const TensorView& residual, const TensorView& delta) {
  CheckF32(residual, "residual");
  CheckF32(delta, "delta");
  CHECK(residual.rows == delta.rows && residual.cols == delta.cols);
}

void CheckConvert(const TensorView& in, const TensorView& out) {
  CHECK(in.rows == out.rows && in.cols == out.cols);
}

void CheckKvShape(const KvShape& shape) {
  CHECK(shape.block_size > 0 && shape.block_size % 16 == 0) << shape.block_size;
  CHECK(shape.head_dim > 0 && shape.head_dim % 2 == 0) << shape.head_dim;
  CHECK(shape.num_blocks >= 0 && shape.kv_heads > 0);
}

void CheckAttentionBatch(const AttentionBatch& batch, int64_t rows, const KvShape& shape) {
  const int64_t sequences = batch.sequences();
  CHECK(static_cast<int64_t>(batch.row_begin.size()) == sequences + 1);
  CHECK(static_cast<int64_t>(batch.block_begin.size()) == sequences);
  CHECK(batch.row_begin[0] == 0 && batch.row_begin[sequences] == rows);
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t count = batch.row_begin[s + 1] - batch.row_begin[s];
    CHECK(count >= 0 && batch.first_position[s] >= 0 && batch.block_begin[s] >= 0);
    if (count == 0) continue;
    const int64_t slots = batch.first_position[s] + count;
    const int64_t blocks = (slots + shape.block_size - 1) / shape.block_size;
    CHECK(batch.block_begin[s] + blocks <= static_cast<int64_t>(batch.blocks.size()))
        << "sequence " << s << " needs " << blocks << " blocks";
    for (int64_t b = 0; b < blocks; ++b) {
      const int32_t block = batch.blocks[batch.block_begin[s] + b];
      CHECK(block >= 0 && block < shape.num_blocks) << "block " << block;
    }
  }
}

void CheckWriteKv(const TensorView& k, const TensorView& v, const AttentionBatch& batch,
                  const KvLayer& cache) {
  CheckKvShape(cache.shape);
  CheckF32(k, "k");
  CheckF32(v, "v");
  const int64_t cols = cache.shape.kv_heads * cache.shape.head_dim;
  CHECK(k.cols == cols && v.cols == cols && k.rows == v.rows);
  CheckAttentionBatch(batch, k.rows, cache.shape);
}

void CheckAttention(const TensorView& q, const KvLayer& cache, const AttentionBatch& batch,
                    const TensorView& out) {
  CheckKvShape(cache.shape);
  CheckF32(q, "q");
  CheckF32(out, "out");
  const int64_t kv_cols = cache.shape.kv_heads * cache.shape.head_dim;
  CHECK(q.cols % kv_cols == 0 && q.cols > 0) << q.cols << " query columns, " << kv_cols << " key";
  CHECK(q.rows == out.rows && q.cols == out.cols);
  CheckAttentionBatch(batch, q.rows, cache.shape);
}

void CheckScaleRows(const TensorView& x, std::span<const float> scale) {
  CheckF32(x, "x");
  CHECK(static_cast<int64_t>(scale.size()) == x.rows);
}

void CheckSelectExperts(const TensorView& logits, int64_t count, std::span<const int32_t> experts,
                        std::span<const float> shares) {
  CheckF32(logits, "logits");
  CHECK(count >= 1 && count <= logits.cols) << count << " of " << logits.cols;
  CHECK(static_cast<int64_t>(experts.size()) == logits.rows * count);
  CHECK(shares.size() == experts.size());
}

void CheckGatherRows(const TensorView& in, std::span<const int32_t> rows, const TensorView& out) {
  CheckF32(in, "in");
  CheckF32(out, "out");
  CHECK(static_cast<int64_t>(rows.size()) == out.rows && in.cols == out.cols);
  for (const int32_t row : rows) CHECK(row >= 0 && row < in.rows) << "row " << row;
}

void CheckSumRows(const TensorView& in, std::span<const int32_t> rows,
                  std::span<const float> weights, const TensorView& out) {
  CheckF32(in, "in");
  CheckF32(out, "out");
  CHECK(rows.size() == weights.size() && in.cols == out.cols);
  if (out.rows == 0) return;
  CHECK(!rows.empty() && static_cast<int64_t>(rows.size()) % out.rows == 0);
  for (const int32_t row : rows) CHECK(row >= 0 && row < in.rows) << "row " << row;
}

void CheckAdjustLogits(const TensorView& logits, std::span<const LogitAdjustment> adjustments) {
  CheckF32(logits, "logits");
  for (const LogitAdjustment& adjustment : adjustments) {
    CHECK(adjustment.row >= 0 && adjustment.row < logits.rows) << adjustment.row;
    CHECK(adjustment.id >= 0 && adjustment.id < logits.cols) << adjustment.id;
  }
}

void CheckMaskLogits(const TensorView& logits, std::span<const int32_t> rows,
                     std::span<const uint32_t> masks) {
  CheckF32(logits, "logits");
  CHECK(static_cast<int64_t>(masks.size()) ==
        static_cast<int64_t>(rows.size()) * MaskWords(logits.cols));
  for (const int32_t row : rows) CHECK(row >= 0 && row < logits.rows) << "row " << row;
}

void CheckPick(const TensorView& logits, std::span<const int32_t> ids, std::span<float> out) {
  CheckF32(logits, "logits");
  CHECK(logits.rows == 1 && ids.size() == out.size());
  for (const int32_t id : ids) CHECK(id >= 0 && id < logits.cols) << "id " << id;
}

void CheckDevice(const char* operation, Device backend,
                 std::initializer_list<const TensorView*> views) {
  for (const TensorView* view : views) {
    CHECK(view->device == backend || view->data == nullptr)
        << operation << " on " << backend.ToString() << ": an operand lies on "
        << view->device.ToString();
  }
}

void CheckDevice(const char* operation, Device backend, const KvLayer& cache) {
  CHECK(cache.device == backend) << operation << " on " << backend.ToString()
                                 << ": the KV cache lies on " << cache.device.ToString();
}

void CheckConvertDevices(Device backend, const TensorView& in, const TensorView& out) {
  const Device host;
  CHECK(in.device == backend || out.device == backend)
      << "Convert on " << backend.ToString() << ": from " << in.device.ToString() << " to "
      << out.device.ToString();
  CHECK(in.device == backend || in.device == host)
      << "Convert on " << backend.ToString() << ": from " << in.device.ToString();
  CHECK(out.device == backend || out.device == host)
      << "Convert on " << backend.ToString() << ": to " << out.device.ToString();
}

}  // namespace tutti::kernels
