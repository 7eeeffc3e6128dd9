// Time of the products of a dense model on one device, shape by shape, one line of JSON each: many
// products are given to the device, then it is waited for once.
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "kernels/backend.h"
#include "kernels/float_formats.h"
#include "kernels/plugin_loader.h"
#include "kernels/quantised_source.h"
#include "nlohmann/json.hpp"
#include "program/flags.h"

namespace tutti::bench {
namespace {

using kernels::Backend;
using kernels::CreateBackend;
using kernels::F32ToBf16;
using kernels::TensorView;
using kernels::Weight;

struct Options {
  std::string device = "cuda:0";
  std::string numerics_class;
  std::string codes;  // "": bf16
  int64_t hidden = 4096, ffn = 12288, heads = 32, kv_heads = 8, head_dim = 128, vocabulary = 151936;
  std::vector<int64_t> rows = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 2048, 8192};
  int repeat = 10;
};

struct Shape {
  const char* name;
  int64_t out, in, leaves;
  // Rows beyond those are left out: of a prompt only the last goes through the vocabulary.
  int64_t rows_max = std::numeric_limits<int64_t>::max();
};

// Names of codes, and the inputs that share a scale; 0: all.
struct CodesChoice {
  std::string_view name;
  kernels::CodeKind kind;
  int64_t group;
};
constexpr CodesChoice kCodesChoices[] = {{"int4", kernels::CodeKind::kInt4, 128},
                                         {"int8", kernels::CodeKind::kInt8, 0},
                                         {"mxfp4", kernels::CodeKind::kE2m1, 32},
                                         {"fp8", kernels::CodeKind::kE4m3, 128},
                                         {"nvfp4", kernels::CodeKind::kNvfp4, 0}};
const CodesChoice* FindCodes(std::string_view name) {
  for (const CodesChoice& choice : kCodesChoices) {
    if (name == choice.name) return &choice;
  }
  return nullptr;
}

// Of the weights of a shape: more than a cache holds, and large ones no more of than that.
constexpr size_t kWeights = 4;
constexpr int64_t kWeightsBytes = int64_t{1} << 30;
// Rows up to which a product takes microseconds: it is repeated so many times more, that the one
// wait for the device at the end does not count.
constexpr int64_t kFewRows = 128;
constexpr int kRepeatFewRows = 10;

class ProductsBench {
 public:
  ProductsBench(const Options& options, Backend* backend) : options_(options), backend_(backend) {}

  absl::Status Run(const Shape& shape) {
    std::vector<std::unique_ptr<Weight>> weights;
    // The same numbers in each: making them takes longer than a GPU's products.
    const CodesChoice* const choice = FindCodes(options_.codes);
    std::vector<uint16_t> source;
    if (choice == nullptr) source = MakeSource(shape.out * shape.in);
    const std::vector<uint8_t> codes = MakeCodes(choice, shape.out * shape.in);
    int64_t bytes_made = 0;
    while (weights.size() < kWeights && bytes_made < kWeightsBytes) {
      TUTTI_ASSIGN_OR_RETURN(auto weight, choice == nullptr ? MakeWeight(shape, source.data())
                                                            : MakeWeight(shape, *choice, codes));
      weights.push_back(std::move(weight));
      bytes_made += weights.back()->bytes();
    }
    for (const int64_t rows : options_.rows) {
      if (rows > shape.rows_max) continue;
      TUTTI_ASSIGN_OR_RETURN(const auto in_memory, backend_->Allocate(rows * shape.in * 4));
      TUTTI_ASSIGN_OR_RETURN(const auto out_memory, backend_->Allocate(rows * shape.out * 4));
      const TensorView in = OnDevice(in_memory->data(), rows, shape.in);
      const TensorView out = OnDevice(out_memory->data(), rows, shape.out);
      std::vector<float> values = Noise(rows * shape.in);
      backend_->Convert({values.data(), DType::kF32, {}, rows, shape.in, shape.in}, in);
      const int repeat = options_.repeat * (rows <= kFewRows ? kRepeatFewRows : 1);
      // Twice, so that lists of kernels that come again have their graphs.
      for (int i = 0; i < 2; ++i) Multiply(in, weights, out, options_.repeat);
      const auto start = std::chrono::steady_clock::now();
      Multiply(in, weights, out, repeat);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      const double seconds = took.count() / static_cast<double>(repeat * weights.size());
      const double operations = 2.0 * static_cast<double>(rows * shape.out * shape.in);
      // The weight, and the rows, in and out, in f32.
      const double bytes = static_cast<double>(weights.front()->bytes()) +
                           4.0 * static_cast<double>(rows * (shape.out + shape.in));
      Print({{"product", shape.name},
             {"weights", choice == nullptr ? std::string_view("bf16") : choice->name},
             {"out", shape.out},
             {"k", shape.in},
             {"leaves", shape.leaves},
             {"rows", rows},
             {"microseconds", seconds * 1e6},
             {"bytes_per_second", bytes / seconds},
             {"flops_per_second", operations / seconds}});
    }
    return absl::OkStatus();
  }

