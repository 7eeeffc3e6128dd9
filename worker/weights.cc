#include "worker/weights.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/checkpoint.h"
#include "model/limits.h"
#include "model/partition.h"
#include "model/quantised_roles.h"
#include "model/quantised_tensors.h"
#include "model/rotary.h"
#include "program/machine.h"
#include "worker/limits.h"
#include "worker/quantised_weights.h"
#include "worker/read_ahead.h"
#include "worker/weight_conversion.h"

namespace tutti::worker {
namespace {

using kernels::TensorView;
using kernels::Weight;

// One product: matrices that become one packed weight.
struct Matrix {
  std::vector<model::ShardTensor> parts;
  std::vector<int64_t> leaf_begin;
  bool widen = false;                         // to f32 from any type
  std::shared_ptr<Weight>* shared = nullptr;  // where it goes: one of the two
  std::unique_ptr<Weight>* owned = nullptr;
  int64_t bytes = 0;  // of its elements, in the type that the model computes in
};

// Vectors that become one view, widened to f32.
struct Vector {
  std::vector<model::ShardTensor> parts;
  TensorView* view = nullptr;
  int64_t size = 0;
};

// One of the two, and what is read for it.
struct Unit {
  const Matrix* matrix = nullptr;
  const Vector* vector = nullptr;
  ReadItem item;
};

int ReadThreads() { return std::clamp(CpuCount(), 1, kReadThreadsMax); }

class Loader {
 public:
  Loader(const model::ModelConfig& config, const model::StageShare& share,
         kernels::Backend* backend, const ShardProgressCallback& progress, RankPlace place)
      : config_(config), share_(share), place_(place), backend_(backend), progress_(progress) {}

  absl::StatusOr<ShardWeights> Load(const std::string& dir) {
    TUTTI_RETURN_IF_ERROR(Open(dir));
    List();
    TUTTI_RETURN_IF_ERROR(PlaceVectors());
    PutInOrder();
    TUTTI_RETURN_IF_ERROR(CheckReport());
    TUTTI_RETURN_IF_ERROR(ReadAndPack());
    if (tied_here()) weights_.head = weights_.embedding;
    return std::move(weights_);
  }

 private:
  bool tied_here() const {
    return share_.has_embedding && share_.has_head && config_.tie_word_embeddings;
  }

  // A small vocabulary may leave nothing for a rank.
  bool has_tokens() const {
    return model::VocabularyOfRank(config_, place_.ranks, place_.rank).size() > 0;
  }

  void List() {
    weights_.layers.resize(share_.num_layers);
    if (share_.has_embedding && has_tokens()) {
      AddMatrix({Spec(model::Role::kEmbedding)}, {}).shared = &weights_.embedding;
    }
    for (int64_t i = 0; i < share_.num_layers; ++i) {
      ListLayer(share_.first_layer + i, &weights_.layers[i]);
    }
    if (!share_.has_head) return;
    AddVector({Spec(model::Role::kFinalNorm)}, &weights_.final_norm);
    if (!tied_here() && has_tokens())
      AddMatrix({Spec(model::Role::kHead)}, {}).shared = &weights_.head;
  }

  void ListLayer(int64_t layer, LayerWeights* to) {
    const auto spec = [&](model::Role role) { return Spec(role, layer); };
    const auto leaves = [&](model::Role role) {
      return model::LeafBeginsOfRank(config_, role, place_.ranks, place_.rank);
    };
    AddVector({spec(model::Role::kInputNorm)}, &to->input_norm);
    AddMatrix({spec(model::Role::kQuery), spec(model::Role::kKey), spec(model::Role::kValue)}, {})
        .owned = &to->qkv;
    if (config_.attention_bias) {
      AddVector({spec(model::Role::kQueryBias), spec(model::Role::kKeyBias),
                 spec(model::Role::kValueBias)},
                &to->qkv_bias);
    }
    if (config_.qk_norm) {
      AddVector({spec(model::Role::kQueryNorm)}, &to->query_norm);
      AddVector({spec(model::Role::kKeyNorm)}, &to->key_norm);
    }
    AddMatrix({spec(model::Role::kAttentionOutput)}, leaves(model::Role::kAttentionOutput)).owned =
        &to->attention_output;
    if (config_.attention_output_bias) {
      AddVector({spec(model::Role::kOutputBias)}, &to->output_bias);
    }
    AddVector({spec(model::Role::kPostAttentionNorm)}, &to->post_attention_norm);
    if (config_.has_experts(layer)) return ListExperts(layer, to);
    AddMatrix({spec(model::Role::kGate), spec(model::Role::kUp)}, {}).owned = &to->gate_up;
    AddMatrix({spec(model::Role::kDown)}, leaves(model::Role::kDown)).owned = &to->down;
    if (!config_.mlp_bias) return;
    AddVector({spec(model::Role::kGateBias), spec(model::Role::kUpBias)}, &to->gate_up_bias);
    AddVector({spec(model::Role::kDownBias)}, &to->down_bias);
  }

