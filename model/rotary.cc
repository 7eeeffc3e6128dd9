#include "model/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/portable_math.h"

namespace tutti::model {
namespace {

using Scaling = RopeConfig::Scaling;

// theta ^ (2 i / dim), in f32.
std::vector<float> Wavelengths(double theta, int64_t dim) {
  std::vector<float> values;
  for (int64_t i = 0; i < dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(dim);
    values.push_back(static_cast<float>(Pow(theta, exponent)));
  }
  return values;
}

// Low frequencies are divided by the factor, high ones stay, and those between are mixed.
float Llama3Frequency(const RopeConfig& rope, float frequency) {
  const auto factor = static_cast<float>(rope.factor);
  const auto context = static_cast<double>(rope.original_context);
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  if (wavelength > context / rope.low_freq_factor) return frequency / factor;
  if (wavelength < context / rope.high_freq_factor) return frequency;
  const auto kept =
      (static_cast<float>(context) / wavelength - static_cast<float>(rope.low_freq_factor)) /
      static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  return (1 - kept) * frequency / factor + kept * frequency;
}

// The pair (not a whole number) that turns `rotations` times over the trained context.
double YarnPair(const RopeConfig& rope, double rotations) {
  const auto context = static_cast<double>(rope.original_context);
  return static_cast<double>(rope.rotary_dim) * Log(context / (rotations * 2 * std::numbers::pi)) /
         (2 * Log(rope.theta));
}

// Pairs up to `low` keep their frequency, those from `high` on are divided by the factor, with a
// ramp between.
void ScaleYarn(const RopeConfig& rope, const std::vector<float>& wavelengths,
               std::vector<float>* frequencies) {
  double low = YarnPair(rope, rope.beta_fast);
  double high = YarnPair(rope, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.rotary_dim - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < wavelengths.size(); ++i) {
    const float ramp =
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1 - std::clamp(ramp, 0.0f, 1.0f);
    const float divided = 1 / (static_cast<float>(rope.factor) * wavelengths[i]);
    (*frequencies)[i] = divided * (1 - kept) + (*frequencies)[i] * kept;
  }
}

// The base at which, `stretch` times as far out, the slowest pair has turned as far as before.
double NtkTheta(const RopeConfig& rope, int64_t variant) {
  if (variant == 1) return rope.theta;
  const auto dim = static_cast<double>(rope.rotary_dim);
  double stretch = static_cast<double>(variant);
  if (rope.scaling == Scaling::kDynamic) {
    stretch = rope.factor * stretch / static_cast<double>(rope.original_context) - rope.factor + 1;
  }
  return rope.theta * Pow(stretch, dim / (dim - 2));
}

}  // namespace

int64_t RopeVariant(const RopeConfig& rope, int64_t prompt_tokens) {
  if (rope.scaling == Scaling::kDynamic) {
    return prompt_tokens > rope.original_context ? prompt_tokens : 1;
  }
  if (rope.scaling != Scaling::kDynamicNtk) return 1;
  int64_t variant = 1;
  for (int64_t reach = rope.original_context; reach < prompt_tokens; reach *= 2) {
    variant = 2 * variant + 1;
  }
  return variant;
}

int64_t RopeVariantAt(const RopeConfig& rope, int64_t variant, int64_t position) {
  if (rope.scaling != Scaling::kDynamic || position < rope.original_context) return variant;
  return std::max(variant, position + 1);
}

std::vector<float> RopeFrequencies(const RopeConfig& rope, int64_t head_dim, int64_t variant) {
  const std::vector<float> wavelengths = Wavelengths(NtkTheta(rope, variant), rope.rotary_dim);
  std::vector<float> frequencies;
  for (const float wavelength : wavelengths) frequencies.push_back(1 / wavelength);
  switch (rope.scaling) {
    case Scaling::kNone:
    case Scaling::kDynamicNtk:
    case Scaling::kDynamic:
      break;
    case Scaling::kLinear:
      for (float& f : frequencies) f /= static_cast<float>(rope.factor);
      break;
    case Scaling::kLlama3:
      for (float& f : frequencies) f = Llama3Frequency(rope, f);
      break;
    case Scaling::kYarn:
      ScaleYarn(rope, wavelengths, &frequencies);
      break;
  }
  frequencies.resize(static_cast<size_t>(head_dim / 2), 0.0f);
  return frequencies;
}

std::vector<HeadSlice> RotaryOrder(const RopeConfig& rope, int64_t head_dim) {
  const int64_t pairs = rope.rotary_dim / 2;
  const int64_t still = head_dim - rope.rotary_dim;
  if (still == 0 && !rope.interleaved) return {{0, head_dim, 1}};
  const int64_t step = rope.interleaved ? 2 : 1;
  return {{0, pairs, step},
          {rope.rotary_dim, still / 2, 1},
          {rope.interleaved ? 1 : pairs, pairs, step},
          {rope.rotary_dim + still / 2, still / 2, 1}};
}

float LognScale(int64_t logn_length, int64_t position) {
  if (logn_length == 0 || position < logn_length) return 1;
  return static_cast<float>(Log(static_cast<double>(position + 1)) /
                            Log(static_cast<double>(logn_length)));
}

}  // namespace tutti::model
