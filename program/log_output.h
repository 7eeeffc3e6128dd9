// Lines of a log on their way to a descriptor that may not take them: a pipe that nobody reads, a
// disk that is full or slow. Whoever writes a line does not wait for that; a thread of this class
// does (docs/decisions/0062-logs-wait-for-nobody.md).
//
//   * Lines wait in a queue of bounded bytes. When it is full, the oldest go.
//   * Those that went, or could not be written, are counted; a line in their place says how many.
//   * At the end what waits is written, for as long as `last_words` at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"

namespace tutti {

class LogOutput {
 public:
  struct Options {
    int fd = 2;  // stays open as long as the process
    // Some thousand lines: what a process says in its worst minute.
    size_t queued_bytes_max = size_t{1} << 20;
    // A process that is told to end is gone soon, whether its log is read or not.
    Duration last_words = std::chrono::milliseconds(500);
    // After a write that failed, the next attempt comes so much later.
    Duration retry_after = std::chrono::seconds(1);
  };
  // The line, with its end, that says that so many lines are missing.  Thread: this class's own;
  // may be called after the destructor was, so it owns what it uses.
  using Notice = std::function<std::string(int64_t)>;

  LogOutput(Options options, Notice notice);
  // Ends the thread, or leaves it alone when it hangs in a write after `last_words`.
  ~LogOutput();

  // Takes a line with its end. Never waits for the descriptor.  Thread: any.
  void Write(std::string line);
  // Waits until everything is written, until writes fail, or for `patience`; whether all was.
  // Thread: any.
  bool Flush(Duration patience);

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // the thread's too
};

}  // namespace tutti
