// Choices that cost or save time and change no bit: how far ahead weights are fetched, how large
// the pieces are that stay in a cache. The best value depends on the processor, so none is fixed by
// where it was measured first: each is a knob, which worker/kernel_tuner.h sets by measurement.
//
// The contract: any value of any knob, set between any two operators, leaves every bit of every
// result as it is (kernels/tunable_test.cc tries them all). What could change a bit is part of a
// numerics class and no knob.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tutti::kernels {

struct Knob {
  std::string_view name;            // unique in its backend, without blanks, '=' and ','
  std::string_view effect;          // what it does to bytes and time, a line for people
  std::span<const int64_t> values;  // all that it takes, `usual` among them
  int64_t usual = 0;                // where nothing was measured
  // Rows of a product whose time shows the difference; it holds for others too.
  int64_t rows = 1;
};

// Implemented by backends that have knobs (Backend::tunable).
//
// Thread: the one that calls the backend's operators, between two of them.
class Tunable {
 public:
  virtual ~Tunable() = default;

  // In the order in which they should be set: later ones are best measured with the earlier ones
  // set. Valid as long as the backend.
  virtual std::span<const Knob> knobs() const = 0;
  virtual int64_t knob_value(size_t knob) const = 0;
  // REQUIRES: knob < knobs().size(), and `value` is one of its values
  virtual void SetKnob(size_t knob, int64_t value) = 0;

  // All that the best values depend on, in one word: processor, instructions, threads.
  virtual std::string TunedFor() const = 0;
};

}  // namespace tutti::kernels
