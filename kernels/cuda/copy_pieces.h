// Cuts a copy of rows into pieces that fit a buffer through which they pass. A plain function.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tutti::kernels::cuda {

// Bytes [offset, offset + width) of rows [row, row + rows).
struct CopyPiece {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t offset = 0;
  int64_t width = 0;
};

// Calls take(piece) for pieces of at most `room` bytes that cover `rows` rows of `width` bytes
// once, in order.  REQUIRES: width > 0, room > 0
template <class Fn>
void ForCopyPieces(int64_t width, int64_t rows, int64_t room, const Fn& take) {
  const int64_t part = std::min(width, room);
  const int64_t together = std::max<int64_t>(1, room / width);
  for (int64_t row = 0; row < rows; row += together) {
    for (int64_t offset = 0; offset < width; offset += part) {
      take(CopyPiece{.row = row,
                     .rows = std::min(together, rows - row),
                     .offset = offset,
                     .width = std::min(part, width - offset)});
    }
  }
}

}  // namespace tutti::kernels::cuda
