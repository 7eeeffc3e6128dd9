// Which matrices of a model are quantised, and how: a format for each role and layer. Published
// checkpoints leave some layers or roles as they were, or have a finer format for them.
//
// Thread: a value; any.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "model/quant_config.h"
#include "model/weight_rule.h"

namespace tutti::model {

// Roles as checkpoints that say no more have them, bits by number: the matrices of attention, MLPs
// and experts.
uint32_t UsualQuantisedRoles();

class QuantFormats {
 public:
  // No matrix is quantised.
  QuantFormats() = default;
  // `said`: the formats that matrices may have, by config.json. Until tensors tell which have
  // (FindQuantisedRoles), those of `roles` (bits by number) have the first, in all layers.
  QuantFormats(std::vector<QuantConfig> said, uint32_t roles);

  bool empty() const { return said_.empty(); }
  const std::vector<QuantConfig>& said() const { return said_; }
  // Null: such a matrix is not quantised. `layer`: -1 for one that is not of a layer.
  const QuantConfig* Find(Role role, int64_t layer) const;
  // Whether matrices of the two layers have the same formats.
  bool Alike(int64_t layer, int64_t other) const { return RowOf(layer) == RowOf(other); }
  // Whether some matrix is quantised.
  bool any() const;

  // For who has seen the tensors: from now on no matrix has a format that Put has not given it.
  void Clear(int64_t num_layers);
  // The number of a format, which is added where it is new. 0 is none.
  uint8_t NumberOf(const QuantConfig& format);
  const QuantConfig* ByNumber(uint8_t number) const;
  void Put(Role role, int64_t layer, uint8_t number);

 private:
  using Row = std::array<uint8_t, static_cast<size_t>(Role::kHead) + 1>;  // numbers by role
  const Row& RowOf(int64_t layer) const;

  std::vector<QuantConfig> said_;
  std::vector<QuantConfig> formats_;
  Row taken_{};            // of all layers
  std::vector<Row> rows_;  // of what is in no layer, then layer by layer; empty: taken_
};

// The formats for people: "GPTQ int4, groups of 128" where all matrices of layers have it, else
// layer by layer.
std::string DescribeFormats(const QuantFormats& formats, int64_t num_layers);

}  // namespace tutti::model
