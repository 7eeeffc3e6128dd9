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
// Outputs whose rows of codes are written by turns: more would be more pages than the processor
// remembers. A line of AWQ's words has as many.
constexpr int64_t kOutputsAtOnce = 128;
// Outputs of a word of AWQ, and where output n of the eight lies.
constexpr int64_t kOutputsOfWord = 8;
constexpr std::array<int, kOutputsOfWord> kNibbleOf = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t WordAt(std::span<const std::byte> bytes, int64_t index) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + index * 4, sizeof(word));
  return word;
}

// Sixteen bytes in a register, whatever the processor.
using Bytes [[gnu::vector_size(16)]] = uint8_t;
using Halves [[gnu::vector_size(16)]] = uint16_t;
using Words [[gnu::vector_size(16)]] = uint32_t;
using Longs [[gnu::vector_size(16)]] = uint64_t;

Bytes Load(const void* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  return bytes;
}
// kCount of its bytes, from byte kFirst on.
template <int kFirst, int kCount>
void Store(Bytes bytes, uint8_t* to) {
  std::memcpy(to, reinterpret_cast<const char*>(&bytes) + kFirst, kCount);
}
// Bytes of a and b by turns: of their lower eight, and of their upper.
Bytes LowByTurns(Bytes a, Bytes b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
Bytes HighByTurns(Bytes a, Bytes b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}

// 32 codes of four bits, a byte each, the lower bits of a byte first.
struct Codes {
  Bytes first, second;
};
Codes Spread(Bytes packed) {
  const Bytes low = packed & 15;
  const Bytes high = reinterpret_cast<Bytes>(reinterpret_cast<Halves>(packed) >> 4) & 15;
  return {LowByTurns(low, high), HighByTurns(low, high)};
}

// `count` codes of four bits from place `first` of a row on.
void SpreadRow(const std::byte* row, int64_t first, int64_t count, uint8_t* to) {
  row += first / 2;
  if (first % 2 != 0 && count > 0) {
    *to++ = static_cast<uint8_t>(*row++) >> 4;
    --count;
  }
  for (; count >= 32; count -= 32, row += 16, to += 32) {
    const Codes codes = Spread(Load(row));
    Store<0, 16>(codes.first, to);
    Store<0, 16>(codes.second, to + 16);
  }
  for (int64_t i = 0; i < count; ++i) {
    const auto both = static_cast<uint8_t>(row[i / 2]);
    *to++ = i % 2 == 0 ? both & 15 : both >> 4;
  }
}

// Where the codes of an output go.
uint8_t* RowOf(const Decoding& decoding, int64_t output, uint8_t* codes) {
  return codes + (output - decoding.rows.begin) * decoding.cols.size();
}

// Calls decode(output, row, skip, to) for layouts that have a row for each output: `row` is where
// its stored elements begin, of so many codes each; the first `skip` of its codes are not wanted.
template <class Decode>
void ForEachRow(const Decoding& decoding, Range outputs, int64_t per_element, uint8_t* codes,
                const Decode& decode) {
  const ReadPart& read = *decoding.Find(QuantPart::kCodes);
  const int64_t stride =
      read.stored.cols.size() * model::StoredTypeBytes(read.stored.tensor->dtype);
  const int64_t skip = decoding.cols.begin - read.stored.cols.begin * per_element;
  const std::byte* row = read.bytes.data() + (outputs.begin - read.stored.rows.begin) * stride;
  for (int64_t n = outputs.begin; n < outputs.end; ++n, row += stride) {
    decode(n, row, skip, RowOf(decoding, n, codes));
  }
}

// `count` words of consecutive inputs, `stride` words apart: all codes of one output.
void SpreadColumn(std::span<const std::byte> words, int64_t first, int64_t count, int64_t stride,
                  int bits, uint8_t* to) {
  for (int64_t w = 0; w < count; ++w, first += stride) {
    const uint32_t word = WordAt(words, first);
    if (bits == 8) {
      std::memcpy(to, &word, sizeof(word));
      to += sizeof(word);
      continue;
    }
    for (int shift = 0; shift < 32; shift += 4) *to++ = word >> shift & 15;
  }
}

// Four columns of eight words, those of 64 inputs: the codes of four outputs, `in` bytes apart.
void SpreadFourColumns(const std::byte* words, int64_t stride, int64_t in, uint8_t* to) {
#pragma GCC unroll 8
  for (int w = 0; w < 8; ++w, words += 4 * stride, to += 8) {
    const Codes codes = Spread(Load(words));
    Store<0, 8>(codes.first, to);
    Store<8, 8>(codes.first, to + in);
    Store<0, 8>(codes.second, to + 2 * in);
    Store<8, 8>(codes.second, to + 3 * in);
  }
}

// The same of sixteen words of four codes of eight bits: four by four words change places.
void MoveFourColumns(const std::byte* words, int64_t stride, int64_t in, uint8_t* to) {
#pragma GCC unroll 4
  for (int w = 0; w < 4; ++w, words += 16 * stride, to += 16) {
    const auto row = [&](int64_t i) {
      return reinterpret_cast<Words>(Load(words + 4 * i * stride));
    };
    const Words low = __builtin_shufflevector(row(0), row(1), 0, 4, 1, 5);
    const Words high = __builtin_shufflevector(row(0), row(1), 2, 6, 3, 7);
    const Words low2 = __builtin_shufflevector(row(2), row(3), 0, 4, 1, 5);
    const Words high2 = __builtin_shufflevector(row(2), row(3), 2, 6, 3, 7);
    const auto put = [&](Words codes, int64_t output) {
      Store<0, 16>(reinterpret_cast<Bytes>(codes), to + output * in);
    };
    put(__builtin_shufflevector(low, low2, 0, 1, 4, 5), 0);
    put(__builtin_shufflevector(low, low2, 2, 3, 6, 7), 1);
    put(__builtin_shufflevector(high, high2, 0, 1, 4, 5), 2);
    put(__builtin_shufflevector(high, high2, 2, 3, 6, 7), 3);
  }
}

// Rows become columns: 16 by 16 bytes.
void Transpose(Bytes (&rows)[16]) {
#pragma GCC unroll 4
  for (int stage = 0; stage < 4; ++stage) {
    Bytes next[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = LowByTurns(rows[i], rows[i + 8]);
      next[2 * i + 1] = HighByTurns(rows[i], rows[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) rows[i] = next[i];
  }
}

// Two words of sixteen inputs, `stride` words apart: the codes of sixteen outputs, in the order of
// the words' bits, [output][input].
void SpreadTwoWords(const std::byte* words, int64_t stride, Bytes (&codes)[16]) {
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k, words += 4 * stride) {
    uint64_t both;
    std::memcpy(&both, words, sizeof(both));
    codes[k] = Spread(reinterpret_cast<Bytes>(Longs{both, 0})).first;
  }
  Transpose(codes);
}

// GPTQ's words of few outputs.
void DecodeColumns(const Decoding& decoding, Range outputs, uint8_t* codes) {
  const ReadPart& read = *decoding.Find(QuantPart::kCodes);
  const int bits = decoding.config.bits;
  const int64_t per_word = 32 / bits, at_once = kInputsAtOnce / per_word;
  const Range words = read.stored.rows, cols = decoding.cols;
  const int64_t stride = read.stored.cols.size();
  for (int64_t w = words.begin; w < words.end; w += at_once) {
    const int64_t count = std::min(at_once, words.end - w);
    const int64_t begin = std::max(cols.begin, w * per_word);
    const int64_t end = std::min(cols.end, (w + count) * per_word);
    const bool whole = end - begin == kInputsAtOnce;
    for (int64_t n = outputs.begin; n < outputs.end;) {
      const int64_t first = (w - words.begin) * stride + n - read.stored.cols.begin;
      uint8_t* const to = RowOf(decoding, n, codes) + begin - cols.begin;
      if (whole && n + 4 <= outputs.end) {
        const auto four = bits == 4 ? SpreadFourColumns : MoveFourColumns;
        four(read.bytes.data() + 4 * first, stride, cols.size(), to);
        n += 4;
        continue;
      }
      std::array<uint8_t, kInputsAtOnce> line;
      SpreadColumn(read.bytes, first, count, stride, bits, line.data());
      std::memcpy(to, &line[static_cast<size_t>(begin - w * per_word)],
                  static_cast<size_t>(end - begin));
      ++n;
    }
  }
}

// AWQ's words of inputs [k, k + 16) and few outputs.
void DecodeSixteenInputs(const Decoding& decoding, Range outputs, int64_t k, uint8_t* codes) {
  const ReadPart& read = *decoding.Find(QuantPart::kCodes);
  const int64_t stride = read.stored.cols.size();
  const int64_t inputs = std::min<int64_t>(16, decoding.cols.size() - k);
  const int64_t words_end = (outputs.end + kOutputsOfWord - 1) / kOutputsOfWord;
  for (int64_t w = outputs.begin / kOutputsOfWord; w < words_end; w += 2) {
    const int64_t words = std::min<int64_t>(2, words_end - w);
    const std::byte* from = read.bytes.data() + 4 * (k * stride + w - read.stored.cols.begin);
    // The last words, and inputs, are copied to where there are sixteen by two.
    std::array<std::byte, 16 * 8> filled = {};
    const bool whole = inputs == 16 && words == 2;
    for (int64_t i = 0; !whole && i < inputs; ++i) {
      std::memcpy(&filled[static_cast<size_t>(8 * i)], from + 4 * i * stride,
                  static_cast<size_t>(4 * words));
    }
    Bytes block[16];
    SpreadTwoWords(whole ? from : filled.data(), whole ? stride : 2, block);
    const int64_t first = w * kOutputsOfWord;
    const int64_t end = std::min(outputs.end, first + words * kOutputsOfWord);
    for (int64_t n = std::max(outputs.begin, first); n < end; ++n) {
      const int64_t at = (n - first) % kOutputsOfWord;
      const Bytes& row = block[n - first - at + kNibbleOf[static_cast<size_t>(at)]];
      uint8_t* const to = RowOf(decoding, n, codes) + k;
      if (inputs == 16) {
        Store<0, 16>(row, to);
      } else {
        std::memcpy(to, &row, static_cast<size_t>(inputs));
      }
    }
  }
}

}  // namespace

void DecodeGptqCodes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  for (int64_t n = outputs.begin; n < outputs.end; n += kOutputsAtOnce) {
    DecodeColumns(decoding, {n, std::min(outputs.end, n + kOutputsAtOnce)}, codes);
  }
}

