#include "kernels/cuda/cuda_codes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/codes.h"
#include "kernels/cuda/leaf_map.h"

namespace tutti::kernels::cuda {
namespace {

// A section while it is packed.
struct Plan {
  std::vector<const QuantisedPart*> parts;
  std::vector<int32_t> order;  // [chunks * kChunkK]; -1: a zero
  std::vector<int32_t> strip_group, strip_chunk;
  std::vector<int32_t> inner;  // [chunks * 2]: the inner scale of 16 inputs; -1: none
  bool gathered = false;
  int64_t bytes = 0;
  CodesSection section;

  int32_t chunks() const { return Chunks(section.args.leaves); }
  int64_t padded() const { return int64_t{1} * chunks() * kChunkK; }
};

absl::Status Divide(const QuantisedSource& source, const std::vector<int64_t>& leaf_begin,
                    Plan* plan) {
  const Strips strips = StripsOf(source, leaf_begin, plan->parts.front()->group_of);
  CodesArgs& args = plan->section.args;
  // Checks their number and that inputs can be counted.
  TUTTI_ASSIGN_OR_RETURN(args.leaves, MakeLeafMap(leaf_begin));
  if (strips.padded() > std::numeric_limits<int32_t>::max() - kChunkK) {
    return absl::InvalidArgumentError(absl::StrCat(strips.padded(), " inputs, filled up"));
  }
  for (int64_t leaf = 0; leaf < strips.leaves(); ++leaf) {
    for (int64_t s = strips.leaf_begin[static_cast<size_t>(leaf)];
         s < strips.leaf_begin[static_cast<size_t>(leaf) + 1]; ++s) {
      const Strip& strip = strips.strips[static_cast<size_t>(s)];
      plan->strip_group.push_back(strip.group);
      plan->strip_chunk.push_back(static_cast<int32_t>(plan->order.size() / kChunkK));
      const auto first = strips.order.begin() + strip.begin;
      plan->order.insert(plan->order.end(), first, first + strip.count);
      plan->order.resize(plan->order.size() + static_cast<size_t>(strip.padded() - strip.count),
                         -1);
    }
    args.leaves.chunk[leaf + 1] = static_cast<int32_t>(plan->order.size() / kChunkK);
    args.leaf_strip[leaf + 1] = static_cast<int32_t>(plan->strip_group.size());
  }
  plan->strip_chunk.push_back(plan->chunks());
  args.strips = static_cast<int32_t>(plan->strip_group.size());
  for (int32_t packed = 0; packed < static_cast<int32_t>(plan->order.size()); ++packed) {
    if (plan->order[static_cast<size_t>(packed)] == SourceK(args.leaves, packed)) continue;
    plan->gathered = true;
    break;
  }
  if (!HasInnerScales(source.kind)) return absl::OkStatus();
  for (auto at = plan->order.begin(); at != plan->order.end(); at += kInnerInputs) {
    const auto input = std::find_if(at, at + kInnerInputs, [](int32_t k) { return k >= 0; });
    const bool none = input == at + kInnerInputs;
    plan->inner.push_back(none ? -1 : static_cast<int32_t>(source.inner_of(*input)));
  }
  return absl::OkStatus();
}

// Sets the section's bytes and, from `base` on, where its arrays lie.
void Place(const QuantisedSource& source, std::byte* base, Plan* plan) {
  CodesSection& section = plan->section;
  CodesArgs& args = section.args;
  args.out_features = static_cast<int32_t>(section.rows);
  args.scale_type = source.scale_type;
  args.kind = source.kind;
  const int64_t outs =
      (section.rows + kQuantisedColumns - 1) / kQuantisedColumns * kQuantisedColumns;
  auto* const first = reinterpret_cast<uint8_t*>(base);
  int64_t at = outs * plan->padded() * CodeBits(source.kind) / 8;
  args.codes = first;
  args.scales = first + at;
  at += outs * args.strips * DTypeBytes(source.scale_type);
  if (source.has_zeros()) {
    args.zeros = first + at;
    at += outs * args.strips;
  }
  if (HasInnerScales(source.kind)) {
    args.inner = first + at;
    at += outs * plan->padded() / kInnerInputs;
  }
  args.strip_chunk = reinterpret_cast<const int32_t*>(first + at);
  if (plan->gathered) section.order = args.strip_chunk + args.strips + 1;
  plan->bytes = at + GpuTableBytes({args.strips, plan->padded(), plan->gathered});
}

// Brings arrays of the host to the device, some rows at a time.
class Packer {
 public:
  explicit Packer(Runtime* runtime) : runtime_(runtime) {}

