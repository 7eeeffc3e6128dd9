// The operator contract: everything the transformer needs from a device, and nothing about models.
//
// One voice rests on these rules, which every implementation keeps and conformance_test.cc checks:
//
//   * Row independence. A row's result depends on that row alone (for attention: on its query, its
//     position and the cached keys and values before it), not on how many rows are in the call or
//     where in it the row stands.
//   * Fixed order. Every sum has one order, given by the shape of the weight, never by the number
//     of rows or threads.
//   * Work is split over threads by output elements, never inside a sum.
//
// Every view names the device its memory is on. An operator takes views of its backend's device
// only (Convert apart) and CHECKs it, naming both devices.
//
// Activations are f32 unless an operator says otherwise. Row counts may be 0. Operators that cannot
// fail by contract CHECK their shapes: the transformer is their only caller and shapes come from a
// validated configuration.
//
// Thread: one thread calls the operators of a backend at a time (the executor); the backend may use
// its own pool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/step_bounds.h"
#include "kernels/device_link.h"
#include "kernels/tensor.h"

namespace tutti::kernels {

// Memory on the backend's device. Freed by the destructor.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual void* data() const = 0;
  virtual int64_t bytes() const = 0;
};

// A matrix of weights [out_features, in_features] in the backend's own layout: an activation row of
// in_features values becomes one of out_features.
class Weight {
 public:
  virtual ~Weight() = default;
  virtual int64_t out_features() const = 0;
  virtual int64_t in_features() const = 0;
  virtual int64_t bytes() const = 0;  // resident, padding included
  // Whether its products round rows by their largest element (quantised_source.h).
  virtual bool rounds_rows() const { return false; }
};

// The source of a Weight: row-major matrices in the checkpoint's memory (host), stacked over the
// out dimension.
struct WeightSource {
  // Parts [out_i, in], stacked in order: Q, K and V become one product. All of one dtype.
  std::vector<TensorView> parts;
  // Row-parallel products are sums of leaves over fixed ranges of `in`: leaf l covers
  // [leaf_begin[l], leaf_begin[l + 1]). Each leaf is summed alone in f32 and the leaves are added
  // in a binary tree of neighbours: ((0+1)+(2+3))+((4+5)+(6+7)). Empty: one leaf. Otherwise a power
  // of two of leaves, ranges may be empty (an empty leaf is 0).
  std::vector<int64_t> leaf_begin;
  std::string name;  // for errors
};

using tutti::KvShape;
using tutti::StepBounds;

// One layer's KV cache, in the backend's layout.
struct KvLayer {
  void* data = nullptr;  // [KvLayerBytes(shape)] bytes
  Device device;
  KvShape shape;
};

// The ragged batch of one step. Rows of activations are grouped by sequence: rows [row_begin[s],
// row_begin[s + 1]) belong to sequence s and stand at positions first_position[s],
// first_position[s] + 1, … All arrays on the host.
struct AttentionBatch {
  std::span<const int32_t> row_begin;       // [sequences + 1]
  std::span<const int32_t> first_position;  // [sequences]
  // Block of slot p of sequence s: blocks[block_begin[s] + p / block_size].
  std::span<const int32_t> block_begin;  // [sequences]
  std::span<const int32_t> blocks;
  int64_t sequences() const { return static_cast<int64_t>(first_position.size()); }
};

// logit := logit > 0 ? logit / repetition : logit * repetition;  logit += bias.
struct LogitAdjustment {
  int32_t row = 0;
  int32_t id = 0;
  float repetition = 1;
  float bias = 0;
};

struct Candidate {
  int32_t id = 0;
  float logit = 0;
};

// Columns [begin, begin + size) of rows.
struct ColumnRange {
  int64_t begin = 0, size = 0;
};