  void ListExperts(int64_t layer, LayerWeights* to) {
    Matrix& router = AddMatrix({Spec(model::Role::kRouter, layer)}, {});
    router.widen = true;
    router.owned = &to->router;
    const auto leaves =
        model::LeafBeginsOfRank(config_, model::Role::kExpertDown, place_.ranks, place_.rank);
    to->experts.resize(config_.num_experts);
    const model::Range own = model::ExpertsOfRank(config_, place_.ranks, place_.rank);
    for (int64_t e = own.begin; e < own.end; ++e) {
      const auto spec = [&](model::Role role) { return Spec(role, layer, e); };
      AddMatrix({spec(model::Role::kExpertGate), spec(model::Role::kExpertUp)}, {}).owned =
          &to->experts[e].gate_up;
      AddMatrix({spec(model::Role::kExpertDown)}, leaves).owned = &to->experts[e].down;
    }
  }

  model::ShardTensor Spec(model::Role role, int64_t layer = -1, int64_t expert = 0) const {
    return model::ShareTensor(config_, model::WeightOf(config_, role, layer, expert), place_.ranks,
                              place_.rank);
  }

  Matrix& AddMatrix(std::vector<model::ShardTensor> parts, std::vector<int64_t> leaf_begin) {
    Matrix& matrix = matrices_.emplace_back();
    for (const model::ShardTensor& part : parts) {
      matrix.bytes += part.rows.size() * part.cols.size() * DTypeBytes(config_.dtype);
    }
    total_bytes_ += matrix.bytes;
    matrix.parts = std::move(parts);
    matrix.leaf_begin = std::move(leaf_begin);
    return matrix;
  }

  void AddVector(std::vector<model::ShardTensor> parts, TensorView* view) {
    Vector& vector = vectors_.emplace_back(Vector{.parts = std::move(parts), .view = view});
    for (const model::ShardTensor& part : vector.parts) vector.size += part.held_rows;
  }

  // Opens only the files that hold something of ours, or of the stage's other ranks: of these the
  // headers are read.
  absl::Status Open(const std::string& dir) {
    std::vector<std::string> names;
    for (const model::WeightSpec& spec : model::ListWeights(config_, share_)) {
      names.push_back(spec.name);
      if (spec.shape.size() < 2 || config_.quant.empty() || config_.quantise.has_value()) continue;
      const auto others = model::QuantisedNames(model::QuantPrefix(spec.name));
      names.insert(names.end(), others.begin(), others.end());
    }
    TUTTI_ASSIGN_OR_RETURN(checkpoint_, model::Checkpoint::OpenFor(dir, names));
    if (!config_.quant.empty() && !config_.quantise.has_value()) {
      TUTTI_RETURN_IF_ERROR(model::FindQuantisedRoles(*checkpoint_, &config_));
      TUTTI_RETURN_IF_ERROR(model::CheckRanks(config_, place_.ranks));
      TUTTI_RETURN_IF_ERROR(CheckUnusedBiases(*checkpoint_, config_, share_));
    }
    return model::CheckCheckpoint(config_, *checkpoint_, share_);
  }

  // Large ones first, each alone; the others in the order of the files, where neighbours share
  // chunks and a disk reads ahead.
  void PutInOrder() {
    const auto add = [&](const Matrix* matrix, const Vector* vector,
                         const std::vector<model::ShardTensor>& parts) {
      Unit& unit = units_.emplace_back(Unit{.matrix = matrix, .vector = vector, .item = {}});
      for (const model::ShardTensor& part : parts) {
        if (!config_.is_quantised(part.spec.role, part.spec.layer)) {
          unit.item.parts.push_back(PartOf(part));
          continue;
        }
        const auto reads = QuantisedReads(*checkpoint_, config_, part);
        unit.item.parts.insert(unit.item.parts.end(), reads.begin(), reads.end());
      }
    };
    for (const Matrix& matrix : matrices_) add(&matrix, nullptr, matrix.parts);
    for (const Vector& vector : vectors_) add(nullptr, &vector, vector.parts);
    const auto place = [](const Unit& unit) {
      const ReadItem::Part& first = unit.item.parts.front();
      return std::tuple(-std::max(unit.item.bytes(), kReadAheadBytes / kReadThreadsMax),
                        first.tensor->file, first.tensor->offset + first.slice.begin);
    };
    std::stable_sort(units_.begin(), units_.end(),
                     [&](const Unit& a, const Unit& b) { return place(a) < place(b); });
  }