  absl::Status Pack(const QuantisedSource& source, const Plan& plan) {
    const CodesSection& section = plan.section;
    const CodesArgs& args = section.args;
    Put(args.strip_chunk, plan.strip_chunk);
    if (section.order != nullptr) Put(section.order, plan.order);
    TUTTI_RETURN_IF_ERROR(Map(plan.order));
    TUTTI_RETURN_IF_ERROR(EachPart(
        plan, 1, source.in_features,
        [&](const QuantisedPart& part) {
          return Rows{part.codes, part.code_stride};
        },
        [&](const void* staged, int64_t first_row, int64_t rows) {
          LaunchPackCodes({.in = static_cast<const uint8_t*>(staged),
                           .order = map(),
                           .out = const_cast<uint8_t*>(args.codes),
                           .first_row = first_row,
                           .rows = rows,
                           .width = source.in_features,
                           .chunks = plan.chunks(),
                           .kind = source.kind},
                          runtime_);
        }));
    TUTTI_RETURN_IF_ERROR(Map(plan.strip_group));
    const auto scale_bytes = static_cast<int32_t>(DTypeBytes(source.scale_type));
    TUTTI_RETURN_IF_ERROR(Beside(plan, args.scales, scale_bytes, source.groups, args.strips,
                                 [](const QuantisedPart& part) {
                                   return Rows{part.scales, part.group_stride};
                                 }));
    if (args.zeros != nullptr) {
      TUTTI_RETURN_IF_ERROR(
          Beside(plan, args.zeros, 1, source.groups, args.strips, [](const QuantisedPart& part) {
            return Rows{part.zeros, part.group_stride};
          }));
    }
    if (plan.inner.empty()) return absl::OkStatus();
    TUTTI_RETURN_IF_ERROR(Map(plan.inner));
    const int64_t width = 1 + *std::max_element(plan.inner.begin(), plan.inner.end());
    return Beside(plan, args.inner, 1, width, plan.chunks() * 2, [](const QuantisedPart& part) {
      return Rows{part.inner, part.inner_stride};
    });
  }

 private:
  struct Rows {
    const void* data = nullptr;
    int64_t stride = 0;  // in elements
  };

  const int32_t* map() const { return static_cast<const int32_t*>(map_->data()); }

  void Put(const int32_t* to, const std::vector<int32_t>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(int32_t));
    if (bytes > 0)
      runtime_->Upload(const_cast<int32_t*>(to), bytes, values.data(), bytes, bytes, 1);
  }
  absl::Status Map(const std::vector<int32_t>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(int32_t));
    TUTTI_ASSIGN_OR_RETURN(map_, CudaBuffer::Make(runtime_, bytes));
    Put(map(), values);
    return absl::OkStatus();
  }

  // Of every part, some rows at a time: `rows_of` says where they are, `launch` takes them from the
  // staging buffer.
  template <class RowsOf, class LaunchOne>
  absl::Status EachPart(const Plan& plan, int64_t element, int64_t width, const RowsOf& rows_of,
                        const LaunchOne& launch) {
    const int64_t row_bytes = width * element;
    if (row_bytes == 0 || plan.section.rows == 0) return absl::OkStatus();
    const int64_t most =
        std::min(std::max<int64_t>(kPackStagingBytes / row_bytes, 1), plan.section.rows);
    if (staging_ == nullptr || staging_->bytes() < most * row_bytes) {
      staging_.reset();
      TUTTI_ASSIGN_OR_RETURN(staging_, CudaBuffer::Make(runtime_, most * row_bytes));
    }
    int64_t first_row = 0;
    for (const QuantisedPart* part : plan.parts) {
      const Rows from = rows_of(*part);
      for (int64_t r = 0; r < part->rows; r += most) {
        const int64_t rows = std::min(most, part->rows - r);
        const int64_t stride = from.stride * element;
        runtime_->Upload(staging_->data(), row_bytes,
                         static_cast<const std::byte*>(from.data) + r * stride, stride, row_bytes,
                         rows);
        launch(staging_->data(), first_row, rows);
        first_row += rows;
      }
    }
    return absl::OkStatus();
  }

  template <class RowsOf>
  absl::Status Beside(const Plan& plan, const void* out, int32_t element, int64_t width,
                      int32_t count, const RowsOf& rows_of) {
    return EachPart(plan, element, width, rows_of,
                    [&](const void* staged, int64_t first_row, int64_t rows) {
                      LaunchPackBeside({.in = staged,
                                        .map = map(),
                                        .out = const_cast<void*>(out),
                                        .first_row = first_row,
                                        .rows = rows,
                                        .width = width,
                                        .count = count,
                                        .element = element},
                                       runtime_);
                    });
  }

  Runtime* const runtime_;
  std::unique_ptr<CudaBuffer> staging_, map_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaCodes>> CudaCodes::Pack(Runtime* runtime,
                                                           const QuantisedSource& source,
                                                           const std::vector<int64_t>& leaf_begin) {
  std::vector<Plan> plans;
  int64_t row = 0;
  for (const QuantisedPart& part : source.parts) {
    if (plans.empty() || plans.back().parts.back()->section != part.section) {
      plans.emplace_back().section.first_row = row;
    }
    plans.back().parts.push_back(&part);
    plans.back().section.rows += part.rows;
    row += part.rows;
  }
  std::unique_ptr<CudaCodes> codes(new CudaCodes());
  codes->packed_width_ = source.padded_at_least;
  int64_t bytes = 0;
  for (Plan& plan : plans) {
    const absl::Status divided = Divide(source, leaf_begin, &plan);
    if (!divided.ok()) return Annotate(divided, absl::StrCat("weight ", source.name));
    Place(source, nullptr, &plan);
    bytes += plan.bytes;
    codes->packed_width_ = std::max(codes->packed_width_, plan.padded());
  }
  TUTTI_ASSIGN_OR_RETURN(codes->data_,
                         CudaBuffer::MakeConstant(runtime, std::max(bytes, source.bytes_at_least)));
  auto* at = static_cast<std::byte*>(codes->data_->data());
  Packer packer(runtime);
  for (Plan& plan : plans) {
    Place(source, at, &plan);
    at += plan.bytes;
    TUTTI_RETURN_IF_ERROR(packer.Pack(source, plan));
    codes->sections_.push_back(plan.section);
  }
  return codes;
}

}  // namespace tutti::kernels::cuda
