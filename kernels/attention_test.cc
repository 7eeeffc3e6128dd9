// Attention over the paged cache: against the reference, and the bits of a row however its sequence
// was cut up.
#include <algorithm>

#include "kernels/kernels_testing.h"

namespace tutti::kernels {
namespace {

// A cache with sequences in scattered blocks. Slots that were never written hold NaN.
class Cache {
 public:
  Cache(Backend* backend, KvShape shape, int64_t sequences, int64_t slots_per_sequence)
      : backend_(backend), shape_(shape) {
    per_sequence_ = (slots_per_sequence + shape.block_size - 1) / shape.block_size;
    shape_.num_blocks = sequences * per_sequence_ + 1;
    buffer_ = *backend->Allocate(backend->KvLayerBytes(shape_));
    for (int64_t i = 0; i < buffer_->bytes() / DTypeBytes(shape_.dtype); ++i) {
      StoreFromF32(buffer_->data(), shape_.dtype, i, std::nanf(""));
    }
    // Neighbouring blocks of a sequence lie far apart, and in falling order.
    for (int64_t i = 0; i < sequences * per_sequence_; ++i) {
      table_.push_back(
          static_cast<int32_t>(shape_.num_blocks - 1 - (i * 7) % (shape_.num_blocks - 1)));
    }
    std::vector<bool> used(static_cast<size_t>(shape_.num_blocks));
    for (int32_t& block : table_) {
      while (used[static_cast<size_t>(block)])
        block = (block + 1) % static_cast<int32_t>(shape_.num_blocks);
      used[static_cast<size_t>(block)] = true;
    }
  }
  KvLayer layer() const { return {buffer_->data(), {}, shape_}; }
  const KvShape& shape() const { return shape_; }

  // One step: for each (sequence, first position, rows).
  struct Part {
    int64_t sequence, first, rows;
  };
  AttentionBatch Batch(const std::vector<Part>& parts) {
    row_begin_ = {0};
    first_position_.clear();
    block_begin_.clear();
    for (const Part& part : parts) {
      row_begin_.push_back(row_begin_.back() + static_cast<int32_t>(part.rows));
      first_position_.push_back(static_cast<int32_t>(part.first));
      block_begin_.push_back(static_cast<int32_t>(part.sequence * per_sequence_));
    }
    return {row_begin_, first_position_, block_begin_, table_};
  }

