#include "worker/quantised_checkpoint_testing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "kernels/float_formats.h"
#include "kernels/quantised_source.h"
#include "model/checkpoint.h"
#include "model/config_json.h"
#include "model/quantised_roles.h"
#include "model/weight_map.h"
#include "worker/plain_checkpoint_testing.h"

namespace tutti::worker {
namespace {

using kernels::CodeKind;
using model::Method;
using model::PackedFormat;
using model::QuantConfig;
using model::StoredType;
using nlohmann::json;

// One matrix on its way to codes.
struct Coded {
  int64_t out = 0, in = 0, groups = 1;
  std::vector<float> values;      // [out, in]
  std::vector<int32_t> group_of;  // [in]
  std::vector<float> scales;      // [out, groups], rounded
  std::vector<int32_t> zeros;     // [out, groups]
  std::vector<uint8_t> codes;     // [out, in]
  float whole = 1;                // NVFP4: what scales are multiples of, in e4m3
};

uint8_t NearestCode(CodeKind kind, float value, int32_t zero) {
  const int codes = 1 << kernels::CodeBits(kind);
  if (kernels::IsInteger(kind)) {
    const long code = std::lround(value) + zero;
    return static_cast<uint8_t>(std::clamp<long>(code, 0, codes - 1));
  }
  uint8_t best = 0;
  float distance = INFINITY;
  for (int code = 0; code < codes; ++code) {
    if (kind == CodeKind::kE4m3 && (code & 0x7f) == 0x7f) continue;
    const float off = std::abs(kernels::CodeValue(kind, static_cast<uint8_t>(code), 0) - value);
    if (off < distance) distance = off, best = static_cast<uint8_t>(code);
  }
  return best;
}
// The inner scale that is nearest; none is 0.
uint8_t InnerCode(float scale) {
  return std::max<uint8_t>(1, NearestCode(CodeKind::kE4m3, scale, 0));
}

float RoundScale(const QuantConfig& config, float whole, float scale) {
  if (config.packed == PackedFormat::kNvfp4) {
    return kernels::InnerScale(InnerCode(scale / whole)) * whole;
  }
  if (!(scale > 0)) return 1;
  if (config.packed == PackedFormat::kMxfp4) return std::exp2(std::ceil(std::log2(scale)));
  const bool half = config.method == Method::kGptq || config.method == Method::kAwq;
  return kernels::RoundTo(half ? DType::kF16 : DType::kBF16, scale);
}

void ChooseScale(const QuantConfig& config, float whole, float least, float most, float* scale,
                 int32_t* zero) {
  const float largest = std::max(std::abs(least), std::abs(most));
  const int codes = 1 << config.bits;
  *zero = 0;
  if (config.kind() == CodeKind::kE4m3) {
    *scale = RoundScale(config, whole, largest / 448);
  } else if (!kernels::IsInteger(config.kind())) {
    *scale = RoundScale(config, whole, largest / 6);
  } else if (!config.has_zeros()) {
    *zero = codes / 2;
    *scale = RoundScale(config, whole, largest / static_cast<float>(codes / 2 - 1));
  } else {
    *scale = RoundScale(config, whole, (most - least) / static_cast<float>(codes - 1));
    *zero = std::clamp(static_cast<int>(std::lround(-least / *scale)), 0, codes - 1);
  }
}

Coded Quantise(const QuantConfig& config, int64_t out, int64_t in, std::vector<float> values,
               uint64_t seed) {
  Coded coded = {.out = out, .in = in, .values = std::move(values)};
  const int64_t size = config.block_columns > 0 ? config.block_columns
                       : config.group_size > 0  ? config.group_size
                                                : in;
  coded.groups = (in + size - 1) / size;
  for (int64_t k = 0; k < in; ++k) coded.group_of.push_back(static_cast<int32_t>(k / size));
  // The largest weight is 6 times the largest inner scale; its inverse is what a file has.
  const auto [least_of_all, most_of_all] =
      std::minmax_element(coded.values.begin(), coded.values.end());
  coded.whole = 1 / (6 * 448 / std::max(-*least_of_all, *most_of_all));
  Random random(seed);
  for (int64_t k = in - 1; config.any_order && k > 0; --k) {
    std::swap(coded.group_of[static_cast<size_t>(k)],
              coded.group_of[static_cast<size_t>(random.Between(0, k))]);
  }
  const int64_t block = std::max<int64_t>(1, config.block_rows);
  coded.scales.resize(static_cast<size_t>(out * coded.groups));
  coded.zeros.resize(coded.scales.size());
  coded.codes.resize(static_cast<size_t>(out * in));
  for (int64_t n = 0; n < out; ++n) {
    for (int64_t g = 0; g < coded.groups; ++g) {
      float least = 0, most = 0;
      const int64_t first = n / block * block;
      for (int64_t row = first; row < std::min(out, first + block); ++row) {
        for (int64_t k = 0; k < in; ++k) {
          if (coded.group_of[static_cast<size_t>(k)] != g) continue;
          least = std::min(least, coded.values[static_cast<size_t>(row * in + k)]);
          most = std::max(most, coded.values[static_cast<size_t>(row * in + k)]);
        }
      }
      const auto at = static_cast<size_t>(n * coded.groups + g);
      ChooseScale(config, coded.whole, least, most, &coded.scales[at], &coded.zeros[at]);
    }
    for (int64_t k = 0; k < in; ++k) {
      const auto group =
          static_cast<size_t>(n * coded.groups + coded.group_of[static_cast<size_t>(k)]);
      float& value = coded.values[static_cast<size_t>(n * in + k)];
      const float scale = coded.scales[group];
      const uint8_t code = NearestCode(config.kind(), value / scale, coded.zeros[group]);
      coded.codes[static_cast<size_t>(n * in + k)] = code;
      value =
          kernels::CodeValue(config.kind(), code, static_cast<uint8_t>(coded.zeros[group])) * scale;
    }
  }
  return coded;
}

// Fields of `bits` bits, `per_word` in a word of a row, the last word filled up with zeros.
std::vector<int32_t> PackWords(int64_t rows, int64_t cols, int bits,
                               const std::function<uint32_t(int64_t, int64_t)>& field) {
  const int64_t per_word = 32 / bits, words = (cols + per_word - 1) / per_word;
  std::vector<uint32_t> packed(static_cast<size_t>(rows * words));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      packed[static_cast<size_t>(r * words + c / per_word)] |= field(r, c) << (c % per_word * bits);
    }
  }
  return {packed.begin(), packed.end()};
}
// [cols of words, rows]: the same, transposed.
std::vector<int32_t> Transposed(const std::vector<int32_t>& words, int64_t rows) {
  const int64_t cols = static_cast<int64_t>(words.size()) / rows;
  std::vector<int32_t> turned(words.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      turned[static_cast<size_t>(c * rows + r)] = words[static_cast<size_t>(r * cols + c)];
    }
  }
  return turned;
}
std::vector<uint16_t> Rounded(DType type, const std::vector<float>& values) {
  std::vector<uint16_t> rounded;
  for (const float value : values) {
    rounded.push_back(type == DType::kF16 ? kernels::F32ToF16(value) : kernels::F32ToBf16(value));
  }
  return rounded;
}

