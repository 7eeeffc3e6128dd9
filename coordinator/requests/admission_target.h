// A pipeline as admission sees it: a scheduler that sequences are bound to, and how fast prompts
// are computed there.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/sequence.h"
#include "coordinator/steps/scheduler.h"
#include "coordinator/steps/step_rate.h"

namespace tutti::coordinator {

struct AdmissionTarget {
  Scheduler* scheduler = nullptr;  // its epoch is open exactly while the pipeline serves
  const StepRate* rate = nullptr;
  const bool* accepting = nullptr;  // false: it retires, and others take what is new; null: true
  const std::string* numerics = nullptr;  // the class it computes in; null: that of all
  const bool* exact = nullptr;            // false: what is computed again may differ; null: true

  bool serving() const { return scheduler->kv_slots() > 0; }
  bool takes_new() const { return serving() && (accepting == nullptr || *accepting); }
  // Whether it computes the bits that the sequence has begun with.
  bool Continues(const Sequence& sequence) const {
    return sequence.numerics.empty() || numerics == nullptr || *numerics == sequence.numerics;
  }
  // Whether the sequence, alone there, could ever run to its end.
  bool CanHold(const Sequence& sequence) const {
    return serving() && scheduler->kv_slots() >= sequence.kv_slots_max() && Continues(sequence);
  }
  int32_t sequences() const { return scheduler->running() + scheduler->waiting(); }
};

}  // namespace tutti::coordinator