 private:
  Backend* backend_;
  KvShape shape_;
  int64_t per_sequence_;
  std::unique_ptr<DeviceBuffer> buffer_;
  std::vector<int32_t> table_, row_begin_, first_position_, block_begin_;
};

// Queries, keys and values of whole sequences, row = position.
struct Sequences {
  Sequences(int64_t count, int64_t length, const KvShape& shape, int64_t group, DType round_q) {
    for (int64_t s = 0; s < count; ++s) {
      const auto seed = static_cast<uint64_t>(100 * s);
      q.push_back(Matrix(length, shape.kv_heads * group * shape.head_dim).Fill(seed + 1, round_q));
      k.push_back(Matrix(length, shape.kv_heads * shape.head_dim).Fill(seed + 2));
      v.push_back(Matrix(length, shape.kv_heads * shape.head_dim).Fill(seed + 3));
      out.push_back(Matrix(length, shape.kv_heads * group * shape.head_dim));
    }
  }
  std::vector<Matrix> q, k, v, out;
};

void CopyRow(Matrix& from, int64_t r, Matrix& to, int64_t s) {
  std::memcpy(to.view().Rows(s, 1).data, from.view().Rows(r, 1).data,
              static_cast<size_t>(from.cols()) * sizeof(float));
}

// Runs one step and puts each row's output where its sequence and position say; without `attend`
// only stores keys and values.
void Step(Backend& backend, Cache& cache, const std::vector<Cache::Part>& parts, Sequences& data,
          bool attend = true) {
  int64_t rows = 0;
  for (const auto& part : parts) rows += part.rows;
  Matrix q(rows, data.q[0].cols(), DType::kF32, 3), k(rows, data.k[0].cols()),
      v(rows, data.k[0].cols());
  int64_t row = 0;
  for (const auto& part : parts) {
    for (int64_t i = 0; i < part.rows; ++i, ++row) {
      const auto s = static_cast<size_t>(part.sequence);
      CopyRow(data.q[s], part.first + i, q, row);
      CopyRow(data.k[s], part.first + i, k, row);
      CopyRow(data.v[s], part.first + i, v, row);
    }
  }
  const AttentionBatch batch = cache.Batch(parts);
  const float scale = 1 / std::sqrt(static_cast<float>(cache.shape().head_dim));
  Matrix out(rows, data.q[0].cols(), DType::kF32, 1);
  backend.WriteKv(k.view(), v.view(), batch, cache.layer());
  if (!attend) return;
  backend.Attention(q.view(), cache.layer(), batch, scale, out.view());
  row = 0;
  for (const auto& part : parts) {
    for (int64_t i = 0; i < part.rows; ++i, ++row) {
      CopyRow(out, row, data.out[static_cast<size_t>(part.sequence)], part.first + i);
    }
  }
}

KvShape Shape(DType dtype, int64_t kv_heads, int64_t head_dim, int64_t block_size = 16) {
  KvShape shape;
  shape.dtype = dtype;
  shape.block_size = block_size;
  shape.kv_heads = kv_heads;
  shape.head_dim = head_dim;
  return shape;
}

class AttentionTest : public KernelTest {
 protected:
  // The reference rounds neither queries nor weights; some classes round both to the cache's type:
  // 2^-9 each in bf16, 2^-12 in f16.
  double Tolerance(DType dtype) const {
    if (!RoundsInputs(*tested_, dtype)) return 3e-6;
    return dtype == DType::kBF16 ? 8e-3 : 1e-3;
  }
  // Whether a slow backend takes this shape: kernels pad heads to 64, 96, 128 or 256, and each of
  // these is tried in each 16-bit type, some with padding and some without.
  static bool OneOfItsKind(DType dtype, int64_t head_dim) {
    if (dtype == DType::kF32) return head_dim == 8 || head_dim == 80;
    if (head_dim == 128 || head_dim == 256) return true;
    return dtype == DType::kBF16 ? head_dim == 8 || head_dim == 96
                                 : head_dim == 64 || head_dim == 80;
  }
  DType QueryType(DType dtype) const { return RoundsInputs(*tested_, dtype) ? dtype : DType::kF32; }
};

TEST_P(AttentionTest, EveryShapeIsNearTheReference) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (int64_t head_dim : {2, 8, 64, 80, 96, 128, 256}) {
      for (int64_t group : {1, 2, 3, 8}) {
        if (dtype != DType::kBF16 && group % 2 == 0) continue;
        if (IsSlow(*tested_) && !(group == 3 && OneOfItsKind(dtype, head_dim))) continue;
        const bool one_head = IsSlow(*tested_) && dtype == DType::kF16;
        const KvShape shape = Shape(dtype, one_head ? 1 : 2, head_dim);
        // Positions across the first tile edge; a second, short sequence beside it.
        const int64_t length = head_dim <= 80 ? 140 : 133;
        Sequences data(2, length, shape, group, QueryType(dtype));
        Sequences expected = data;
        Cache cache(tested_.get(), shape, 2, length), plain(reference_.get(), shape, 2, length);
        // The reference is slow: it computes the rows around the tile edge only.
        const std::vector<Cache::Part> steps[] = {
            {{0, 0, 121}}, {{0, 121, 4}, {1, 0, 5}}, {{1, 5, 1}, {0, 125, length - 125}}};
        for (const auto& step : steps) {
          Step(*tested_, cache, step, data);
          Step(*reference_, plain, step, expected, &step != &steps[0]);
        }
        for (int64_t p = 0; p < 121; ++p) CopyRow(data.out[0], p, expected.out[0], p);
        for (size_t s : {0, 1}) {
          ASSERT_TRUE(Near(data.out[s], expected.out[s], Tolerance(dtype)))
              << DTypeName(dtype) << " head_dim " << head_dim << " group " << group << " sequence "
              << s;
        }
      }
    }
  }
}

TEST_P(AttentionTest, EveryPositionIsNearTheReference) {
  const KvShape shape = Shape(DType::kBF16, 1, 16, 32);
  Sequences data(1, 300, shape, 2, QueryType(shape.dtype));
  Sequences expected = data;
  Cache cache(tested_.get(), shape, 1, 300), plain(reference_.get(), shape, 1, 300);
  Step(*tested_, cache, {{0, 0, 300}}, data);
  Step(*reference_, plain, {{0, 0, 300}}, expected);
  EXPECT_TRUE(Near(data.out[0], expected.out[0], Tolerance(DType::kBF16)));
}