  // REQUIRES: CheckCheckpoint is OK
  DType StoredIn(const model::ShardTensor& part) const {
    return *model::ComputeType(checkpoint_->Find(part.spec.name)->dtype);
  }

  ReadItem::Part PartOf(const model::ShardTensor& part) const {
    const int64_t element = DTypeBytes(StoredIn(part));
    const int64_t cols = part.spec.shape.size() > 1 ? part.spec.shape[1] : 1;
    return {.tensor = checkpoint_->Find(part.spec.name),
            .slice = {.begin = model::StoredBytes(config_, part, element).begin,
                      .rows = part.rows.size(),
                      .row_bytes = part.cols.size() * element,
                      .stride = cols * element}};
  }

  // A check before the hours that reading so much takes: whether one frame holds the digests of it.
  absl::Status CheckReport() const {
    std::vector<model::ChunkRange> chunks;
    for (const Unit& unit : units_) {
      for (const ReadItem::Part& part : unit.item.parts) {
        chunks.push_back(model::ChunksOf(*part.tensor, part.slice));
      }
    }
    return model::CheckReport(model::JoinChunks(std::move(chunks)), *checkpoint_);
  }

  absl::Status ReadAndPack() {
    std::vector<ReadItem> items;
    for (const Unit& unit : units_) items.push_back(unit.item);
    ReadAhead ahead(checkpoint_.get(), std::move(items), ReadThreads(), kReadAheadBytes);
    const auto moving = [&] {
      if (progress_) progress_(loaded_bytes_, total_bytes_);
    };
    for (const Unit& unit : units_) {
      TUTTI_ASSIGN_OR_RETURN(const auto bytes, ahead.Next(moving));
      if (unit.matrix != nullptr) {
        TUTTI_RETURN_IF_ERROR(Pack(*unit.matrix, bytes.data()));
      } else {
        LoadVector(*unit.vector, bytes.data());
      }
    }
    TUTTI_ASSIGN_OR_RETURN(weights_.read, ahead.Finish());
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Weight>> PackCodes(const Matrix& matrix, const std::byte* bytes) {
    std::vector<QuantisedPiece> pieces;
    for (const auto& part : matrix.parts) pieces.push_back({&part, RowOrder(part)});
    return PackQuantised(*checkpoint_, config_, place_, pieces, matrix.leaf_begin, bytes, backend_,
                         &spare_codes_);
  }

  // Of an embedding, whose rows are looked up.
  absl::StatusOr<std::unique_ptr<Weight>> PackExpanded(const Matrix& matrix,
                                                       const std::byte* bytes) {
    const model::ShardTensor& part = matrix.parts[0];
    TUTTI_ASSIGN_OR_RETURN(std::vector<std::byte> rows,
                           ExpandRows(*checkpoint_, config_, part, bytes));
    kernels::WeightSource source;
    source.name = part.spec.name;
    source.parts.push_back({.data = rows.data(),
                            .dtype = config_.dtype,
                            .rows = part.rows.size(),
                            .cols = part.cols.size(),
                            .row_stride = part.cols.size()});
    return backend_->Pack(source);
  }

  absl::StatusOr<std::unique_ptr<Weight>> PackPlain(const Matrix& matrix, const std::byte* bytes) {
    kernels::WeightSource source;
    source.name = matrix.parts[0].spec.name;
    source.leaf_begin = matrix.leaf_begin;
    bool all_as_wanted = true;
    for (const model::ShardTensor& part : matrix.parts) {
      AddRows(part, bytes, &source);
      bytes += part.rows.size() * part.cols.size() * DTypeBytes(StoredIn(part));
      all_as_wanted = all_as_wanted && StoredIn(part) == config_.dtype;
    }
    const DType wanted = matrix.widen ? DType::kF32 : config_.dtype;
    if (matrix.widen || !all_as_wanted) ConvertParts(wanted, &source, &staging_);
    return backend_->Pack(source);
  }

  absl::Status Pack(const Matrix& matrix, const std::byte* bytes) {
    const model::WeightSpec& spec = matrix.parts[0].spec;
    const bool codes = config_.is_quantised(spec.role, spec.layer);
    auto packed = !codes                                 ? PackPlain(matrix, bytes)
                  : spec.role == model::Role::kEmbedding ? PackExpanded(matrix, bytes)
                                                         : PackCodes(matrix, bytes);
    if (!packed.ok()) return Annotate(packed.status(), absl::StrCat("packing ", spec.name));
    if (matrix.shared != nullptr) *matrix.shared = *std::move(packed);
    if (matrix.owned != nullptr) *matrix.owned = *std::move(packed);
    loaded_bytes_ += matrix.bytes;
    if (progress_) progress_(loaded_bytes_, total_bytes_);
    return absl::OkStatus();
  }

  std::vector<model::HeadSlice> RowOrder(const model::ShardTensor& part) const {
    return HeldRows(part, config_.head_dim, head_order_);
  }

  void AddRows(const model::ShardTensor& part, const std::byte* bytes,
               kernels::WeightSource* source) const {
    const int64_t row = part.cols.size();
    for (const model::HeadSlice& slice : RowOrder(part)) {
      const std::byte* first = bytes + slice.first * row * DTypeBytes(StoredIn(part));
      source->parts.push_back({.data = const_cast<std::byte*>(first),
                               .dtype = StoredIn(part),
                               .rows = slice.count,
                               .cols = row,
                               .row_stride = row * slice.step});
    }
  }

  absl::Status PlaceVectors() {
    int64_t values = 0;
    for (const Vector& vector : vectors_) values += Aligned(vector.size);
    TUTTI_ASSIGN_OR_RETURN(weights_.vectors, backend_->Allocate(values * sizeof(float)));
    float* to = static_cast<float*>(weights_.vectors->data());
    for (const Vector& vector : vectors_) {
      *vector.view = {.data = to,
                      .dtype = DType::kF32,
                      .device = backend_->device(),
                      .rows = 1,
                      .cols = vector.size,
                      .row_stride = vector.size};
      to += Aligned(vector.size);
    }
    return absl::OkStatus();
  }

  void LoadVector(const Vector& vector, const std::byte* bytes) {
    int64_t done = 0;
    for (const model::ShardTensor& part : vector.parts) {
      LoadPart(part, bytes, vector.view->Columns(done, part.held_rows));
      done += part.held_rows;
      bytes += part.rows.size() * DTypeBytes(StoredIn(part));
    }
  }

  void LoadPart(const model::ShardTensor& part, const std::byte* bytes, TensorView to) {
    const int64_t element = DTypeBytes(StoredIn(part));
    // Parts behind the first are not aligned; the backend may expect it.
    staging_.resize(static_cast<size_t>(part.held_rows * element) / sizeof(float) + 1);
    auto* staged = reinterpret_cast<std::byte*>(staging_.data());
    for (const model::HeadSlice& slice : RowOrder(part)) {
      for (int64_t i = 0; i < slice.count; ++i, staged += element) {
        std::memcpy(staged, bytes + (slice.first + i * slice.step) * element, element);
      }
    }
    TensorView from = to;
    from.data = staging_.data();
    from.device = {};
    from.dtype = StoredIn(part);
    backend_->Convert(from, to);
  }

  static int64_t Aligned(int64_t size) {
    return (size + model::kVectorMultiple - 1) / model::kVectorMultiple * model::kVectorMultiple;
  }

  model::ModelConfig config_;  // with what the tensors say of codes
  const model::StageShare& share_;
  const RankPlace place_;
  kernels::Backend* const backend_;
  const ShardProgressCallback& progress_;
  const std::vector<model::HeadSlice> head_order_ =
      model::RotaryOrder(config_.rope, config_.head_dim);

  ShardWeights weights_;
  std::vector<Matrix> matrices_;
  std::vector<Vector> vectors_;
  std::vector<Unit> units_;  // in the order they are read
  std::unique_ptr<model::Checkpoint> checkpoint_;
  std::vector<float> staging_;
  quant::SpareCodes spare_codes_;
  int64_t total_bytes_ = 0;
  int64_t loaded_bytes_ = 0;
};

}  // namespace

absl::StatusOr<ShardWeights> LoadWeights(const std::string& dir, const model::ModelConfig& config,
                                         const model::StageShare& share, kernels::Backend* backend,
                                         const ShardProgressCallback& progress, RankPlace place) {
  TUTTI_RETURN_IF_ERROR(model::CheckStageShare(config, share));
  return Loader(config, share, backend, progress, place).Load(dir);
}

}  // namespace tutti::worker
