// The bounds of histograms, which are vLLM's, so that its dashboards and rules fit.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti::metrics {

// Seconds to the first token.
inline const std::vector<double>& FirstTokenBounds() {
  static const std::vector<double> bounds = {.001, .005, .01, .02, .04, .06, .08, .1,
                                             .25,  .5,   .75, 1,   2.5, 5,   7.5, 10,
                                             20,   40,   80,  160, 640, 2560};
  return bounds;
}
// Seconds from token to token.
inline const std::vector<double>& GapBounds() {
  static const std::vector<double> bounds = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                             .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
  return bounds;
}
// Seconds of a request, or of a part of it.
inline const std::vector<double>& RequestBounds() {
  static const std::vector<double> bounds = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                             30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
  return bounds;
}
// Outputs of a request.
inline const std::vector<double>& OutputsBounds() {
  static const std::vector<double> bounds = {1, 2, 5, 10, 20};
  return bounds;
}
// Times that an output was sent back to waiting.
inline const std::vector<double>& PreemptionsBounds() {
  static const std::vector<double> bounds = {1, 2, 3, 4, 5, 10, 20};
  return bounds;
}
// Tokens that one step computes.
inline const std::vector<double>& StepTokensBounds() {
  static const std::vector<double> bounds = {1,   8,    16,   32,   64,   128,  256,
                                             512, 1024, 2048, 4096, 8192, 16384};
  return bounds;
}
// Tokens: 1, 2, 5, 10, … up to `most`.
inline std::vector<double> TokenBounds(int64_t most) {
  std::vector<double> bounds;
  for (int64_t decade = 1; decade <= most; decade *= 10) {
    for (const int64_t step : {1, 2, 5}) {
      if (step * decade <= most) bounds.push_back(static_cast<double>(step * decade));
    }
  }
  return bounds;
}

}  // namespace tutti::metrics
