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
using model::Range;

// Inputs whose codes of one output are written at once: a line of the first cache.
constexpr int64_t kInputsAtOnce = 64;
// Outputs of a word of AWQ, and where output n of the eight lies.
constexpr int64_t kOutputsOfWord = 8;
constexpr std::array<int, kOutputsOfWord> kNibbleOf = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t WordAt(std::span<const std::byte> bytes, int64_t index) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + index * 4, sizeof(word));
  return word;
}

// The eight codes of a word, lowest bits first, a byte each.
uint64_t Spread(uint32_t word) {
  uint64_t wide = word;
  wide = (wide | wide << 16) & 0x0000ffff0000ffff;
  wide = (wide | wide << 8) & 0x00ff00ff00ff00ff;
  return (wide | wide << 4) & 0x0f0f0f0f0f0f0f0f;
}

// `count` codes of four bits from place `first` of a row on.
void SpreadRow(const std::byte* row, int64_t first, int64_t count, uint8_t* to) {
  row += first / 2;
  if (first % 2 != 0 && count > 0) {
    *to++ = static_cast<uint8_t>(*row++) >> 4;
    --count;
  }
  for (; count >= 8; count -= 8, row += 4, to += 8) {
    uint32_t word;
    std::memcpy(&word, row, sizeof(word));
    const uint64_t codes = Spread(word);
    std::memcpy(to, &codes, sizeof(codes));
  }
  for (int64_t i = 0; i < count; ++i) {
    const auto both = static_cast<uint8_t>(row[i / 2]);
    *to++ = i % 2 == 0 ? both & 15 : both >> 4;
  }
}

// Codes [outputs] from rows of so many codes an element.
struct Rows {
  const std::byte* first = nullptr;  // of the first row
  int64_t stride = 0;                // bytes
  int64_t skip = 0;                  // codes of a row before the first wanted
};
Rows RowsOf(const Decoding& decoding, Range outputs, int64_t per_element) {
  const ReadPart& read = *decoding.Find(QuantPart::kCodes);
  const int64_t stride =
      read.stored.cols.size() * model::StoredTypeBytes(read.stored.tensor->dtype);
  return {.first = read.bytes.data() + (outputs.begin - read.stored.rows.begin) * stride,
          .stride = stride,
          .skip = decoding.cols.begin - read.stored.cols.begin * per_element};
}

// Where the codes of an output go.
uint8_t* RowOf(const Decoding& decoding, int64_t output, uint8_t* codes) {
  return codes + (output - decoding.rows.begin) * decoding.cols.size();
}

// Words [first, end) of a column of words, of one output: all their codes.
template <int64_t kPerWord>
void SpreadColumn(std::span<const std::byte> words, int64_t first, int64_t count, int64_t stride,
                  uint8_t* to) {
  for (int64_t w = 0; w < count; ++w, first += stride, to += kPerWord) {
    const uint32_t word = WordAt(words, first);
    if constexpr (kPerWord == 4) {
      std::memcpy(to, &word, sizeof(word));
    } else {
      const uint64_t codes = Spread(word);
      std::memcpy(to, &codes, sizeof(codes));
    }
  }
}

template <int64_t kPerWord>
void DecodeColumns(const Decoding& decoding, Range outputs, uint8_t* codes) {
  constexpr int64_t kWords = kInputsAtOnce / kPerWord;
  const ReadPart& read = *decoding.Find(QuantPart::kCodes);
  const Range words = read.stored.rows, cols = decoding.cols;
  const int64_t stride = read.stored.cols.size();
  for (int64_t w = words.begin; w < words.end; w += kWords) {
    const int64_t count = std::min(kWords, words.end - w);
    const int64_t begin = std::max(cols.begin, w * kPerWord);
    const int64_t end = std::min(cols.end, (w + count) * kPerWord);
    for (int64_t n = outputs.begin; n < outputs.end; ++n) {
      const int64_t first = (w - words.begin) * stride + n - read.stored.cols.begin;
      uint8_t* const to = RowOf(decoding, n, codes) + begin - cols.begin;
      if (end - begin == kInputsAtOnce) {
        SpreadColumn<kPerWord>(read.bytes, first, kWords, stride, to);
        continue;
      }
      std::array<uint8_t, kInputsAtOnce> line;
      SpreadColumn<kPerWord>(read.bytes, first, count, stride, line.data());
      std::memcpy(to, &line[static_cast<size_t>(begin - w * kPerWord)],
                  static_cast<size_t>(end - begin));
    }
  }
}