class Writer {
 public:
  Writer(const QuantConfig& config, const std::string& prefix, const Coded& coded,
         CheckpointFile* file)
      : config_(config), prefix_(prefix), coded_(coded), file_(*file) {}

  void Write() {
    if (config_.method == Method::kGptq) return Gptq();
    if (config_.method == Method::kAwq) return Awq();
    if (config_.packed == PackedFormat::kPacked) return Packed();
    if (config_.packed == PackedFormat::kInt) return Int8();
    if (config_.packed == PackedFormat::kMxfp4) return Fp4();
    if (config_.packed == PackedFormat::kNvfp4) return Fp4();
    Fp8();
  }

 private:
  std::string Name(const char* part) const { return prefix_ + "." + part; }
  uint32_t Code(int64_t n, int64_t k) const {
    return coded_.codes[static_cast<size_t>(n * coded_.in + k)];
  }
  uint32_t Zero(int64_t n, int64_t g) const {
    return static_cast<uint32_t>(coded_.zeros[static_cast<size_t>(n * coded_.groups + g)]);
  }
  // [groups, out]
  std::vector<float> ScalesByGroup() const {
    std::vector<float> scales;
    for (int64_t g = 0; g < coded_.groups; ++g) {
      for (int64_t n = 0; n < coded_.out; ++n) {
        scales.push_back(coded_.scales[static_cast<size_t>(n * coded_.groups + g)]);
      }
    }
    return scales;
  }

