// Speed of every operator on the shapes of one model, beside the limits of the machine probed in
// the same run.
//
// Every figure is the best of several passes over enough copies of its data that nothing comes from
// a cache. The probes run between the passes of an operator, so that a slow phase of the host hits
// both alike; the share compares the medians.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/backend.h"
#include "kernels/float_formats.h"
#include "kernels/machine_probe.h"
#include "kernels/quantised_source.h"
#include "program/flags.h"

namespace tutti::bench {
namespace {

using kernels::AttentionBatch;
using kernels::Backend;
using kernels::BackendOptions;
using kernels::Candidate;
using kernels::CreateBackend;
using kernels::DeviceBuffer;
using kernels::F32ToBf16;
using kernels::KvShape;
using kernels::MachineProbe;
using kernels::StoreFromF32;
using kernels::TensorView;
using kernels::Weight;

struct Options {
  int threads = 2;
  std::string instruction_set;
  std::string filter;
  int passes = 9;
  std::vector<int64_t> rows = {1, 2, 3, 4, 6, 8, 16, 64, 512};
  int64_t hidden = 1024, ffn = 3072, heads = 16, kv_heads = 8, head_dim = 128, vocab = 151936;
};

// Data of this size is out of every cache.
constexpr int64_t kColdBytes = 192 << 20;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(const Options& options, Backend* backend, MachineProbe* probe)
      : options_(options), backend_(backend), probe_(probe) {
    numerics_class_ = backend->numerics_class();
  }

  // One pass of `run` moves `bytes` from memory and does `flops`.
  void Measure(const std::string& name, double bytes, double flops, bool uses_bf16,
               const std::function<void()>& run) {
    std::vector<double> seconds, read_share, flop_share;
    run();
    for (int i = 0; i < options_.passes; ++i) {
      const double before = probe_->ReadBytesPerSecond();
      const double peak =
          uses_bf16 ? probe_->FlopsPerSecond(numerics_class_) : probe_->F32FlopsPerSecond();
      const auto start = std::chrono::steady_clock::now();
      run();
      const double t =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      const double after = probe_->ReadBytesPerSecond();
      seconds.push_back(t);
      read_share.push_back(bytes / t / ((before + after) / 2));
      flop_share.push_back(flops / t / peak);
    }
    const double best = *std::min_element(seconds.begin(), seconds.end());
    std::printf(
        "%-34s %9.3f ms (best %9.3f)  %6.1f GB/s (%3.0f%% of probe)  %7.1f GFLOP/s (%3.0f%%)\n",
        name.c_str(), Median(seconds) * 1e3, best * 1e3, bytes / Median(seconds) / 1e9,
        100 * Median(read_share), flops / Median(seconds) / 1e9, 100 * Median(flop_share));
    std::fflush(stdout);
  }
  bool Wanted(const std::string& name) const {
    return options_.filter.empty() || name.find(options_.filter) != std::string::npos;
  }
  const Options& options() const { return options_; }
  Backend& backend() { return *backend_; }

 private:
  const Options options_;
  Backend* const backend_;
  MachineProbe* const probe_;
  std::string numerics_class_;
};

std::vector<float> RandomFloats(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.Uniform() * 2 - 1);
  return values;
}

TensorView View(std::vector<float>& values, int64_t rows, int64_t cols) {
  return {values.data(), DType::kF32, {}, rows, cols, cols};
}

std::vector<int64_t> Leaves(int64_t in, int64_t leaves) {
  std::vector<int64_t> begin;
  for (int64_t l = 0; l <= leaves; ++l) begin.push_back(in * l / leaves);
  return begin;
}

// Products of `copies`, `bytes` together, one after the other.
void TimeProducts(Bench* bench, const std::string& label, int64_t out, int64_t in, int64_t bytes,
                  bool bf16, const std::vector<std::unique_ptr<Weight>>& copies) {
  const auto count = static_cast<double>(copies.size());
  for (int64_t rows : bench->options().rows) {
    if (rows * out > (64 << 20)) continue;
    std::vector<float> x = RandomFloats(rows * in, 2), y(static_cast<size_t>(rows * out));
    // Large products are slow enough, and compute-bound enough, to be run on a few copies.
    const size_t used = rows >= 64 ? std::max<size_t>(1, copies.size() / 8) : copies.size();
    const double share = static_cast<double>(used) / count;
    bench->Measure(label + " rows " + std::to_string(rows), static_cast<double>(bytes) * share,
                   2.0 * static_cast<double>(rows * out * in) * count * share, bf16, [&] {
                     for (size_t i = 0; i < used; ++i) {
                       bench->backend().MatMul(View(x, rows, in), *copies[i], View(y, rows, out));
                     }
                   });
  }
}