// Row i of eight by eight bytes becomes column i.
void Transpose(std::array<uint64_t, 8>* rows) {
  const auto swap = [&](size_t i, size_t j, int bits, uint64_t low) {
    const uint64_t changed = ((*rows)[i] >> bits ^ (*rows)[j]) & low;
    (*rows)[i] ^= changed << bits;
    (*rows)[j] ^= changed;
  };
  for (size_t i = 0; i < 4; ++i) swap(i, i + 4, 32, 0x00000000ffffffff);
  for (const size_t i : {0, 1, 4, 5}) swap(i, i + 2, 16, 0x0000ffff0000ffff);
  for (const size_t i : {0, 2, 4, 6}) swap(i, i + 1, 8, 0x00ff00ff00ff00ff);
}

}  // namespace

void DecodeGptqCodes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  if (decoding.config.bits == 4) return DecodeColumns<8>(decoding, outputs, codes);
  DecodeColumns<4>(decoding, outputs, codes);
}

void DecodeAwqCodes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  const ReadPart& read = *decoding.Find(QuantPart::kCodes);
  const int64_t words = read.stored.cols.size(), in = decoding.cols.size();
  for (int64_t line = 0; line < in; line += kInputsAtOnce) {
    const int64_t count = std::min(kInputsAtOnce, in - line);
    for (int64_t w = outputs.begin / kOutputsOfWord; w * kOutputsOfWord < outputs.end; ++w) {
      const int64_t column = w - read.stored.cols.begin;
      std::array<std::array<uint64_t, kInputsAtOnce / 8>, kOutputsOfWord> lines;
      for (int64_t k = 0; k < count; k += 8) {
        std::array<uint64_t, 8> block = {};
        for (int64_t i = 0; i < std::min<int64_t>(8, count - k); ++i) {
          block[static_cast<size_t>(i)] =
              Spread(WordAt(read.bytes, (line + k + i) * words + column));
        }
        Transpose(&block);
        for (size_t n = 0; n < block.size(); ++n) {
          lines[n][static_cast<size_t>(k / 8)] = block[static_cast<size_t>(kNibbleOf[n])];
        }
      }
      const int64_t first = w * kOutputsOfWord;
      const int64_t end = std::min(outputs.end, first + kOutputsOfWord);
      for (int64_t n = std::max(outputs.begin, first); n < end; ++n) {
        std::memcpy(RowOf(decoding, n, codes) + line, lines[static_cast<size_t>(n - first)].data(),
                    static_cast<size_t>(count));
      }
    }
  }
}

void DecodePackedCodes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  const Rows rows = RowsOf(decoding, outputs, 32 / decoding.config.bits);
  const std::byte* row = rows.first;
  for (int64_t n = outputs.begin; n < outputs.end; ++n, row += rows.stride) {
    uint8_t* const to = RowOf(decoding, n, codes);
    if (decoding.config.bits == 4) {
      SpreadRow(row, rows.skip, decoding.cols.size(), to);
    } else {
      std::memcpy(to, row + rows.skip, static_cast<size_t>(decoding.cols.size()));
    }
  }
}

void DecodeFp4Codes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  const Rows rows = RowsOf(decoding, outputs, 2);
  const std::byte* row = rows.first;
  for (int64_t n = outputs.begin; n < outputs.end; ++n, row += rows.stride) {
    SpreadRow(row, rows.skip, decoding.cols.size(), RowOf(decoding, n, codes));
  }
}

