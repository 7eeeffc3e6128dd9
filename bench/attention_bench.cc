// Time of attention in one layer on one device, load by load, one line of JSON each: many layers
// are given to the device, then it is waited for once.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/random.h"
#include "kernels/backend.h"
#include "kernels/plugin_loader.h"
#include "nlohmann/json.hpp"
#include "program/flags.h"

namespace tutti::bench {
namespace {

using kernels::AttentionBatch;
using kernels::Backend;
using kernels::CreateBackend;
using kernels::DeviceBuffer;
using kernels::KvLayer;
using kernels::KvShape;
using kernels::TensorView;

struct AttentionOptions {
  std::string device = "cuda:0";
  int64_t heads = 32, kv_heads = 8, head_dim = 128, block_size = 16;
  std::vector<std::string> decode = {"1x100", "1x2048", "1x8192", "8x2048", "64x260", "64x2048"};
  std::vector<int64_t> prompts = {512, 2048, 8192};
  int64_t cache_mib = 192;
  int repeat = 10;
  double memory_speed = 0, matrix_rate = 0;
};

// What one step does: the last `rows` rows of each of `streams` sequences of `depth` slots.
struct AttentionLoad {
  int64_t streams = 1, depth = 1, rows = 1;
};

// Rows whose keys and values are written at once.
constexpr int64_t kRowsWritten = 4096;
// Layers at most: more bytes than a cache holds, where a layer has many.
constexpr int64_t kLayersMax = 128;

absl::StatusOr<AttentionLoad> ParseDecode(const std::string& text) {
  AttentionLoad load;
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &load.streams) ||
      !absl::SimpleAtoi(parts[1], &load.depth) || load.streams < 1 || load.depth < 1) {
    return absl::InvalidArgumentError(absl::StrCat("--decode ", text, " is not STREAMSxDEPTH"));
  }
  return load;
}

// The arrays of a batch: as many rows of each sequence, from one position on; blocks of
// neighbouring slots lie apart.
struct StepArrays {
  std::vector<int32_t> row_begin = {0}, first_position, block_begin, blocks;

  StepArrays(const AttentionLoad& load, int64_t first, int64_t rows, int64_t block_size) {
    const int64_t per_stream = (load.depth + block_size - 1) / block_size;
    for (int64_t s = 0; s < load.streams; ++s) {
      row_begin.push_back(static_cast<int32_t>((s + 1) * rows));
      first_position.push_back(static_cast<int32_t>(first));
      block_begin.push_back(static_cast<int32_t>(s * per_stream));
      for (int64_t b = 0; b < per_stream; ++b) {
        blocks.push_back(static_cast<int32_t>(b * load.streams + s));
      }
    }
  }
  AttentionBatch batch() const { return {row_begin, first_position, block_begin, blocks}; }
};

class AttentionBench {
 public:
  AttentionBench(const AttentionOptions& options, Backend* backend)
      : options_(options), backend_(backend) {}

  absl::Status Run(const AttentionLoad& load) {
    TUTTI_RETURN_IF_ERROR(MakeLayers(load));
    const int64_t rows = load.streams * load.rows, width = options_.heads * options_.head_dim;
    TUTTI_ASSIGN_OR_RETURN(const auto q, Noise(rows, width));
    TUTTI_ASSIGN_OR_RETURN(const auto out, backend_->Allocate(rows * width * 4));
    const StepArrays step(load, load.depth - load.rows, load.rows, options_.block_size);
    const TensorView to = OnDevice(out->data(), rows, width);
    // Twice, so that lists of kernels that come again have their graphs.
    for (int i = 0; i < 2; ++i) Attend(OnDevice(q->data(), rows, width), step, to, 1);
    const auto start = std::chrono::steady_clock::now();
    Attend(OnDevice(q->data(), rows, width), step, to, options_.repeat);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    Report(load, took.count() / static_cast<double>(options_.repeat * int64_t(layers_.size())));
    layers_.clear();
    memory_.clear();
    return absl::OkStatus();
  }

  static void Print(const nlohmann::json& line) {
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }

 private:
  TensorView OnDevice(void* data, int64_t rows, int64_t cols) const {
    return {data, DType::kF32, backend_->device(), rows, cols, cols};
  }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Noise(int64_t rows, int64_t cols) {
    Random random(1);
    std::vector<float> pattern(1 << 16), values(static_cast<size_t>(rows * cols));
    for (float& x : pattern) x = static_cast<float>(random.Uniform() * 2 - 1);
    for (size_t i = 0; i < values.size(); ++i) values[i] = pattern[i * 31 % pattern.size()];
    TUTTI_ASSIGN_OR_RETURN(auto buffer, backend_->Allocate(rows * cols * 4));
    backend_->Convert({values.data(), DType::kF32, {}, rows, cols, cols},
                      OnDevice(buffer->data(), rows, cols));
    return buffer;
  }