  static void Print(const nlohmann::json& line) {
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }

 private:
  // Few different ones, as making each anew takes longer than a GPU's products.
  template <class Fn>
  static auto Repeated(int64_t count, const Fn& format) {
    Random random(1);
    std::vector<decltype(format(0.0f))> pattern(1 << 16), values(static_cast<size_t>(count));
    for (auto& x : pattern) x = format(static_cast<float>(random.Uniform() * 2 - 1));
    for (size_t i = 0; i < values.size(); ++i) values[i] = pattern[i * 31 % pattern.size()];
    return values;
  }
  static std::vector<float> Noise(int64_t count) {
    return Repeated(count, [](float x) { return x; });
  }
  TensorView OnDevice(void* data, int64_t rows, int64_t cols) const {
    return {data, DType::kF32, backend_->device(), rows, cols, cols};
  }
  static std::vector<uint16_t> MakeSource(int64_t count) {
    return Repeated(count, [](float x) { return F32ToBf16(x); });
  }
  static std::vector<int64_t> Leaves(const Shape& shape) {
    std::vector<int64_t> leaf_begin;
    for (int64_t i = 0; i <= shape.leaves; ++i) leaf_begin.push_back(shape.in * i / shape.leaves);
    return leaf_begin;
  }
  absl::StatusOr<std::unique_ptr<Weight>> MakeWeight(const Shape& shape, uint16_t* source) {
    return backend_->Pack(
        {{{source, DType::kBF16, {}, shape.out, shape.in, shape.in}}, Leaves(shape), "w"});
  }
  static std::vector<uint8_t> MakeCodes(const CodesChoice* choice, int64_t count) {
    std::vector<uint8_t> codes(choice == nullptr ? 0 : static_cast<size_t>(count));
    const bool four = choice != nullptr && kernels::CodeBits(choice->kind) == 4;
    // No e4m3 that is no number.
    for (size_t i = 0; i < codes.size(); ++i) {
      const size_t mixed = i * 2654435761u >> 13;
      codes[i] = static_cast<uint8_t>(four ? mixed % 16 : mixed % 0x7f);
    }
    return codes;
  }
  absl::StatusOr<std::unique_ptr<Weight>> MakeWeight(const Shape& shape, const CodesChoice& choice,
                                                     const std::vector<uint8_t>& codes) {
    const int64_t group = choice.group == 0 ? shape.in : choice.group;
    kernels::QuantisedSource source;
    source.kind = choice.kind;
    source.scale_type = DType::kBF16;
    source.in_features = shape.in;
    source.groups = (shape.in + group - 1) / group;
    source.leaf_begin = Leaves(shape);
    source.name = shape.name;
    const std::vector<uint16_t> scales(static_cast<size_t>(shape.out * source.groups),
                                       F32ToBf16(0.01f));
    const int64_t inner_stride = (shape.in + kernels::kInnerInputs - 1) / kernels::kInnerInputs;
    const std::vector<uint8_t> inner(static_cast<size_t>(shape.out * inner_stride), 0x38);
    std::vector<int32_t> group_of;
    for (int64_t k = 0; k < shape.in; ++k) group_of.push_back(static_cast<int32_t>(k / group));
    source.parts.push_back({.rows = shape.out,
                            .codes = codes.data(),
                            .code_stride = shape.in,
                            .scales = reinterpret_cast<const std::byte*>(scales.data()),
                            .group_stride = source.groups,
                            .group_of = group_of,
                            .inner = inner.data(),
                            .inner_stride = inner_stride});
    return backend_->PackQuantised(source);
  }
  // Returns when the device is through.
  void Multiply(const TensorView& in, const std::vector<std::unique_ptr<Weight>>& weights,
                const TensorView& out, int times) {
    for (int i = 0; i < times; ++i) {
      for (const auto& weight : weights) backend_->MatMul(in, *weight, out);
    }
    float last = 0;
    TensorView corner = out.Rows(0, 1);
    corner.cols = 1;
    backend_->Convert(corner, {&last, DType::kF32, {}, 1, 1, 1});
    backend_->EndStep();
  }