// What sampling asks of rows of logits at once (Backend::Summarize).
struct LogitQuestions {
  // [sums, rows]: for each of some sums an inverse temperature; 0: not asked
  std::span<const double> inverse_temperatures;
  std::span<const ColumnRange> ranges;  // each is summed by itself
  std::span<const int32_t> listed;      // rows whose first candidates are wanted,
  int64_t places = 0;                   // so many
};
struct LogitAnswers {
  std::span<Candidate> bests;   // [rows], as Backend::Bests
  std::span<double> sums;       // [sums, rows, ranges], as LogSumExp; undefined where not asked
  std::span<Candidate> listed;  // [listed, places], as TopCandidatesOfRows
};

// Kernels that a backend has started on its device since it was made.
struct LaunchCounts {
  int64_t kernels = 0;
  int64_t kernels_by_graphs = 0;       // those that a graph started
  int64_t kernels_of_short_lists = 0;  // of lists too short to be worth a graph
  int64_t graph_starts = 0;
  int64_t graphs_made = 0;
  int64_t graphs = 0;       // that exist now
  int64_t graph_bytes = 0;  // device memory of the graphs that exist now
  std::string graph_error;  // the reason why no further graphs are made; "": none
};

class FamilyOperators;   // kernels/family_operators.h
class DeviceExchange;    // kernels/device_exchange.h
class JoinedOperators;   // kernels/joined_operators.h
class SeveralClasses;    // kernels/several_classes.h
class Tunable;           // kernels/tunable.h
class WorkMeter;         // kernels/work_meter.h
struct QuantisedSource;  // kernels/quantised_source.h

class Backend {
 public:
  virtual ~Backend() = default;

  // The abilities that only some backends have: null where it has not. Owned by the backend.
  //
  // Operators of some model families.
  virtual FamilyOperators* family_operators() { return nullptr; }
  // Joined operators; null when joining them gains nothing.
  virtual JoinedOperators* joined_operators() { return nullptr; }
  // Exchange between the ranks of a stage; null when it can only go through the host's memory.
  virtual DeviceExchange* device_exchange() { return nullptr; }
  // More than one numerics class; null: numerics_class() only.
  virtual SeveralClasses* several_classes() { return nullptr; }
  // Knobs that change no bit.
  virtual Tunable* tunable() { return nullptr; }
  // How far it has come within an operator.
  virtual const WorkMeter* work_meter() const { return nullptr; }
  // One end of a link between devices of this kind; null when rows can only cross through the
  // host's memory. REQUIRES: the backend outlives the link
  virtual std::unique_ptr<DeviceLink> NewDeviceLink() { return nullptr; }

  virtual std::string_view name() const = 0;  // "cpu", "reference", "cuda"
  // Machines of one class give the same bits for the same input (docs/GLOSSARY.md).
  virtual std::string_view numerics_class() const = 0;
  // False: bits of a row depend on the rows beside it (against the first rule above), so that what
  // is computed again may differ. Only of a class that BackendOptions named.
  virtual bool exact() const { return true; }
  virtual Device device() const = 0;
  // Bytes of the device's memory that are free; 0 for backends in the host's memory.
  virtual int64_t FreeDeviceBytes() { return 0; }

  // Zeroed memory, aligned to 64 bytes.
  // Errors: RESOURCE_EXHAUSTED, with the bytes asked for
  virtual absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(int64_t bytes) = 0;

  // Packs a weight. The sources may be unmapped afterwards. 16-bit weights stay 16-bit.
  // Errors: RESOURCE_EXHAUSTED when memory is short; INVALID_ARGUMENT for a dtype that the backend
  // lacks
  virtual absl::StatusOr<std::unique_ptr<Weight>> Pack(const WeightSource& source) = 0;
  // The same of codes, which stay as many bits as they are.
  // Errors: those of Pack; UNIMPLEMENTED where the backend has no kernels for them
  virtual absl::StatusOr<std::unique_ptr<Weight>> PackQuantised(const QuantisedSource& source);

  // Allocates the memory that operators within `bounds` need beside their operands, for all weights
  // packed so far, so that no step allocates any. Returns the bytes of the device that are held for
  // it from now on, those of earlier calls included.
  // Errors: RESOURCE_EXHAUSTED when memory is short
  virtual absl::StatusOr<int64_t> Reserve(const StepBounds& bounds) { return 0; }
  // Gives back what Reserve holds, and forgets which weights were packed: those of another shard
  // follow, for which less may have been planned.   REQUIRES: none of them is multiplied again
  virtual void GiveBack() {}

