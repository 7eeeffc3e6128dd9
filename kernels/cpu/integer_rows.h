// Rows of a product as integers (kernels/row_integers.h), laid out the way its kernel reads them.
//
//   tiles of kTileRows  as rows of numbers lie (pack_rows.h), a pair of k being a word of two
//                       integers of 16 bits: [tile][strip][pair][row]
//   AMX's tiles         [16 rows][strip][64 inputs][row][64], a byte each, in the order in which a
//                       line of codes has them: of four inputs 0, 2, 1, 3
//
// What a strip lacks are zeros.
//
// Thread: the backend's; PackTile: any, each tile once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/growing_memory.h"
#include "kernels/cpu/kernel_table.h"

namespace tutti::kernels::cpu {

class IntegerRows {
 public:
  // `largest`: of the rows, as parts of longer ones; empty: they are whole.
  // REQUIRES: the memory of job.rows.packed_in
  void Begin(const QuantisedJob& job, std::span<const float> largest, bool as_tiles);
  int64_t tiles() const { return (job_.rows.rows + tile_rows_ - 1) / tile_rows_; }
  // Of PackTile's room.
  int64_t RoomFloats() const;
  void PackTile(int64_t tile, float* room);
  // With what the rows stand for, when all tiles are packed.
  const QuantisedJob& job() const { return job_; }

 private:
  // Rows [first, first + rows) as integers [rows][inputs].
  void Round(int64_t first, int64_t rows, int16_t* integers);
  void PackWords(int64_t tile, int16_t* integers);
  void PackBytes(int64_t tile, int16_t* integers);
  int64_t inputs() const { return job_.rows.leaf_begin[job_.rows.leaves]; }

  QuantisedJob job_ = {};
  std::span<const float> largest_;
  bool as_tiles_ = false;
  int64_t tile_rows_ = 1;
  Scratch scales_, sums_;
};

}  // namespace tutti::kernels::cpu
