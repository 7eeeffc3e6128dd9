// Capabilities of a terminal, and signals as calls.
#pragma once

#include <signal.h>

#include <functional>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"

namespace tutti::client {

// Whether `fd` is a terminal that a person watches.
bool IsTerminal(int fd);

// Of the terminal at `fd`; 0: not known.
int TerminalColumns(int fd);

// Colours for one stream: plain text unless the stream is a terminal and NO_COLOR is unset or
// empty.
class Style {
 public:
  explicit Style(int fd);

  std::string Bold(absl::string_view text) const { return Wrap("1", text); }
  std::string Red(absl::string_view text) const { return Wrap("31", text); }
  std::string Green(absl::string_view text) const { return Wrap("32", text); }
  std::string Yellow(absl::string_view text) const { return Wrap("33", text); }

 private:
  std::string Wrap(absl::string_view code, absl::string_view text) const;

  bool enabled_;
};

// One line on stderr that is redrawn in place on a terminal and written as it changes elsewhere.
//
// Thread: one.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { Clear(); }

  // Shows `text` (one line). Elsewhere than on a terminal, `milestone` says which texts are worth a
  // line of their own: one is written when it differs from the last.
  void Show(absl::string_view text, absl::string_view milestone);
  // Removes the line, so that something else can be printed.
  void Clear();

 private:
  const bool terminal_;
  bool shown_ = false;
  std::string last_milestone_;
};

// SIGINT, SIGTERM and SIGHUP while an object lives: each calls `on_signal`, on a thread of the
// watcher, with the number of signals so far: a second Ctrl-C can end the program at once.
//
// REQUIRES: made while the process has one thread, so that threads made later do not receive
// the signals themselves.
class InterruptWatcher {
 public:
  using OnSignal = std::function<void(int signal, int count)>;
  explicit InterruptWatcher(OnSignal on_signal);
  ~InterruptWatcher();
  InterruptWatcher(const InterruptWatcher&) = delete;
  InterruptWatcher& operator=(const InterruptWatcher&) = delete;

 private:
  void Watch();

  const OnSignal on_signal_;
  sigset_t old_mask_;
  int signal_fd_;
  int stop_fd_;
  std::thread thread_;
};

}  // namespace tutti::client