void DecodeAwqCodes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  int64_t end = 0;
  for (int64_t n = outputs.begin; n < outputs.end; n = end) {
    end = std::min(outputs.end, (n / kOutputsAtOnce + 1) * kOutputsAtOnce);
    for (int64_t k = 0; k < decoding.cols.size(); k += 16) {
      DecodeSixteenInputs(decoding, {n, end}, k, codes);
    }
  }
}

void DecodePackedCodes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  const int64_t in = decoding.cols.size();
  ForEachRow(decoding, outputs, 32 / decoding.config.bits, codes,
             [&](int64_t, const std::byte* row, int64_t skip, uint8_t* to) {
               if (decoding.config.bits == 4) return SpreadRow(row, skip, in, to);
               std::memcpy(to, row + skip, static_cast<size_t>(in));
             });
}

void DecodeFp4Codes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  ForEachRow(decoding, outputs, 2, codes,
             [&](int64_t, const std::byte* row, int64_t skip, uint8_t* to) {
               SpreadRow(row, skip, decoding.cols.size(), to);
             });
}

absl::Status DecodeE4m3Codes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  const auto in = static_cast<size_t>(decoding.cols.size());
  int64_t bad = -1;  // the first output with a code that is no number
  const auto decode = [&](int64_t n, const std::byte* row, int64_t, uint8_t* to) {
    // Of seven bits all ones and one more make the eighth.
    uint64_t found = 0;
    size_t k = 0;
    for (; k + 8 <= in; k += 8) {
      uint64_t eight;
      std::memcpy(&eight, row + k, sizeof(eight));
      std::memcpy(to + k, &eight, sizeof(eight));
      found |= (eight & 0x7f * kOnes) + kOnes;
    }
    bool is_bad = (found & 0x80 * kOnes) != 0;
    for (; k < in; ++k) {
      to[k] = static_cast<uint8_t>(row[k]);
      is_bad |= IsE4m3Nan(to[k]);
    }
    if (is_bad && bad < 0) bad = n;
  };
  ForEachRow(decoding, outputs, 1, codes, decode);
  if (bad < 0) return absl::OkStatus();
  const uint8_t* const of_bad = RowOf(decoding, bad, codes);
  const int64_t k = std::find_if(of_bad, of_bad + in, IsE4m3Nan) - of_bad;
  return model::RefuseTensor(
      decoding.NameOf(QuantPart::kCodes),
      absl::StrCat("element [", bad, ", ", decoding.cols.begin + k, "] is not a number"));
}

void DecodeInt8Codes(const Decoding& decoding, Range outputs, uint8_t* codes) {
  const auto in = static_cast<size_t>(decoding.cols.size());
  const auto decode = [&](int64_t, const std::byte* row, int64_t, uint8_t* to) {
    size_t k = 0;
    for (; k + 8 <= in; k += 8) {
      uint64_t eight;
      std::memcpy(&eight, row + k, sizeof(eight));
      eight ^= 0x8080808080808080;
      std::memcpy(to + k, &eight, sizeof(eight));
    }
    for (; k < in; ++k) to[k] = static_cast<uint8_t>(row[k]) ^ 0x80;
  };
  ForEachRow(decoding, outputs, 1, codes, decode);
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