  // A step's last operator was called: recorded kernels start now, and arrays that the host gave to
  // operators are not expected again. A missing call costs only speed.
  virtual void EndStep() {}
  // Zeros of backends that start no kernels.
  virtual LaunchCounts launch_counts() const { return {}; }
  // One line for the log about how this backend computes on its device; "" for none.
  virtual std::string_view remark() const { return ""; }

  // out[r, :] = weight[ids[r], :], exactly, as f32
  //
  //   ids  [rows], host
  //   out  [rows, in_features] f32
  //
  // REQUIRES: 0 <= ids[r] < out_features
  virtual void Embed(std::span<const int32_t> ids, const Weight& weight, TensorView out) = 0;

  // out[r, n] = sum_k in[r, k] * weight[n, k]
  //
  //   in   [rows, in_features] f32
  //   out  [rows, out_features] f32, not aliasing `in`
  //
  // A numerics class may round `in` to the weight's type first (cpu-bf16dot does).
  virtual void MatMul(TensorView in, const Weight& weight, TensorView out) = 0;

  // out[r, :] = in[r, :] / sqrt(mean(in[r, :]^2) + epsilon) * weight
  //
  //   in, out  [rows, cols] f32, `out` may be `in`
  //   weight   [1, cols] f32
  virtual void RmsNorm(TensorView in, TensorView weight, float epsilon, TensorView out) = 0;

  // RmsNorm of each head alone (Qwen3's query and key norm), then rotary embedding over the whole
  // head in the half-split convention: pairs (i, i + head_dim / 2), each turned by the angle
  // position * inverse_frequency[i].
  //
  //   x                  [rows, heads * head_dim] f32, in place
  //   norm               [1, head_dim] f32; data == nullptr: no norm
  //   positions          [rows], host
  //   inverse_frequency  [head_dim / 2], host
  virtual void HeadNormRope(TensorView x, int64_t head_dim, TensorView norm, float epsilon,
                            std::span<const int32_t> positions,
                            std::span<const float> inverse_frequency) = 0;

  // x[r, :] += bias, for families with biases
  //
  //   x     [rows, cols] f32, in place
  //   bias  [1, cols] f32
  virtual void AddBias(TensorView x, TensorView bias) = 0;

  // out[r, i] = silu(gate_up[r, i]) * gate_up[r, n + i]
  //
  //   gate_up  [rows, 2 n] f32
  //   out      [rows, n] f32
  virtual void SiluMul(TensorView gate_up, TensorView out) = 0;

  // residual[r, :] = round(residual[r, :] + delta[r, :]) to `round_to`, to nearest even (f32: no
  // rounding)
  //
  //   residual, delta  [rows, cols] f32
  virtual void AddResidual(TensorView residual, TensorView delta, DType round_to) = 0;

  // out = in, converted to nearest even. One of them may lie in host memory (device cpu:0),
  // with any backend: so activations and vectors enter and leave a device and the wire format.
  // A conversion into host memory waits for everything before it.
  //
  //   in, out  [rows, cols] f32, bf16 or f16 each
  virtual void Convert(TensorView in, TensorView out) = 0;

  // Errors: INVALID_ARGUMENT when this backend has no kernel for such a cache, with those it has
  virtual absl::Status CheckKvSupport(const KvShape& shape) const { return absl::OkStatus(); }
  // REQUIRES: CheckKvSupport is OK
  virtual int64_t KvLayerBytes(const KvShape& shape) const = 0;
  // Stores row r's key and value at its sequence's position. A number that the cache's type can
  // only hold as an infinity is stored as NaN: a score of minus infinity would quietly leave the
  // position out.
  //
  //   k, v  [rows, kv_heads * head_dim] f32
  virtual void WriteKv(TensorView k, TensorView v, const AttentionBatch& batch,
                       const KvLayer& cache) = 0;