  void Gptq() {
    const int64_t per_word = 32 / config_.bits;
    const auto codes = PackWords(coded_.out, coded_.in, config_.bits,
                                 [&](int64_t n, int64_t k) { return Code(n, k); });
    file_.Add(Name("qweight"), StoredType::kI32, {coded_.in / per_word, coded_.out},
              Transposed(codes, coded_.out));
    auto zeros = PackWords(coded_.groups, coded_.out, config_.bits,
                           [&](int64_t g, int64_t n) { return Zero(n, g); });
    const uint32_t one_each = config_.bits == 4 ? 0x11111111u : 0x01010101u;
    for (int32_t& word : zeros) {
      if (config_.zeros_less_one)
        word = static_cast<int32_t>(static_cast<uint32_t>(word) - one_each);
    }
    file_.Add(Name("qzeros"), StoredType::kI32, {coded_.groups, coded_.out / per_word}, zeros);
    file_.Add(Name("scales"), StoredType::kF16, {coded_.groups, coded_.out},
              Rounded(DType::kF16, ScalesByGroup()));
    file_.Add(Name("g_idx"), StoredType::kI32, {coded_.in}, coded_.group_of);
  }
  void Awq() {
    constexpr int64_t kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
    const auto output = [&](int64_t field) { return field / 8 * 8 + kOrder[field % 8]; };
    file_.Add(Name("qweight"), StoredType::kI32, {coded_.in, coded_.out / 8},
              PackWords(coded_.in, coded_.out, 4,
                        [&](int64_t k, int64_t field) { return Code(output(field), k); }));
    file_.Add(Name("qzeros"), StoredType::kI32, {coded_.groups, coded_.out / 8},
              PackWords(coded_.groups, coded_.out, 4,
                        [&](int64_t g, int64_t field) { return Zero(output(field), g); }));
    file_.Add(Name("scales"), StoredType::kF16, {coded_.groups, coded_.out},
              Rounded(DType::kF16, ScalesByGroup()));
  }
  void Packed() {
    const int64_t per_word = 32 / config_.bits;
    const auto words = [&](int64_t count) { return (count + per_word - 1) / per_word; };
    file_.Add(Name("weight_packed"), StoredType::kI32, {coded_.out, words(coded_.in)},
              PackWords(coded_.out, coded_.in, config_.bits,
                        [&](int64_t n, int64_t k) { return Code(n, k); }));
    file_.Add(Name("weight_scale"), StoredType::kBF16, {coded_.out, coded_.groups},
              Rounded(DType::kBF16, coded_.scales));
    file_.Add(Name("weight_shape"), StoredType::kI64, {2},
              std::vector<int64_t>{coded_.out, coded_.in});
    if (config_.any_order) {
      file_.Add(Name("weight_g_idx"), StoredType::kI32, {coded_.in}, coded_.group_of);
    }
    if (config_.symmetric) return;
    const auto zeros = PackWords(coded_.groups, coded_.out, config_.bits,
                                 [&](int64_t g, int64_t n) { return Zero(n, g); });
    file_.Add(Name("weight_zero_point"), StoredType::kI32, {words(coded_.out), coded_.groups},
              Transposed(zeros, coded_.groups));
  }
  void Int8() {
    std::vector<uint8_t> integers;
    for (const uint8_t code : coded_.codes) integers.push_back(code ^ 0x80);
    file_.Add(Name("weight"), StoredType::kI8, {coded_.out, coded_.in}, integers);
    file_.Add(Name("weight_scale"), StoredType::kBF16, {coded_.out, 1},
              Rounded(DType::kBF16, coded_.scales));
  }
  void Fp8() {
    file_.Add(Name("weight"), StoredType::kF8E4M3, {coded_.out, coded_.in}, coded_.codes);
    const int64_t rows = std::max<int64_t>(1, config_.block_rows);
    std::vector<float> scales;
    for (int64_t n = 0; n < coded_.out; n += rows) {
      const float* const of_row = &coded_.scales[static_cast<size_t>(n * coded_.groups)];
      scales.insert(scales.end(), of_row, of_row + coded_.groups);
    }
    const int64_t blocks = static_cast<int64_t>(scales.size()) / coded_.groups;
    file_.Add(Name(config_.method == Method::kFp8 ? "weight_scale_inv" : "weight_scale"),
              StoredType::kBF16, {blocks, coded_.groups}, Rounded(DType::kBF16, scales));
  }
  void Fp4() {
    const bool nv = config_.packed == PackedFormat::kNvfp4;
    const bool model_opt = config_.method == Method::kModelOpt;
    std::vector<uint8_t> both, scales;
    for (int64_t i = 0; i < coded_.out * coded_.in; i += 2) {
      both.push_back(static_cast<uint8_t>(coded_.codes[static_cast<size_t>(i)] |
                                          coded_.codes[static_cast<size_t>(i) + 1] << 4));
    }
    for (const float scale : coded_.scales) {
      scales.push_back(nv ? InnerCode(scale / coded_.whole)
                          : static_cast<uint8_t>(127 + std::ilogb(scale)));
    }
    file_.Add(Name(model_opt ? "weight" : "weight_packed"), StoredType::kU8,
              {coded_.out, coded_.in / 2}, both);
    file_.Add(Name("weight_scale"), nv ? StoredType::kF8E4M3 : StoredType::kU8,
              {coded_.out, coded_.groups}, scales);
    if (!nv) return;
    file_.Add(Name(model_opt ? "weight_scale_2" : "weight_global_scale"), StoredType::kF32, {1},
              std::vector<float>{model_opt ? coded_.whole : 1 / coded_.whole});
  }

