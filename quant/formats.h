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
};

// The codes: `codes` [rows, cols], a byte each.
//
// Words of codes of consecutive inputs, [in / per word, out].
void DecodeGptqCodes(const Decoding& decoding, uint8_t* codes);
// Words of codes of eight outputs, in the order 0, 2, 4, 6, 1, 3, 5, 7: [in, out / 8].
void DecodeAwqCodes(const Decoding& decoding, uint8_t* codes);
// Words of consecutive inputs, [out, words of in].
void DecodePackedCodes(const Decoding& decoding, uint8_t* codes);
// Two codes in a byte, the first below: [out, in / 2].
void DecodeFp4Codes(const Decoding& decoding, uint8_t* codes);
// A byte each. INVALID_ARGUMENT: one that is no number.
absl::Status DecodeE4m3Codes(const Decoding& decoding, uint8_t* codes);
// Integers with a sign, [out, in].
void DecodeInt8Codes(const Decoding& decoding, uint8_t* codes);

// The zero points [rows, groups] of integers, empty where they are the middle.
absl::StatusOr<std::vector<uint8_t>> DecodeZeros(const Decoding& decoding);

}  // namespace tutti::quant