void BenchMatMul(Bench* bench, const std::string& name, int64_t out, int64_t in, int64_t leaves,
                 DType dtype) {
  const std::string label = "matmul " + name + " " + std::string(DTypeName(dtype));
  if (!bench->Wanted(label)) return;
  std::vector<float> noise = RandomFloats(1 << 16, 1);
  std::vector<char> source(static_cast<size_t>(out * in * DTypeBytes(dtype)));
  for (int64_t i = 0; i < out * in; ++i) {
    StoreFromF32(source.data(), dtype, i, noise[static_cast<size_t>(i * 31 % (1 << 16))]);
  }
  const TensorView view = {source.data(), dtype, {}, out, in, in};
  std::vector<std::unique_ptr<Weight>> copies;
  int64_t bytes = 0;
  while (bytes < kColdBytes) {
    copies.push_back(*bench->backend().Pack({{view}, Leaves(in, leaves), name}));
    bytes += copies.back()->bytes();
  }
  TimeProducts(bench, label, out, in, bytes, dtype == DType::kBF16, copies);
}

// The same of codes in groups of 128; of NVFP4, and where rows are rounded, in one.
void BenchCodes(Bench* bench, const std::string& name, int64_t out, int64_t in, int64_t leaves,
                kernels::CodeKind kind, bool rounds_rows = false) {
  constexpr const char* kNames[] = {"int4", "int8", "e2m1", "e4m3", "nvfp4"};
  const std::string label =
      "matmul " + name + " " + (rounds_rows ? "w8a8" : kNames[static_cast<size_t>(kind)]);
  if (!bench->Wanted(label)) return;
  const int64_t group = rounds_rows || kernels::HasInnerScales(kind) ? in : 128;
  const int64_t groups = (in + group - 1) / group;
  const std::vector<uint8_t> inner(static_cast<size_t>(out * in / kernels::kInnerInputs), 0x38);
  std::vector<uint8_t> codes(static_cast<size_t>(out * in));
  Random random(1);
  const uint8_t most = kernels::CodeBits(kind) == 4 ? 15 : 0x7e;
  for (uint8_t& code : codes) code = static_cast<uint8_t>(random.Between(0, most));
  const std::vector<uint16_t> scales(static_cast<size_t>(out * groups), F32ToBf16(0.01f));
  std::vector<int32_t> group_of;
  for (int64_t k = 0; k < in; ++k) group_of.push_back(static_cast<int32_t>(k / group));
  kernels::QuantisedSource source;
  source.kind = kind;
  source.scale_type = DType::kBF16;
  source.rounds_rows = rounds_rows;
  source.in_features = in;
  source.groups = groups;
  source.leaf_begin = Leaves(in, leaves);
  source.name = name;
  source.parts.push_back({.rows = out,
                          .codes = codes.data(),
                          .code_stride = in,
                          .scales = reinterpret_cast<const std::byte*>(scales.data()),
                          .group_stride = groups,
                          .group_of = group_of,
                          .inner = inner.data(),
                          .inner_stride = in / kernels::kInnerInputs});
  std::vector<std::unique_ptr<Weight>> copies;
  int64_t bytes = 0;
  while (bytes < kColdBytes) {
    copies.push_back(*bench->backend().PackQuantised(source));
    bytes += copies.back()->bytes();
  }
  TimeProducts(bench, label, out, in, bytes, true, copies);
}

