// Clients that behave: each asks the same questions over and over, and notes how long it waits and
// whether an answer ever differs from the first one to the same question.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "client/client.h"
#include "client/load/histogram.h"

namespace tutti::tests {

// Figures of all innocents together.
struct InnocentReport {
  int64_t answers = 0;
  int64_t failures = 0;
  int64_t different = 0;  // answers of which a token or a bit of a log-probability changed
  double total_p50_ms = 0;
  double total_p99_ms = 0;  // of whole answers
  double first_p99_ms = 0;  // until the first token
  double gap_max_ms = 0;    // between two messages of a stream, or before the first
  std::vector<std::string> first_failures;
};

// Thread: the owner's.
class Innocents {
 public:
  // REQUIRES: `clock` outlives this
  Innocents(std::string address, int clients, const Clock* clock);

  // Asks for that long and returns what was seen. Answers are remembered from call to call.
  InnocentReport Run(Duration how_long);

 private:
  // One question and the parameters of its sampling.
  struct Question {
    v1::GenerateRequest request;
    std::string name;
  };
  struct Notes;

  void AskUntil(Instant end, int client, Notes* notes);
  // Whether it equals the first answer to that question.
  bool IsAsBefore(const std::string& question, const std::string& answer);

  const std::string address_;
  const int clients_;
  const Clock* const clock_;
  std::vector<Question> questions_;
  Mutex mutex_;
  std::map<std::string, std::string> answers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::tests
