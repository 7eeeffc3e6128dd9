#include "kernels/cuda/exchange_parts.h"

#include <gtest/gtest.h>

namespace tutti::kernels::cuda {
namespace {

TEST(ExchangePartsTest, PartsCoverTheVectorOnceInOrder) {
  for (const int ranks : {2, 4, 8}) {
    for (const int64_t count : {int64_t{1}, int64_t{31}, int64_t{32}, int64_t{33}, int64_t{255},
                                int64_t{65'537}, int64_t{1'000'003}, SliceValuesMax(ranks)}) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Part part = PartOf(count, ranks, rank);
        EXPECT_EQ(part.begin, next);
        EXPECT_GE(part.size, 0);
        EXPECT_LE(part.size, SlotValues(count, ranks));
        EXPECT_TRUE(part.size == 0 || part.begin % kPartMultiple == 0);
        next = part.begin + part.size;
      }
      EXPECT_EQ(next, count) << ranks << " ranks";
    }
  }
}

TEST(ExchangePartsTest, WhatArrivesFitsTheWorkSpace) {
  for (const int ranks : {2, 4, 8}) {
    EXPECT_LE(kWholeValuesMax * ranks * 4, kExchangeWorkBytes);
    const int64_t most = SliceValuesMax(ranks);
    EXPECT_GT(most, kWholeValuesMax);
    for (int64_t count = most; count > most - 100; --count) {
      EXPECT_LE(SlotValues(count, ranks) * ranks * 4, kExchangeWorkBytes) << count;
    }
  }
}

}  // namespace
}  // namespace tutti::kernels::cuda