// `sequences` of `depth` cached positions each, `rows` new ones. Several layers, so that the caches
// are cold.
void BenchAttention(Bench* bench, int64_t sequences, int64_t depth, int64_t rows) {
  const Options& o = bench->options();
  const std::string label = "attention " + std::to_string(sequences) + " x " +
                            std::to_string(rows) + " rows at " + std::to_string(depth);
  if (!bench->Wanted(label)) return;
  KvShape shape;
  shape.kv_heads = o.kv_heads;
  shape.head_dim = o.head_dim;
  shape.block_size = 16;
  const int64_t blocks = (depth + rows + 15) / 16;
  shape.num_blocks = blocks * sequences;
  std::vector<int32_t> table(static_cast<size_t>(shape.num_blocks)), row_begin{0}, first, begin;
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  for (int64_t s = 0; s < sequences; ++s) {
    row_begin.push_back(static_cast<int32_t>((s + 1) * rows));
    first.push_back(static_cast<int32_t>(depth));
    begin.push_back(static_cast<int32_t>(s * blocks));
  }
  const AttentionBatch batch = {row_begin, first, begin, table};
  const int64_t layer_bytes = bench->backend().KvLayerBytes(shape);
  const int64_t layers = rows >= 64 ? 2 : std::clamp<int64_t>(kColdBytes / layer_bytes, 1, 64);
  std::vector<std::unique_ptr<DeviceBuffer>> caches;
  for (int64_t l = 0; l < layers; ++l) {
    caches.push_back(*bench->backend().Allocate(layer_bytes));
    uint16_t* to = static_cast<uint16_t*>(caches.back()->data());
    std::vector<float> noise = RandomFloats(1 << 16, 3);
    for (int64_t i = 0; i < layer_bytes / 2; ++i)
      to[i] = F32ToBf16(noise[static_cast<size_t>(i % (1 << 16))]);
  }
  const int64_t total = sequences * rows;
  std::vector<float> q = RandomFloats(total * o.heads * o.head_dim, 4), out = q;
  const double slots = static_cast<double>(depth) + (static_cast<double>(rows) + 1) / 2;
  const double read = static_cast<double>(sequences * (depth + rows) * o.kv_heads * o.head_dim * 4);
  const double flops = static_cast<double>(total * o.heads * o.head_dim * 4) * slots;
  bench->Measure(label, read * static_cast<double>(layers), flops * static_cast<double>(layers),
                 true, [&] {
                   for (const auto& cache : caches) {
                     bench->backend().Attention(View(q, total, o.heads * o.head_dim),
                                                {cache->data(), {}, shape}, batch, 0.088f,
                                                View(out, total, o.heads * o.head_dim));
                   }
                 });
}

void BenchElementwise(Bench* bench, int64_t rows) {
  const Options& o = bench->options();
  Backend& b = bench->backend();
  const std::string tail = " rows " + std::to_string(rows);
  const auto wide = [&](int64_t cols) { return static_cast<double>(rows * cols * 4); };
  std::vector<float> x = RandomFloats(rows * 2 * o.ffn, 1), y = x, w = RandomFloats(o.ffn * 2, 2);
  std::vector<int32_t> positions(static_cast<size_t>(rows), 77);
  const std::vector<float> frequency(static_cast<size_t>(o.head_dim / 2), 0.3f);
  const int64_t q = o.heads * o.head_dim;
  const struct {
    const char* name;
    double bytes;
    std::function<void()> run;
  } cases[] = {
      {"rms_norm", 2 * wide(o.hidden),
       [&] {
         b.RmsNorm(View(x, rows, o.hidden), View(w, 1, o.hidden), 1e-6f, View(y, rows, o.hidden));
       }},
      {"head_norm_rope", 2 * wide(q),
       [&] {
         b.HeadNormRope(View(x, rows, q), o.head_dim, View(w, 1, o.head_dim), 1e-6f, positions,
                        frequency);
       }},
      {"silu_mul", 3 * wide(o.ffn),
       [&] { b.SiluMul(View(x, rows, 2 * o.ffn), View(y, rows, o.ffn)); }},
      {"add_residual", 3 * wide(o.hidden),
       [&] { b.AddResidual(View(x, rows, o.hidden), View(y, rows, o.hidden), DType::kBF16); }},
  };
  for (const auto& c : cases) {
    if (!bench->Wanted(c.name)) continue;
    const int repeat = 100;
    bench->Measure(c.name + tail + ", x100", c.bytes * repeat, 0, false, [&] {
      for (int i = 0; i < repeat; ++i) c.run();
    });
  }
}

void BenchSampling(Bench* bench) {
  const int64_t vocab = bench->options().vocab;
  Backend& b = bench->backend();
  std::vector<float> logits = RandomFloats(vocab, 5);
  std::vector<int32_t> id(1);
  std::vector<double> sum(1);
  std::vector<Candidate> top;
  const double bytes = static_cast<double>(vocab * 4);
  if (bench->Wanted("argmax")) {
    bench->Measure("argmax, one row", bytes, 0, false,
                   [&] { b.ArgMax(View(logits, 1, vocab), id); });
  }
  if (bench->Wanted("logsumexp")) {
    bench->Measure("logsumexp, one row", bytes, 0, false,
                   [&] { b.LogSumExp(View(logits, 1, vocab), 1.3, sum); });
  }
  for (int64_t count : {20, 1000}) {
    if (!bench->Wanted("top")) continue;
    bench->Measure("top " + std::to_string(count) + ", one row", bytes, 0, false,
                   [&] { b.TopCandidates(View(logits, 1, vocab), 0, count, &top); });
  }
}

