// The codes of each layout.
#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "quant/codes.h"
#include "quant/formats.h"

namespace tutti::quant {
namespace {

using model::QuantPart;

// Outputs whose rows of codes are written at once: a line of the first cache for each.
constexpr int64_t kOutputsAtOnce = 64;

uint32_t WordAt(std::span<const std::byte> bytes, int64_t index) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + index * 4, sizeof(word));
  return word;
}

// The codes of a word, lowest bits first, a byte each; `per_word` of them.
void Spread(uint32_t word, int64_t per_word, uint8_t* codes) {
  if (per_word == 4) {
    std::memcpy(codes, &word, sizeof(word));
    return;
  }
  uint64_t wide = word;
  wide = (wide | wide << 16) & 0x0000ffff0000ffff;
  wide = (wide | wide << 8) & 0x00ff00ff00ff00ff;
  wide = (wide | wide << 4) & 0x0f0f0f0f0f0f0f0f;
  std::memcpy(codes, &wide, sizeof(wide));
}

// The part [skip, skip + count) of a word's codes to `to`.
void SpreadSome(uint32_t word, int64_t per_word, int64_t skip, int64_t count, uint8_t* to) {
  std::array<uint8_t, 8> codes;
  Spread(word, per_word, codes.data());
  std::memcpy(to, codes.data() + skip, static_cast<size_t>(count));
}

}  // namespace

void DecodeGptqCodes(const Decoding& decoding, uint8_t* codes) {
  const ReadPart& read = *decoding.Find(QuantPart::kCodes);
  const int64_t per_word = 32 / decoding.config.bits;
  const int64_t out = decoding.rows.size(), in = decoding.cols.size();
  const int64_t first_word = decoding.cols.begin / per_word;
  for (int64_t block = 0; block < out; block += kOutputsAtOnce) {
    const int64_t block_end = std::min(out, block + kOutputsAtOnce);
    for (int64_t w = read.stored.rows.begin; w < read.stored.rows.end; ++w) {
      const int64_t begin = std::max(decoding.cols.begin, w * per_word);
      const int64_t end = std::min(decoding.cols.end, (w + 1) * per_word);
      for (int64_t n = block; n < block_end; ++n) {
        const uint32_t word = WordAt(read.bytes, (w - first_word) * out + n);
        uint8_t* const to = codes + n * in + begin - decoding.cols.begin;
        if (end - begin == per_word) {
          Spread(word, per_word, to);
        } else {
          SpreadSome(word, per_word, begin - w * per_word, end - begin, to);
        }
      }
    }
  }
}

void DecodeAwqCodes(const Decoding& decoding, uint8_t* codes) {
  // Where output n of a word's eight lies.
  constexpr std::array<int, 8> kNibbleOf = {0, 4, 1, 5, 2, 6, 3, 7};
  const ReadPart& read = *decoding.Find(QuantPart::kCodes);
  const int64_t in = decoding.cols.size(), words = read.stored.cols.size();
  for (int64_t w = 0; w < words; ++w) {
    const int64_t first = (read.stored.cols.begin + w) * 8;
    const int64_t begin = std::max(decoding.rows.begin, first);
    const int64_t end = std::min(decoding.rows.end, first + 8);
    for (int64_t k = 0; k < in; ++k) {
      const uint32_t word = WordAt(read.bytes, k * words + w);
      for (int64_t n = begin; n < end; ++n) {
        const int shift = 4 * kNibbleOf[static_cast<size_t>(n - first)];
        codes[(n - decoding.rows.begin) * in + k] = static_cast<uint8_t>(word >> shift & 15);
      }
    }
  }
}

void DecodePackedCodes(const Decoding& decoding, uint8_t* codes) {
  const ReadPart& read = *decoding.Find(QuantPart::kCodes);
  const int64_t per_word = 32 / decoding.config.bits;
  const int64_t in = decoding.cols.size(), words = read.stored.cols.size();
  for (int64_t n = 0; n < decoding.rows.size(); ++n) {
    for (int64_t w = 0; w < words; ++w) {
      const int64_t first = (read.stored.cols.begin + w) * per_word;
      const int64_t begin = std::max(decoding.cols.begin, first);
      const int64_t end = std::min(decoding.cols.end, first + per_word);
      SpreadSome(WordAt(read.bytes, n * words + w), per_word, begin - first, end - begin,
                 codes + n * in + begin - decoding.cols.begin);
    }
  }
}

