// Cosines and sines of rotary angles.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::kernels::cpu {

// sin and cos of `angle`, |angle| < 2^20, to within 1e-12: enough to be the nearest f32 almost
// always. Uses only exactly rounded operations, so that it gives the same bits with every library
// and compiler.
struct SinCos {
  double sine;
  double cosine;
};
SinCos SinCosOf(double angle);

// The tables of the latest (positions, inverse frequencies). Every layer of a step asks for the
// same ones twice, so they are computed once per step.  Thread: one at a time.
class RotaryTable {
 public:
  // Makes cosine(row), sine(row) [inverse_frequency.size()] those of positions[row] *
  // inverse_frequency[i], the product rounded to f32 as the models define it.
  void Prepare(std::span<const int32_t> positions, std::span<const float> inverse_frequency);
  const float* cosine(int64_t row) const { return table_.data() + 2 * row * half_; }
  const float* sine(int64_t row) const { return cosine(row) + half_; }

 private:
  int64_t half_ = 0;
  std::vector<int32_t> positions_;
  std::vector<float> inverse_frequency_;
  std::vector<float> table_;
};

}  // namespace tutti::kernels::cpu