  // Causal attention of every row over its sequence's slots [0, position], walked in absolute tiles
  // of a fixed number of slots for any block size. Head h reads KV head
  // h / (heads / kv_heads).
  //
  //   q, out  [rows, heads * head_dim] f32
  //
  // REQUIRES: the row's own key and value are written
  virtual void Attention(TensorView q, const KvLayer& cache, const AttentionBatch& batch,
                         float scale, TensorView out) = 0;

  // Sampling support; logits are [rows, vocab] f32.
  //
  // Each adjustment is applied to its logit, in place (LogitAdjustment).
  virtual void AdjustLogits(TensorView logits, std::span<const LogitAdjustment> adjustments) = 0;
  // logits[rows[i], c] = -Inf for each c whose bit, c % 32 of masks[i, c / 32], is 0.
  //   rows  all different, host;   masks  [rows.size(), MaskWords(vocab)] (mask_row.h), host
  virtual void MaskLogits(TensorView logits, std::span<const int32_t> rows,
                          std::span<const uint32_t> masks);
  // out[r] = the smallest index among the largest values; -1 for a row that holds NaN or +Inf, or
  // only -Inf.   out [rows], host
  virtual void ArgMax(TensorView logits, std::span<int32_t> out) = 0;
  // The same with the largest values themselves.   out [rows], host: id -1 as ArgMax says
  virtual void Bests(TensorView logits, std::span<Candidate> out);
  // out[r] = log(sum_i exp(logits[r, i] * inverse_temperature)), in a fixed order over f64 partial
  // sums. NaN for a row that holds NaN, else +Inf for one that holds +Inf; -Inf for a row of -Inf
  // only.   out [rows], host
  // REQUIRES: inverse_temperature > 0
  virtual void LogSumExp(TensorView logits, double inverse_temperature, std::span<double> out) = 0;
  // out[i] = logits[0, ids[i]].   ids, out of one length, host
  // REQUIRES: 0 <= ids[i] < vocab
  virtual void Pick(TensorView logits, std::span<const int32_t> ids, std::span<float> out) = 0;
  // *out = the `count` largest of one row, by (logit descending, id ascending), NaN left out.
  virtual void TopCandidates(TensorView logits, int64_t row, int64_t count,
                             std::vector<Candidate>* out) = 0;
  // The same of several rows, in one go where waiting for a device costs more than a row does:
  // out[i * count + j] is candidate j of row rows[i], with id -1 behind the last of a row.
  //   out [rows.size(), count], host
  virtual void TopCandidatesOfRows(TensorView logits, std::span<const int32_t> rows, int64_t count,
                                   std::span<Candidate> out);
  // The answers of Bests, LogSumExp and TopCandidatesOfRows, for one wait where answers come from a
  // device.   REQUIRES: logits have columns; ranges lie among them
  virtual void Summarize(TensorView logits, const LogitQuestions& questions,
                         const LogitAnswers& answers);
};

// Told, by one thread, of a device that no call of this process reaches any more: which one, what
// failed, and what to do, in one line of a text that ends with a 0. May end the process; if it
// returns, the backend does.
using LostDeviceHandler = void (*)(const char* line);

struct BackendOptions {
  int num_threads = 0;  // 0: all the process may use
  // "": the machine's best; else a class that the machine has, or FAILED_PRECONDITION.
  std::string numerics_class;
  // "": the best; else one of cpu/instruction_set.h ("avx2", "amx"…): for tests and measurement.
  std::string instruction_set;
  // "cuda" only, changes no bits: steps with the kernels of an earlier step start as one graph.
  bool graphs = true;
  // "cuda" only, changes no bits: kernels begin while those before them end, where the device can
  // (compute capability 9.0).
  bool early_kernels = true;
  // "cuda" only; null: the line goes to stderr.
  LostDeviceHandler on_lost_device = nullptr;
};

// Opens "cpu", "reference", or "cuda:N" (a plug-in: see plugin_loader.h).
// Errors: NOT_FOUND, with the known names
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(std::string_view name,
                                                       const BackendOptions& options);

}  // namespace tutti::kernels