void DecodeFp4Codes(const Decoding& decoding, uint8_t* codes) {
  const ReadPart& read = *decoding.Find(QuantPart::kCodes);
  const int64_t bytes = read.stored.cols.size();
  for (int64_t n = 0; n < decoding.rows.size(); ++n) {
    for (int64_t k = decoding.cols.begin; k < decoding.cols.end; ++k) {
      const auto both = static_cast<uint8_t>(
          read.bytes[static_cast<size_t>(n * bytes + k / 2 - read.stored.cols.begin)]);
      *codes++ = k % 2 == 0 ? both & 15 : both >> 4;
    }
  }
}

absl::Status DecodeE4m3Codes(const Decoding& decoding, uint8_t* codes) {
  const ReadPart& read = *decoding.Find(QuantPart::kCodes);
  std::memcpy(codes, read.bytes.data(), read.bytes.size());
  const auto* const end = codes + read.bytes.size();
  const auto* const bad = std::find_if(codes, const_cast<uint8_t*>(end), IsE4m3Nan);
  if (bad == end) return absl::OkStatus();
  const int64_t at = bad - codes, in = decoding.cols.size();
  return model::RefuseTensor(decoding.NameOf(QuantPart::kCodes),
                             absl::StrCat("element [", decoding.rows.begin + at / in, ", ",
                                          decoding.cols.begin + at % in, "] is not a number"));
}

void DecodeInt8Codes(const Decoding& decoding, uint8_t* codes) {
  for (const std::byte byte : decoding.Find(QuantPart::kCodes)->bytes) {
    *codes++ = static_cast<uint8_t>(byte) ^ 0x80;
  }
}

absl::StatusOr<std::vector<uint8_t>> DecodeZeros(const Decoding& decoding) {
  const ReadPart* const read = decoding.Find(QuantPart::kZeros);
  std::vector<uint8_t> zeros;
  if (read == nullptr) return zeros;
  const model::QuantConfig& config = decoding.config;
  const bool awq = config.method == model::Method::kAwq;
  const bool by_input = awq || config.method == model::Method::kGptq;
  constexpr std::array<int, 8> kNibbleOfAwq = {0, 4, 1, 5, 2, 6, 3, 7};
  const int64_t per_word = 32 / config.bits, groups = decoding.matrix.groups;
  const uint32_t one_each = !config.zeros_less_one ? 0
                            : config.bits == 4     ? 0x11111111u
                                                   : 0x01010101u;
  const uint32_t mask = (1u << config.bits) - 1, middle = 1u << (config.bits - 1);
  const bool symmetric = config.symmetric && !awq;
  zeros.resize(static_cast<size_t>(decoding.rows.size() * groups));
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t n = decoding.rows.begin; n < decoding.rows.end; ++n) {
      const int64_t w = n / per_word - (by_input ? read->stored.cols : read->stored.rows).begin;
      const int64_t index = by_input ? g * read->stored.cols.size() + w : w * groups + g;
      // One addition over whole words undoes what GPTQ v1 stores less one, borrows and all.
      const uint32_t word = WordAt(read->bytes, index) + one_each;
      const auto at = static_cast<size_t>(n % per_word);
      const int shift = config.bits * (awq ? kNibbleOfAwq[at] : static_cast<int>(at));
      const uint32_t zero = word >> shift & mask;
      if (symmetric && zero != middle) {
        return model::RefuseTensor(
            decoding.NameOf(QuantPart::kZeros),
            absl::StrCat("output ", n, " of group ", g, " has the zero point ", zero,
                         ", a symmetric checkpoint has ", middle,
                         ": its checkpoint_format (gptq, gptq_v2) or its sym is not what "
                         "config.json says"));
      }
      zeros[static_cast<size_t>((n - decoding.rows.begin) * groups + g)] =
          static_cast<uint8_t>(zero);
    }
  }
  if (symmetric) zeros.clear();
  return zeros;
}

}  // namespace tutti::quant