TEST_P(AttentionTest, BitsDoNotDependOnChunksBlocksNeighboursOrThreads) {
  constexpr int64_t kLength = 270;  // over two tile edges
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (int64_t group : {1, 2, 3}) {
      if (dtype == DType::kF32 && group != 2) continue;
      if (IsSlow(*tested_) && dtype == DType::kBF16 && group != 3) continue;
      // The results of a KV head do not depend on the others.
      const int64_t kv_heads = IsSlow(*tested_) ? 1 : 2;
      const KvShape shape = Shape(dtype, kv_heads, 48);
      Sequences whole(3, kLength, shape, group, DType::kF32);
      {
        Cache cache(tested_.get(), shape, 3, kLength);
        for (int64_t s = 0; s < 3; ++s) Step(*tested_, cache, {{s, 0, kLength}}, whole);
      }
      int threads = 1;
      const std::pair<int64_t, int64_t> cases[] = {{1, 16},  {2, 64},   {9, 32},   {16, 16},
                                                   {33, 64}, {50, 128}, {128, 16}, {129, 32}};
      for (const auto& [chunk, block_size] : cases) {
        if (IsSlow(*tested_) && chunk != 9) continue;
        const auto backend = Tested(GetParam(), threads);
        threads = threads % 3 + 1;
        Sequences cut(3, kLength, shape, group, DType::kF32);
        Cache cache(backend.get(), Shape(dtype, kv_heads, 48, block_size), 3, kLength);
        // Three sequences at different distances in one batch.
        int64_t done[3] = {0, 0, 0};
        const int64_t step[3] = {chunk, chunk + 1, 2 * chunk + 3};
        while (done[0] < kLength) {
          std::vector<Cache::Part> parts;
          for (int64_t s : {2, 0, 1}) {
            const int64_t rows = std::min(step[s], kLength - done[s]);
            parts.push_back({s, done[s], rows});
            done[s] += rows;
          }
          Step(*backend, cache, parts, cut);
        }
        for (size_t s : {0, 1, 2}) {
          for (int64_t p = 0; p < kLength; ++p) {
            if (s != 0 && p >= done[s]) break;
            ASSERT_TRUE(SameBits(cut.out[s], p, whole.out[s], p))
                << DTypeName(dtype) << " group " << group << " chunk " << chunk << " blocks of "
                << block_size << " sequence " << s << " position " << p;
          }
        }
      }
    }
  }
}

// Kernels for many rows have shapes of their own: the bits are those of steps of one row.
TEST_P(AttentionTest, ManyRowsGiveTheBitsOfFew) {
  constexpr struct {
    DType dtype;
    int64_t head_dim, group, length, block_size;
  } kCases[] = {{DType::kBF16, 128, 4, 150, 32},
                {DType::kF16, 64, 1, 290, 16},
                {DType::kBF16, 64, 3, 135, 64}};
  for (const auto& c : kCases) {
    const KvShape shape = Shape(c.dtype, c.group == 4 ? 2 : 1, c.head_dim, c.block_size);
    Sequences many(2, c.length, shape, c.group, DType::kF32);
    many.v[1].Each([](float x) { return x * 0x1p-70f; });  // results that are divided with care
    Sequences few = many;
    Cache cache(tested_.get(), shape, 2, c.length);
    Step(*tested_, cache, {{1, 0, 37}, {0, 0, c.length}}, many);
    Step(*tested_, cache, {{1, 37, c.length - 37}}, many);
    for (int64_t p = 0; p < c.length; p += p % 16 == 15 || p > 126 ? 1 : 15) {
      Step(*tested_, cache, {{0, p, 1}, {1, p, 1}}, few);
      for (size_t s : {0, 1})
        ASSERT_TRUE(SameBits(many.out[s], p, few.out[s], p)) << c.head_dim << " " << s << " " << p;
    }
  }
}

