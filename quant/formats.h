// The codes of the layouts, one function each; what all have in common: quant_reader.cc.
//
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/quant_config.h"
#include "model/quantised_tensors.h"
#include "quant/quant_matrix.h"
#include "quant/read_part.h"

namespace tutti::quant {

// A part of a matrix on its way from tensors to codes.
struct Decoding {
  const model::QuantisedMatrix& matrix;
  const model::QuantConfig& config;
  model::Range rows, cols;
  std::span<const ReadPart> parts;

  // Null: there is none.
  const ReadPart* Find(model::QuantPart part) const;
  std::string NameOf(model::QuantPart part) const;
  // Whether zero points are kept; else those that are stored must be the middle.
  bool has_zeros() const;
};

// The codes of `outputs`, some of decoding.rows, by whatever thread: `codes` [rows, cols] of all, a
// byte each.
//
// Words of codes of consecutive inputs, [in / per word, out].
void DecodeGptqCodes(const Decoding& decoding, model::Range outputs, uint8_t* codes);
// Words of codes of eight outputs, in the order 0, 2, 4, 6, 1, 3, 5, 7: [in, out / 8].
void DecodeAwqCodes(const Decoding& decoding, model::Range outputs, uint8_t* codes);
// Words of consecutive inputs, [out, words of in].
void DecodePackedCodes(const Decoding& decoding, model::Range outputs, uint8_t* codes);
// Two codes in a byte, the first below: [out, in / 2].
void DecodeFp4Codes(const Decoding& decoding, model::Range outputs, uint8_t* codes);
// A byte each. INVALID_ARGUMENT: one that is no number.
absl::Status DecodeE4m3Codes(const Decoding& decoding, model::Range outputs, uint8_t* codes);
// Integers with a sign, [out, in].
void DecodeInt8Codes(const Decoding& decoding, model::Range outputs, uint8_t* codes);

// The zero points of integers: `zeros` [rows, groups] of all, unused where there are none to keep.
// INVALID_ARGUMENT: one that a symmetric checkpoint cannot have.
// REQUIRES: some are stored
absl::Status DecodeZeros(const Decoding& decoding, model::Range outputs, uint8_t* zeros);

}  // namespace tutti::quant