void BenchPack(Bench* bench) {
  const Options& o = bench->options();
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    const std::string label = "pack 6144 x 1024 x 8 " + std::string(DTypeName(dtype));
    if (!bench->Wanted(label)) continue;
    const int64_t rows = 2 * o.ffn * 8;
    std::vector<char> source(static_cast<size_t>(rows * o.hidden * DTypeBytes(dtype)), 1);
    const TensorView view = {source.data(), dtype, {}, rows, o.hidden, o.hidden};
    bench->Measure(label + ", read and written", 2.0 * static_cast<double>(source.size()), 0, false,
                   [&] {
                     (void)*bench->backend().Pack({{view}, {}, ""});
                   });
  }
}

int Main(int argc, char** argv) {
  Options o;
  FlagSet program("", "Speed of the kernels beside the machine's limits");
  program.Add({
      {.names = "--threads",
       .variable = &o.threads,
       .help = "threads of the backend and of the probes",
       .show_default = true},
      {.names = "--instruction-set",
       .variable = &o.instruction_set,
       .help = "avx2, avx512, avx512bf16, amx, avx512-block… (default: best)"},
      {.names = "--filter",
       .variable = &o.filter,
       .help = "run only the lines whose name contains this"},
      {.names = "--rows",
       .variable = &o.rows,
       .help = "rows of the products",
       .show_default = true},
      {.names = "--passes", .variable = &o.passes, .help = "passes per line", .show_default = true},
  });
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  BackendOptions options;
  options.num_threads = o.threads;
  options.instruction_set = o.instruction_set;
  auto backend = CreateBackend("cpu", options);
  auto probe = MachineProbe::Create(o.threads);
  if (!backend.ok() || !probe.ok()) {
    std::fprintf(stderr, "kernels_bench: %s\n",
                 std::string((backend.ok() ? probe.status() : backend.status()).message()).c_str());
    return 1;
  }
  std::printf("class %s, %d threads\n", std::string((*backend)->numerics_class()).c_str(),
              o.threads);
  std::printf("probe: read %.1f GB/s, f32 %.1f GFLOP/s", (*probe)->ReadBytesPerSecond() / 1e9,
              (*probe)->F32FlopsPerSecond() / 1e9);
  std::printf(", this class %.1f GFLOP/s, best %.1f GFLOP/s\n",
              (*probe)->FlopsPerSecond((*backend)->numerics_class()) / 1e9,
              (*probe)->BestFlopsPerSecond() / 1e9);
  Bench bench(o, backend->get(), probe->get());
  const int64_t q = o.heads * o.head_dim, kv = o.kv_heads * o.head_dim;
  BenchMatMul(&bench, "gate_up", 2 * o.ffn, o.hidden, 1, DType::kBF16);
  BenchMatMul(&bench, "qkv", q + 2 * kv, o.hidden, 1, DType::kBF16);
  BenchMatMul(&bench, "attention_out", o.hidden, q, 8, DType::kBF16);
  BenchMatMul(&bench, "down", o.hidden, o.ffn, 8, DType::kBF16);
  BenchMatMul(&bench, "lm_head", o.vocab, o.hidden, 1, DType::kBF16);
  BenchMatMul(&bench, "gate_up", 2 * o.ffn, o.hidden, 1, DType::kF16);
  BenchMatMul(&bench, "gate_up", 2 * o.ffn, o.hidden, 1, DType::kF32);
  for (const auto kind : {kernels::CodeKind::kInt4, kernels::CodeKind::kInt8,
                          kernels::CodeKind::kE4m3, kernels::CodeKind::kNvfp4}) {
    BenchCodes(&bench, "gate_up", 2 * o.ffn, o.hidden, 1, kind);
    BenchCodes(&bench, "down", o.hidden, o.ffn, 8, kind);
  }
  BenchCodes(&bench, "gate_up", 2 * o.ffn, o.hidden, 1, kernels::CodeKind::kInt8, true);
  BenchCodes(&bench, "down", o.hidden, o.ffn, 8, kernels::CodeKind::kInt8, true);
  for (int64_t depth : {64, 512, 2048}) BenchAttention(&bench, 1, depth, 1);
  BenchAttention(&bench, 8, 512, 1);
  BenchAttention(&bench, 1, 0, 512);
  BenchAttention(&bench, 1, 0, 2048);
  BenchElementwise(&bench, 1);
  BenchElementwise(&bench, 512);
  BenchSampling(&bench);
  BenchPack(&bench);
  return 0;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) { return tutti::bench::Main(argc, argv); }