  const QuantConfig& config_;
  const std::string prefix_;
  const Coded& coded_;
  CheckpointFile& file_;
};

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The first number in a tensor's name; -1: there is none.
int64_t LayerOf(const std::string& name) {
  const size_t digit = name.find_first_of("0123456789");
  return digit == std::string::npos ? -1 : std::stoll(name.substr(digit));
}

// A tensor's elements, of any type that is computed in.
std::vector<float> ElementsOf(const model::Checkpoint& checkpoint, const std::string& name) {
  const auto bytes = checkpoint.Read(name);
  CHECK(bytes.ok()) << bytes.status();
  const auto type = model::ComputeType(checkpoint.Find(name)->dtype);
  CHECK(type.has_value()) << name;
  const size_t element = static_cast<size_t>(DTypeBytes(*type));
  std::vector<float> values(bytes->size() / element);
  for (size_t i = 0; i < values.size(); ++i) {
    const std::byte* const at = bytes->data() + i * element;
    if (*type == DType::kF32) {
      std::memcpy(&values[i], at, sizeof(float));
      continue;
    }
    uint16_t half = 0;
    std::memcpy(&half, at, sizeof(half));
    values[i] = *type == DType::kF16 ? kernels::F16ToF32(half) : kernels::Bf16ToF32(half);
  }
  return values;
}

}  // namespace

QuantisedCopy MakeMixedCopy(const std::string& from, const json& quantization,
                            const std::string& to, const std::string& dtype,
                            const FormatChoice& choice) {
  const auto formats = model::ParseQuantConfigs(quantization, "quantization_config");
  CHECK(formats.ok()) << formats.status();
  const auto config = model::LoadModelConfig(from);
  CHECK(config.ok()) << config.status();
  const auto checkpoint = model::Checkpoint::Open(from);
  CHECK(checkpoint.ok()) << checkpoint.status();
  CheckpointFile codes, plain;
  uint64_t seed = 1;
  for (const model::CheckpointTensor& tensor : model::ListCheckpointTensors(*config)) {
    const std::vector<float> values = ElementsOf(**checkpoint, tensor.name);
    const int format = tensor.shape.size() < 2 ? -1 : choice(tensor.role, LayerOf(tensor.name));
    if (format < 0) {
      codes.Add(tensor.name, StoredType::kF32, tensor.shape, values);
      plain.Add(tensor.name, StoredType::kF32, tensor.shape, values);
      continue;
    }
    const QuantConfig& quant = (*formats)[static_cast<size_t>(format)];
    const Coded coded = Quantise(quant, tensor.shape[0], tensor.shape[1], values, seed++);
    const std::string prefix = tensor.name.substr(0, tensor.name.size() - sizeof(".weight") + 1);
    Writer(quant, prefix, coded, &codes).Write();
    plain.Add(tensor.name, StoredType::kF32, tensor.shape, coded.values);
  }
  json root = json::parse(TextOf(from + "/config.json"));
  root.erase("dtype");
  root["torch_dtype"] = dtype;
  plain.Write(to + "/plain", root);
  root["quantization_config"] = quantization;
  codes.Write(to + "/codes", root);
  return {to + "/codes", to + "/plain"};
}

QuantisedCopy MakeQuantisedCopy(const std::string& from, const json& quantization,
                                const std::string& to, const std::string& dtype,
                                std::initializer_list<model::Role> left_plain) {
  return MakeMixedCopy(from, quantization, to, dtype, [&](model::Role role, int64_t) {
    const bool usual = (model::UsualQuantisedRoles() >> static_cast<unsigned>(role) & 1) != 0;
    return usual && std::find(left_plain.begin(), left_plain.end(), role) == left_plain.end() ? 0
                                                                                              : -1;
  });
}

}  // namespace tutti::worker
