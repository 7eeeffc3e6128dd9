// Shared by the kernel tests: matrices that own their numbers, and fixtures that run once per
// tested backend.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/backends_testing.h"
#include "kernels/float_formats.h"
#include "kernels/staged_backend_testing.h"

namespace tutti::kernels {

// A row-major matrix. `stride` may exceed `cols`; the gap is filled with NaN, so that reading it
// shows.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t cols, DType dtype = DType::kF32, int64_t gap = 0)
      : rows_(rows),
        cols_(cols),
        stride_(cols + gap),
        dtype_(dtype),
        bytes_(static_cast<size_t>(rows * stride_ * DTypeBytes(dtype)) + 64) {
    for (int64_t i = 0; i < rows * stride_; ++i) StoreFromF32(data(), dtype_, i, std::nanf(""));
  }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  void* data() { return bytes_.data(); }
  float at(int64_t r, int64_t c) const { return LoadAsF32(bytes_.data(), dtype_, r * stride_ + c); }
  void set(int64_t r, int64_t c, float value) {
    StoreFromF32(bytes_.data(), dtype_, r * stride_ + c, value);
  }
  TensorView view() { return {data(), dtype_, {}, rows_, cols_, stride_}; }

  // Uniform in [-1, 1], rounded to `as` (and then to the matrix's own type).
  Matrix& Fill(uint64_t seed, DType as = DType::kF32) {
    Random random(seed);
    return Each([&](float) { return RoundTo(as, static_cast<float>(random.Uniform() * 2 - 1)); });
  }
  // Integers in [-4, 4]: sums of their products are exact in any order.
  Matrix& FillIntegers(uint64_t seed) {
    Random random(seed);
    return Each([&](float) { return static_cast<float>(random.Between(-4, 4)); });
  }
  Matrix& FillWith(float value) {
    return Each([&](float) { return value; });
  }
  template <class Fn>
  Matrix& Each(const Fn& fn) {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c) set(r, c, fn(at(r, c)));
    }
    return *this;
  }

 private:
  int64_t rows_, cols_, stride_;
  DType dtype_;
  std::vector<char> bytes_;
};

// The bits of row r of `a` and row s of `b` agree.
inline bool SameBits(Matrix& a, int64_t r, Matrix& b, int64_t s) {
  return std::memcmp(a.view().Rows(r, 1).data, b.view().Rows(s, 1).data,
                     static_cast<size_t>(a.cols() * DTypeBytes(a.view().dtype))) == 0;
}

inline ::testing::AssertionResult Near(const Matrix& actual, const Matrix& expected,
                                       double tolerance) {
  for (int64_t r = 0; r < expected.rows(); ++r) {
    for (int64_t c = 0; c < expected.cols(); ++c) {
      const double a = actual.at(r, c), e = expected.at(r, c);
      if (a == e || std::abs(a - e) <= tolerance || (std::isnan(a) && std::isnan(e))) continue;
      return ::testing::AssertionFailure() << "at (" << r << ", " << c << "): " << a
                                           << ", expected " << e << " within " << tolerance;
    }
  }
  return ::testing::AssertionSuccess();
}

// The backend under test: an instruction set of the CPU, a GPU ("cuda:0") or the emulated one. Its
// operators take memory of its device.
inline std::unique_ptr<Backend> TestedAlone(const std::string& name, int threads = 2) {
  return MakeTestedBackend(name, {.num_threads = threads});
}
// The same; those of devices take views of the host through MakeStagedBackend.
inline std::unique_ptr<Backend> Tested(const std::string& name, int threads = 2) {
  auto backend = TestedAlone(name, threads);
  if (backend->device().kind == DeviceKind::kCpu) return backend;
  return MakeStagedBackend(std::move(backend));
}
inline std::unique_ptr<Backend> Reference() { return *CreateBackend("reference", {}); }

// Backends on which a test should try fewer shapes: every GPU thread is emulated.
inline bool IsSlow(const Backend& backend) {
  return backend.numerics_class().starts_with("cuda-emulated");
}

// Whether products and attention over `dtype` round their left operand to it first.
inline bool RoundsInputs(const Backend& backend, DType dtype) {
  if (backend.name() == "cuda") return dtype != DType::kF32;
  return dtype == DType::kBF16 &&
         backend.numerics_class().find("cpu-bf16") != std::string_view::npos;
}

// Tests that run once per tested backend: GetParam() is its name.
class KernelTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Backend> tested_ = Tested(GetParam());
  std::unique_ptr<Backend> reference_ = Reference();
};

inline std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' || c == ':' ? '_' : c;
  return name;
}

#define INSTANTIATE_KERNEL_TEST(Fixture) \
  INSTANTIATE_TEST_SUITE_P(Backends, Fixture, ::testing::ValuesIn(TestedBackends()), TestName)

}  // namespace tutti::kernels