TEST_P(AttentionTest, LaterInfinitiesDoNotReachEarlierRows) {
  constexpr struct {
    int64_t head_dim, group, wild, length;
  } kCases[] = {{32, 2, 21, 40}, {128, 4, 21, 40}, {64, 1, 120, 150}};
  for (const auto& c : kCases) {
    const KvShape shape = Shape(DType::kBF16, 1, c.head_dim);
    Sequences calm(1, c.length, shape, c.group, DType::kF32), wild = calm, single = calm;
    for (int64_t p = c.wild; p < c.length; ++p) {
      for (int64_t d = 0; d < c.head_dim; ++d) {
        wild.v[0].set(p, d, d % 3 == 0 ? INFINITY : NAN);
        wild.k[0].set(p, d, d % 2 == 0 ? -INFINITY : NAN);
      }
      // One value of every seventh row.
      if ((p - c.wild) % 7 == 0) single.v[0].set(p, p % c.head_dim, p % 2 == 0 ? INFINITY : NAN);
    }
    Cache a(tested_.get(), shape, 1, c.length), b(tested_.get(), shape, 1, c.length);
    Step(*tested_, a, {{0, 0, c.length}}, calm);
    Step(*tested_, b, {{0, 0, c.length}}, wild);
    for (int64_t p = 0; p < c.wild; ++p) EXPECT_TRUE(SameBits(calm.out[0], p, wild.out[0], p)) << p;
    Step(*tested_, b, {{0, 0, c.length}}, single);
    std::vector<bool> seen(static_cast<size_t>(c.head_dim));
    for (int64_t p = 0; p < c.length; ++p) {
      if (p >= c.wild && (p - c.wild) % 7 == 0) seen[static_cast<size_t>(p % c.head_dim)] = true;
      for (int64_t i = 0; i < c.group * c.head_dim; ++i) {
        const float x = single.out[0].at(p, i), y = calm.out[0].at(p, i);
        ASSERT_TRUE(seen[static_cast<size_t>(i % c.head_dim)] ? !std::isfinite(x) : x == y) << p;
      }
    }
  }
}

TEST_P(AttentionTest, LargeScoresDoNotOverflow) {
  const KvShape shape = Shape(DType::kF32, 1, 16);
  Sequences data(1, 200, shape, 1, DType::kF32);
  data.q[0].Each([](float x) { return x * 1e4f; });
  data.k[0].Each([](float x) { return x * 1e4f; });
  Sequences expected = data;
  Cache cache(tested_.get(), shape, 1, 200), plain(reference_.get(), shape, 1, 200);
  Step(*tested_, cache, {{0, 0, 200}}, data);
  Step(*reference_, plain, {{0, 0, 200}}, expected);
  EXPECT_TRUE(Near(data.out[0], expected.out[0], 1e-5));
}

// A key or value that the cache's type cannot hold makes every row that sees it NaN: as an infinity
// it could have a weight of 0 and be left out without a word.
TEST_P(AttentionTest, WhatTheCacheCannotHoldIsNotLeftOut) {
  const KvShape shape = Shape(DType::kF16, 2, 16);
  for (const bool is_key : {true, false}) {
    Sequences plain(1, 40, shape, 2, QueryType(DType::kF16));
    Cache cache(tested_.get(), shape, 1, 40);
    Step(*tested_, cache, {{0, 0, 40}}, plain);
    Sequences data(1, 40, shape, 2, QueryType(DType::kF16));
    // A number in the second KV head; the largest number of f16 may stay.
    Matrix& large = is_key ? data.k[0] : data.v[0];
    large.set(9, shape.head_dim + 3, 65520);
    large.set(5, shape.head_dim + 3, 65504);
    for (int64_t r = 9; r < 40; ++r) {
      for (int64_t h : {2, 3}) {
        const int64_t at = h * shape.head_dim + 3;
        data.q[0].set(r, at, -std::fabs(data.q[0].at(r, at)) - 0.5f);
      }
    }
    Step(*tested_, cache, {{0, 0, 40}}, data);
    for (int64_t r = 0; r < 40; ++r) {
      for (int64_t i = 0; i < 2 * shape.head_dim; ++i) {
        EXPECT_EQ(data.out[0].at(r, i), plain.out[0].at(r, i)) << "the other head, row " << r;
      }
      for (int64_t h : {2, 3}) {
        // A value is one of the head's elements; a score is of all.
        const int64_t at = h * shape.head_dim;
        EXPECT_EQ(std::isnan(data.out[0].at(r, at + 3)), r >= 9) << "row " << r;
        EXPECT_EQ(std::isnan(data.out[0].at(r, at)), r >= 9 && is_key) << "row " << r;
      }
    }
  }
}

