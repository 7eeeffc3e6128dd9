// AMX's tiles for bf16, with the bits of sums of blocks; the rest by AVX-512. Compiled with
// AVX-512 BF16. Includes nothing whose inline functions another file may share.
#include "kernels/cpu/amx_attention.h"
#include "kernels/cpu/amx_integers.h"
#include "kernels/cpu/amx_matmul.h"
#include "kernels/cpu/amx_quantised.h"
#include "kernels/cpu/make_table.h"
#include "kernels/cpu/simd_avx512.h"

namespace tutti::kernels::cpu {
namespace {

struct Avx512Amx : Avx512 {
  // By the instruction, which differs from Bf16Bits at denormals only: it takes them as zero.
  TUTTI_INLINE F StoreNormalBf16(uint16_t* p, F x) {
    const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(x);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
  }
  // 32 numbers rounded to bf16, denormals to zero, as the tiles would take them.
  TUTTI_INLINE void StoreBf16Pair(uint8_t* p, F low, F high) {
    _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
  // Whole lines that go to memory past the caches; FenceStores before another thread reads them.
  TUTTI_INLINE void StoreAround(float* p, F x) { _mm512_stream_ps(p, x); }
  TUTTI_INLINE void FenceStores() { _mm_sfence(); }
  // A unit of values of two slots, of which `slots` are seen; zeros for the others.
  TUTTI_INLINE void CopyPair(uint8_t* to, const uint8_t* from, int64_t slots) {
    const __mmask32 mask = slots >= 2 ? 0xffffffffu : slots == 1 ? 0x55555555u : 0u;
    _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(mask, from));
  }
  // Whether one of 32 bf16 is NaN or infinite.
  TUTTI_INLINE bool AnyNotFiniteBf16(const uint8_t* p) {
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    const __m512i bits = _mm512_and_si512(_mm512_loadu_si512(p), exponent);
    return _mm512_cmpeq_epi16_mask(bits, exponent) != 0;
  }
};

using ByF32 = Kernels<Avx512Amx, BlockFormat<Avx512Amx>>;

void PackRows(const MatMulJob& job, int64_t begin, int64_t end) {
  if (job.dtype != DType::kBF16 || job.tuning.by_f32) return ByF32::PackRows(job, begin, end);
  AmxPackTiles<Avx512Amx>(job, begin, end);
}
void MatMul(const MatMulJob& job, int64_t begin, int64_t end, float* scratch, uint64_t* slices) {
  if (job.dtype != DType::kBF16 || job.tuning.by_f32) {
    return ByF32::MatMul(job, begin, end, scratch, slices);
  }
  AmxMatMulGroups<Avx512Amx>(job, begin, end, scratch, slices);
}
void MatMulQuantised(const QuantisedJob& job, int64_t begin, int64_t end, float* scratch,
                     uint64_t* slices) {
  if (job.row_sums != nullptr) {
    return AmxIntegerGroups<Avx512Amx>(job, begin, end, scratch, slices);
  }
  const bool numbers = job.row_scales == nullptr;
  if (!numbers || job.rows.dtype != DType::kBF16 || job.rows.tuning.by_f32) {
    return ByF32::MatMulQuantised(job, begin, end, scratch, slices);
  }
  AmxQuantisedGroups<Avx512Amx>(job, begin, end, scratch, slices);
}
void Attention(const AttentionJob& job, const AttentionItem& item, float* scratch,
               uint64_t* slices) {
  // A few rows wait for the cache, which the tiles of values would be gathered from first.
  const bool few = item.entry_end - item.entry_begin <= kTileRows;
  if (job.dtype != DType::kBF16 || job.by_f32 || few) {
    return ByF32::Attention(job, item, scratch, slices);
  }
  AmxAttend<Avx512Amx>(job, item, scratch, slices);
}

// Products of tiles from registers. Of numbers, not of zeros, which are quicker.
int64_t TileBurst(int64_t rounds) {
  alignas(64) uint16_t ones[kAmxTileBytes / 2];
  for (int i = 0; i < kAmxTileBytes / 2; ++i) ones[i] = i % 2 == 0 ? 0x3f80 : 0xbf7f;  // 1, -0.996
  AmxShape shape;
  shape.Take(kAmxRows, kAmxRows);
  AmxLoad<4>(ones, kAmxRowBytes);
  AmxLoad<5>(ones, kAmxRowBytes);
  AmxLoad<6>(ones, kAmxRowBytes);
  AmxLoad<7>(ones, kAmxRowBytes);
  AmxZero<0>();
  AmxZero<1>();
  AmxZero<2>();
  AmxZero<3>();
  const int64_t turns = rounds / 16;
  for (int64_t turn = 0; turn < turns; ++turn) {
    AmxMultiply<0, 6, 4>();
    AmxMultiply<1, 6, 5>();
    AmxMultiply<2, 7, 4>();
    AmxMultiply<3, 7, 5>();
  }
  AmxRelease();
  return turns * 4 * (2 * kAmxRows * kAmxRows * 2 * kAmxBlockPairs);
}

}  // namespace

const KernelTable& AmxKernels() {
  static constexpr KernelTable kTable = [] {
    KernelTable table = ByF32::Table(nullptr);
    table.pack_rows = PackRows;
    table.pack_row = AmxPackRow<Avx512Amx>;
    table.matmul = MatMul;
    table.matmul_quantised = MatMulQuantised;
    table.attend = Attention;
    table.tile_burst = TileBurst;
    table.row_tile = kAmxRows;
    table.integer_tiles = true;
    table.attention_entries = kAmxAttentionEntries;
    table.multiplies_both_ways = true;
    return table;
  }();
  return kTable;
}

}  // namespace tutti::kernels::cpu