  // Caches of as many layers as cache_mib has room for, with the load's keys and values.
  absl::Status MakeLayers(const AttentionLoad& load) {
    KvShape shape;
    shape.dtype = DType::kBF16;
    shape.block_size = options_.block_size;
    shape.kv_heads = options_.kv_heads;
    shape.head_dim = options_.head_dim;
    shape.num_blocks =
        load.streams * ((load.depth + options_.block_size - 1) / options_.block_size);
    const int64_t bytes = backend_->KvLayerBytes(shape);
    const int64_t count = std::clamp<int64_t>((options_.cache_mib << 20) / bytes, 2, kLayersMax);
    const int64_t width = options_.kv_heads * options_.head_dim;
    const int64_t together = std::max<int64_t>(1, kRowsWritten / load.streams);
    TUTTI_ASSIGN_OR_RETURN(const auto noise, Noise(together * load.streams, width));
    for (int64_t i = 0; i < count; ++i) {
      TUTTI_ASSIGN_OR_RETURN(auto memory, backend_->Allocate(bytes));
      layers_.push_back({memory->data(), backend_->device(), shape});
      memory_.push_back(std::move(memory));
      for (int64_t first = 0; first < load.depth; first += together) {
        const int64_t rows = std::min(together, load.depth - first);
        const StepArrays step(load, first, rows, options_.block_size);
        const TensorView written = OnDevice(noise->data(), rows * load.streams, width);
        backend_->WriteKv(written, written, step.batch(), layers_.back());
      }
    }
    return absl::OkStatus();
  }

  // Returns when the device is through.
  void Attend(const TensorView& q, const StepArrays& step, const TensorView& out, int times) {
    const float scale = 1 / std::sqrt(static_cast<float>(options_.head_dim));
    for (int i = 0; i < times; ++i) {
      for (const KvLayer& layer : layers_) {
        backend_->Attention(q, layer, step.batch(), scale, out);
      }
    }
    float last = 0;
    TensorView corner = out.Rows(0, 1);
    corner.cols = 1;
    backend_->Convert(corner, {&last, DType::kF32, {}, 1, 1, 1});
    backend_->EndStep();
  }

  void Report(const AttentionLoad& load, double seconds) const {
    const auto number = [](int64_t n) { return static_cast<double>(n); };
    const double rows = number(load.streams * load.rows);
    // Keys and values in bf16, and the rows, in and out, in f32.
    const double bytes =
        4.0 * number(load.streams * load.depth * options_.kv_heads) * number(options_.head_dim) +
        8.0 * rows * number(options_.heads * options_.head_dim);
    // A row sees the slots up to its own.
    const double seen = rows * (number(load.depth) - number(load.rows - 1) / 2);
    const double operations = 4.0 * seen * number(options_.heads * options_.head_dim);
    nlohmann::json line = {{"attention", load.rows == 1 ? "decode" : "prompt"},
                           {"streams", load.streams},
                           {"depth", load.depth},
                           {"rows", load.rows},
                           {"layers", layers_.size()},
                           {"microseconds", seconds * 1e6},
                           {"bytes", bytes},
                           {"bytes_per_second", bytes / seconds},
                           {"flops_per_second", operations / seconds}};
    if (options_.memory_speed > 0) line["memory_share"] = bytes / seconds / options_.memory_speed;
    if (options_.matrix_rate > 0)
      line["matrix_share"] = operations / seconds / options_.matrix_rate;
    Print(line);
  }

  const AttentionOptions options_;
  Backend* const backend_;
  std::vector<KvLayer> layers_;
  std::vector<std::unique_ptr<DeviceBuffer>> memory_;
};

absl::Status RunAttentionBench(const AttentionOptions& o) {
  kernels::LoadGpuKernelsAtOnce("");
  TUTTI_ASSIGN_OR_RETURN(const auto backend, CreateBackend(o.device, {}));
  AttentionBench::Print({{"class", backend->numerics_class()}, {"remark", backend->remark()}});
  AttentionBench bench(o, backend.get());
  for (const std::string& text : o.decode) {
    TUTTI_ASSIGN_OR_RETURN(const AttentionLoad load, ParseDecode(text));
    TUTTI_RETURN_IF_ERROR(bench.Run(load));
  }
  for (const int64_t rows : o.prompts) TUTTI_RETURN_IF_ERROR(bench.Run({1, rows, rows}));
  return absl::OkStatus();
}

int AttentionBenchMain(int argc, char** argv) {
  AttentionOptions o;
  FlagSet program("", "Time of attention in one layer, over a cache in bf16");
  const auto add = [&program](const char* name, FlagVariable variable, const char* help,
                              FlagCheck check = {}) {
    program.Add({{.names = name,
                  .variable = variable,
                  .help = help,
                  .check = std::move(check),
                  .show_default = true}});
  };
  add("--device", &o.device, "cpu or cuda:N");
  add("--decode", &o.decode, "streams of one row, and the slots that each sees: STREAMSxDEPTH");
  add("--prompts", &o.prompts, "rows of a prompt from its first on", IntegerIn(1, 1 << 20));
  add("--heads", &o.heads, "of the model", IntegerIn(1, 1024));
  add("--kv-heads", &o.kv_heads, "of the model", IntegerIn(1, 1024));
  add("--head-dim", &o.head_dim, "of the model", IntegerIn(1, 256));
  add("--block-size", &o.block_size, "slots of a block of the cache", IntegerIn(16, 4096));
  add("--cache-mib", &o.cache_mib, "caches of layers, two at least: more than the device keeps",
      IntegerIn(1, 65536));
  add("--repeat", &o.repeat, "times all layers", IntegerIn(1, 100000));
  add("--memory-speed", &o.memory_speed, "bytes a second, to tell the share of it; 0: unknown");
  add("--matrix-rate", &o.matrix_rate, "FLOP a second, to tell the share of it; 0: unknown");
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  if (const absl::Status status = RunAttentionBench(o); !status.ok()) {
    std::fprintf(stderr, "attention_bench: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) { return tutti::bench::AttentionBenchMain(argc, argv); }