// A key that is no number stands alone in its tile (of 128 slots, or of 32) when a row sees it
// first: a tile without any score that counts is still not a tile without scores.
TEST_P(AttentionTest, ATileOfNothingButNanIsNotLeftOut) {
  constexpr int64_t kAlone[] = {96, 128};
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const KvShape shape = Shape(dtype, 1, 16);
    for (const int64_t alone : kAlone) {
      Sequences data(1, alone + 2, shape, 2, QueryType(dtype));
      for (int64_t d = 0; d < shape.head_dim; ++d) data.k[0].set(alone, d, std::nanf(""));
      Cache cache(tested_.get(), shape, 1, alone + 2);
      // In one step, and each row in a step of its own.
      Step(*tested_, cache, {{0, 0, alone + 2}}, data);
      for (int turn = 0; turn < 2; ++turn) {
        for (int64_t r = alone - 1; r < alone + 2; ++r) {
          for (int64_t i = 0; i < data.out[0].cols(); ++i) {
            ASSERT_EQ(std::isnan(data.out[0].at(r, i)), r >= alone)
                << DTypeName(dtype) << " row " << r << " turn " << turn;
          }
        }
        for (int64_t r = alone - 1; r < alone + 2; ++r) Step(*tested_, cache, {{0, r, 1}}, data);
      }
    }
  }
}

TEST_P(AttentionTest, BlocksMayBeShared) {
  // Two sequences with the same first 32 positions read them from the same blocks.
  const KvShape shape = Shape(DType::kBF16, 1, 32);
  Sequences data(1, 33, shape, 1, DType::kF32);
  Cache cache(tested_.get(), shape, 2, 48);
  Step(*tested_, cache, {{0, 0, 33}}, data);
  const AttentionBatch own = cache.Batch({{0, 32, 1}, {1, 32, 1}});
  std::vector<int32_t> blocks(own.blocks.begin(), own.blocks.end());
  const auto second = static_cast<size_t>(own.block_begin[1]);
  for (size_t i : {0, 1}) blocks[second + i] = blocks[i];
  const AttentionBatch shared = {own.row_begin, own.first_position, own.block_begin, blocks};
  Matrix q(2, 32), k(2, 32), v(2, 32), out(2, 32);
  for (int64_t r : {0, 1}) {
    CopyRow(data.q[0], 32, q, r);
    CopyRow(data.k[0], 32, k, r);
    CopyRow(data.v[0], 32, v, r);
  }
  tested_->WriteKv(k.view(), v.view(), shared, cache.layer());
  tested_->Attention(q.view(), cache.layer(), shared, 1 / std::sqrt(32.0f), out.view());
  EXPECT_TRUE(SameBits(out, 0, data.out[0], 32));
  EXPECT_TRUE(SameBits(out, 1, data.out[0], 32));
}

TEST_P(AttentionTest, NoRowsAndNoSequences) {
  const KvShape shape = Shape(DType::kBF16, 2, 16);
  Cache cache(tested_.get(), shape, 2, 16);
  Matrix none(0, 32);
  const AttentionBatch empty = cache.Batch({});
  tested_->WriteKv(none.view(), none.view(), empty, cache.layer());
  tested_->Attention(none.view(), cache.layer(), empty, 1, none.view());
  const AttentionBatch idle = cache.Batch({{0, 0, 0}, {1, 3, 0}});
  tested_->WriteKv(none.view(), none.view(), idle, cache.layer());
  tested_->Attention(none.view(), cache.layer(), idle, 1, none.view());
}

TEST_P(AttentionTest, CacheBytes) {
  KvShape shape = Shape(DType::kBF16, 8, 128, 32);
  shape.num_blocks = 10;
  EXPECT_EQ(tested_->KvLayerBytes(shape), 10 * 32 * 8 * 128 * 2 * 2);
  if (tested_->name() != "cpu") return;
  shape.head_dim = 80;  // a multiple of 16 is not padded
  EXPECT_EQ(tested_->KvLayerBytes(shape), 10 * 32 * 8 * 80 * 2 * 2);
}

INSTANTIATE_KERNEL_TEST(AttentionTest);

}  // namespace
}  // namespace tutti::kernels