absl::Status DecodeE4m3Codes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  const Rows rows = RowsOf(decoding, outputs, 1);
  const std::byte* row = rows.first;
  const auto in = static_cast<size_t>(decoding.cols.size());
  for (int64_t n = outputs.begin; n < outputs.end; ++n, row += rows.stride) {
    uint8_t* const to = RowOf(decoding, n, codes);
    // Of seven bits all ones and one more make the eighth.
    uint64_t found = 0;
    size_t k = 0;
    for (; k + 8 <= in; k += 8) {
      uint64_t eight;
      std::memcpy(&eight, row + k, sizeof(eight));
      std::memcpy(to + k, &eight, sizeof(eight));
      found |= (eight & 0x7f * kOnes) + kOnes;
    }
    bool bad = (found & 0x80 * kOnes) != 0;
    for (; k < in; ++k) {
      to[k] = static_cast<uint8_t>(row[k]);
      bad |= IsE4m3Nan(to[k]);
    }
    if (!bad) continue;
    return model::RefuseTensor(
        decoding.NameOf(QuantPart::kCodes),
        absl::StrCat("element [", n, ", ",
                     decoding.cols.begin + (std::find_if(to, to + in, IsE4m3Nan) - to),
                     "] is not a number"));
  }
  return absl::OkStatus();
}

void DecodeInt8Codes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  const Rows rows = RowsOf(decoding, outputs, 1);
  const std::byte* row = rows.first;
  const auto in = static_cast<size_t>(decoding.cols.size());
  for (int64_t n = outputs.begin; n < outputs.end; ++n, row += rows.stride) {
    uint8_t* const to = RowOf(decoding, n, codes);
    size_t k = 0;
    for (; k + 8 <= in; k += 8) {
      uint64_t eight;
      std::memcpy(&eight, row + k, sizeof(eight));
      eight ^= 0x8080808080808080;
      std::memcpy(to + k, &eight, sizeof(eight));
    }
    for (; k < in; ++k) to[k] = static_cast<uint8_t>(row[k]) ^ 0x80;
  }
}

absl::Status DecodeZeros(const Decoding& decoding, Range outputs, uint8_t* zeros) {
  const ReadPart& read = *decoding.Find(QuantPart::kZeros);
  const model::QuantConfig& config = decoding.config;
  const bool awq = config.method == model::Method::kAwq;
  const bool by_input = awq || config.method == model::Method::kGptq;
  const int64_t per_word = 32 / config.bits, groups = decoding.matrix.groups;
  const Range words = by_input ? read.stored.cols : read.stored.rows;
  const uint32_t one_each = !config.zeros_less_one ? 0
                            : config.bits == 4     ? 0x11111111u
                                                   : 0x01010101u;
  const uint32_t mask = (1u << config.bits) - 1, middle = 1u << (config.bits - 1);
  for (int64_t n = outputs.begin; n < outputs.end; ++n) {
    const int64_t w = n / per_word - words.begin;
    const auto at = static_cast<size_t>(n % per_word);
    const int shift = config.bits * (awq ? kNibbleOf[at] : static_cast<int>(at));
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t index = by_input ? g * words.size() + w : w * groups + g;
      // One addition over whole words undoes what GPTQ v1 stores less one, borrows and all.
      const uint32_t zero = (WordAt(read.bytes, index) + one_each) >> shift & mask;
      if (decoding.has_zeros()) {
        zeros[(n - decoding.rows.begin) * groups + g] = static_cast<uint8_t>(zero);
      } else if (zero != middle) {
        return model::RefuseTensor(
            decoding.NameOf(QuantPart::kZeros),
            absl::StrCat("output ", n, " of group ", g, " has the zero point ", zero,
                         ", a symmetric checkpoint has ", middle,
                         ": its checkpoint_format (gptq, gptq_v2) or its sym is not what "
                         "config.json says"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tutti::quant
