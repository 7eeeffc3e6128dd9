#include "kernels/cuda/copy_pieces.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::kernels::cuda {
namespace {

TEST(CopyPiecesTest, EveryByteOnceInOrderAndNoPieceTooLarge) {
  for (const int64_t width : {1, 3, 7, 8, 64, 100}) {
    for (const int64_t rows : {0, 1, 2, 5, 17}) {
      for (const int64_t room : {1, 2, 8, 63, 64, 65, 1000, 100'000}) {
        std::vector<int> seen(static_cast<size_t>(width * rows));
        int64_t last = -1;
        ForCopyPieces(width, rows, room, [&](const CopyPiece& piece) {
          EXPECT_GT(piece.rows * piece.width, 0);
          EXPECT_LE(piece.rows * piece.width, room);
          EXPECT_TRUE(piece.rows == 1 || piece.width == width) << "parts of several rows";
          const int64_t first = piece.row * width + piece.offset;
          EXPECT_GT(first, last);
          last = first;
          for (int64_t r = 0; r < piece.rows; ++r) {
            for (int64_t i = 0; i < piece.width; ++i) ++seen.at(first + r * width + i);
          }
        });
        EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << width << " " << rows << " " << room;
      }
    }
  }
}

TEST(CopyPiecesTest, AsFewPiecesAsFit) {
  int pieces = 0;
  ForCopyPieces(8192, 8192, 2 << 20, [&](const CopyPiece&) { ++pieces; });
  EXPECT_EQ(pieces, 32);
}

}  // namespace
}  // namespace tutti::kernels::cuda
