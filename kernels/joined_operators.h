// Sequences of operators that a transformer calls one after the other, as one call each: a backend
// whose operators each start and end on a device can do a sequence in fewer of them.
//
// Each is exactly the sequence of its parts, to the bit (joined_operators_test.cc), and this class
// calls them one by one. A backend with something better derives from it and calls it for the rest.
//
// Thread: the backend's.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace tutti::kernels {

// Rows that an operator makes for one product and for nothing else. The contents of the memory of
// `rows` are private to the backend: only MatMul below may read them, until the next operator that
// makes such rows, or the next product of other ones.
struct ProductRows {
  TensorView rows;                 // [rows, in_features of the weight] f32
  const Weight* weight = nullptr;  // of the product; nullptr: f32 rows, for any reader
};

// RmsNorm of the residual stream, for the next operator.
struct NextNorm {
  TensorView weight;  // data == nullptr: no norm
  float epsilon = 0;
  ProductRows out;
};

// Bias, norm and rotary embedding of queries and keys.
struct HeadTurn {
  TensorView bias;        // of queries, keys and values; data == nullptr: none
  TensorView query_norm;  // data == nullptr: none, as for keys
  TensorView key_norm;
  float epsilon = 0;
  std::span<const int32_t> positions;        // [rows]
  std::span<const float> inverse_frequency;  // [head_dim / 2]
};

class JoinedOperators {
 public:
  // REQUIRES: the backend outlives it.
  explicit JoinedOperators(Backend* backend) : backend_(backend) {}
  virtual ~JoinedOperators() = default;

  // The backend's own, or `plain`, which calls its operators one by one.
  static JoinedOperators* Of(Backend* backend, JoinedOperators* plain) {
    JoinedOperators* const own = backend->joined_operators();
    return own == nullptr ? plain : own;
  }

  // RmsNorm(in, norm.weight, norm.epsilon, norm.out.rows)
  virtual void Norm(TensorView in, const NextNorm& norm);
  // SiluMul(gate_up, out.rows)
  virtual void SiluMul(TensorView gate_up, ProductRows out);
  // Attention(q, cache, batch, scale, out.rows)
  virtual void Attention(TensorView q, const KvLayer& cache, const AttentionBatch& batch,
                         float scale, ProductRows out);

  // MatMul(in.rows, *in.weight, out)   REQUIRES: `in` is the last result of another of these
  // operators, and has not been multiplied.
  virtual void MatMul(ProductRows in, TensorView out);

  // AddResidual(residual, delta, round_to), and Norm(residual, next).   next.out.rows may be
  // `delta`.
  virtual void AddResidual(TensorView residual, TensorView delta, DType round_to,
                           const NextNorm& next);
  // MatMul(in, delta), and AddResidual as above. `delta` is undefined afterwards.
  virtual void AddProduct(ProductRows in, TensorView delta, TensorView residual, DType round_to,
                          const NextNorm& next);

  // AddBias where there is one, HeadNormRope of the queries and of the keys, and WriteKv.
  //
  //   qkv  [rows, (heads + 2 kv_heads) * head_dim] f32: queries, keys, values. The queries are
  //        changed in place; keys and values are undefined afterwards.
  virtual void TurnAndWriteKv(TensorView qkv, const HeadTurn& turn, const AttentionBatch& batch,
                              const KvLayer& cache);

 protected:
  Backend* const backend_;
};

}  // namespace tutti::kernels