  const Options options_;
  Backend* const backend_;
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "products_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}

int Main(int argc, char** argv) {
  Options o;
  FlagSet program("", "Time of a dense model's products, in bf16 or with codes");
  const auto add = [&program](const char* name, FlagVariable variable, const char* help) {
    program.Add({{.names = name, .variable = variable, .help = help, .show_default = true}});
  };
  add("--device", &o.device, "cpu or cuda:N");
  program.Add({{.names = "--numerics-class",
                .variable = &o.numerics_class,
                .help = "unset: the device's exact one"}});
  program.Add(
      {{.names = "--codes",
        .variable = &o.codes,
        .help = "weights as int4 (groups of 128), int8, mxfp4, fp8 (groups of 128) or nvfp4, "
                "without the head"}});
  add("--rows", &o.rows, "rows of the products");
  add("--hidden", &o.hidden, "of the model");
  add("--ffn", &o.ffn, "of the model");
  add("--heads", &o.heads, "of the model");
  add("--kv-heads", &o.kv_heads, "of the model");
  add("--head-dim", &o.head_dim, "of the model");
  add("--vocabulary", &o.vocabulary, "of the model; multiplied by up to 256 rows");
  add("--repeat", &o.repeat,
      "times the products of a shape's weights; ten times as many of few rows");
  program.AddFooter(
      "TUTTI_WGMMA=off multiplies by the kernels of other GPUs where a GPU has wgmma.");
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  if (!o.codes.empty() && FindCodes(o.codes) == nullptr) {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat("--codes ", o.codes, ": there are none such")));
  }
  kernels::LoadGpuKernelsAtOnce(o.numerics_class);
  auto backend = CreateBackend(o.device, {.numerics_class = o.numerics_class});
  if (!backend.ok()) return Fail(backend.status());
  ProductsBench::Print({{"class", (*backend)->numerics_class()}, {"remark", (*backend)->remark()}});
  ProductsBench bench(o, backend->get());
  const int64_t q = o.heads * o.head_dim, kv = o.kv_heads * o.head_dim;
  for (const Shape& shape :
       {Shape{"qkv", q + 2 * kv, o.hidden, 1}, Shape{"attention_out", o.hidden, q, 8},
        Shape{"gate_up", 2 * o.ffn, o.hidden, 1}, Shape{"down", o.hidden, o.ffn, 8},
        Shape{"lm_head", o.vocabulary, o.hidden, 1, 256}}) {
    if (!o.codes.empty() && std::string_view(shape.name) == "lm_head") continue;
    if (const absl::Status status = bench.Run(shape); !status.ok()) return Fail(status);
  }
  return 0;
}

}  // namespace
}  // namespace tutti::bench

int main(int argc, char** argv) { return tutti::bench::Main(argc, argv); }
