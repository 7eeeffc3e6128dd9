// The time that a step takes, predicted: a stage reads its weights and the K/V of its rows from
// memory while it computes on them, so the slower of both counts (the roofline of Williams,
// Waterman and Patterson, 2009); its ranks then wait for each other after every row-parallel
// product.
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>

#include "model/model_config.h"

namespace tutti::placement {

// The speed of one device. 0: unknown.
struct DeviceSpeed {
  double read_bytes_per_second = 0;  // from its own memory
  double flops_per_second = 0;       // matrix products; a multiply-add is two
  bool known() const { return read_bytes_per_second > 0 && flops_per_second > 0; }
};

// For each speed the lower one, or unknown if either is.
DeviceSpeed SlowerOf(const DeviceSpeed& a, const DeviceSpeed& b);
// Speeds within this of the slowest of them are taken for equal where layers are dealt out: equal
// machines that measure well differ by less, and a map must not change with the noise.
inline constexpr double kSameSpeedRatio = 1.15;

// The link between two devices. 0: unknown.
struct LinkSpeed {
  double bytes_per_second = 0;
  double latency_seconds = 0;  // of one message, from send to receive
  bool known() const { return bytes_per_second > 0; }
};

// Speeds for choosing between placements where nothing was measured: the same everywhere, so that
// only the ratios count. An accelerator of 1 TB/s and 100 Tflop/s; 10 Gbit/s and 50 us, the time of
// a message through our own transport. Never shown as a prediction.
inline constexpr DeviceSpeed kNominalSpeed = {1e12, 1e14};
inline constexpr LinkSpeed kNominalLink = {1.25e9, 50e-6};

// A step, as a stage sees it.
struct StepLoad {
  double rows = 1;
  double depth = 0;       // tokens each row attends to
  double kv_tokens = -1;  // whose K/V is read; negative: depth for each row, as in decode
  double sampled = -1;    // rows that become logits; negative: all, as in decode
};

// The work of the largest rank of a stage in a step. Per layer unless said otherwise.
struct StepCost {
  double head_bytes = 0;  // read once a step, regardless of the rows
  double head_flops = 0;  // per row that is sampled
  double layer_bytes = 0;
  double layer_flops = 0;          // per row
  double expert_bytes = 0;         // of one expert of a mixture; layer_bytes is without them
  double experts = 0;              // this many of which
  double experts_per_row = 0;      // are read for a row
  double kv_bytes = 0;             // per row and token of depth
  double attention_flops = 0;      // per row and token of depth
  double collective_bytes = 0;     // one rank sends per row
  double collective_messages = 0;  // one after another
  double hop_bytes = 0;  // per row to the next stage, regardless of the layers; 0: the last
};

// REQUIRES: `model` takes `ranks` ranks (CheckRanks)
StepCost StepCostOf(const model::ModelConfig& model, int ranks, bool has_head, bool is_last);

// Seconds one stage of `layers` layers takes for one step.
double StageSeconds(const StepCost& cost, double layers, const StepLoad& load,
                    const DeviceSpeed& speed, const LinkSpeed& link);

// Seconds an activation of `rows` rows is on its way to the next stage.
double HopSeconds(const StepCost& cost, double rows, const LinkSpeed& link);

}  // namespace tutti::placement
