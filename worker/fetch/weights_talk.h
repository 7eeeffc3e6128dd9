// Questions to the coordinator about its checkpoint, and their answers, over weights links that are
// dialled anew when they break: what has been answered is not asked again.
//
// Thread: one, which may wait.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "proto/peer_messages.h"
#include "transport/link.h"
#include "worker/fetch/weights_link.h"
#include "worker/links/backoff.h"

namespace tutti::worker {

// Whether to go on, asked several times a second. An error ends the exchange.
using KeepOn = std::function<absl::Status()>;

class WeightsTalk {
 public:
  struct Options {
    transport::Dialer* dialer = nullptr;
    std::vector<std::string> addresses;  // of coordinators; one leads
    v1::Hello hello;                     // about this worker
    const Clock* clock = nullptr;
  };
  // REQUIRES: dialer and clock outlive this
  explicit WeightsTalk(Options options);

  // How an answer was taken: it is right; or it is wrong, and shall be asked for again.
  enum class Taken { kYes, kAskAgain };
  struct Exchange {
    size_t count = 0;  // of questions
    std::function<v1::Frame(size_t number)> question;
    // An error ends the exchange; INVALID_ARGUMENT if it is no answer to that question.
    std::function<absl::StatusOr<Taken>(size_t number, const WeightsLink::Answer&)> take;
  };
  // Asks all questions, kFetchWindow at a time, until each is answered. UNAVAILABLE: nothing was
  // answered for `patience`, nor said that an answer waits for its turn, and why.
  absl::Status Run(const Exchange& exchange, Duration patience, const KeepOn& keep_on);

  // Ends the link: the next exchange dials again.
  void HangUp() { link_.reset(); }

  // The source of the last answer.
  const std::string& address() const { return options_.addresses[at_]; }

 private:
  absl::Status AskAll(const Exchange& exchange, Duration patience, const KeepOn& keep_on);
  void Lose(const absl::Status& why);
  void Dial();

  const Options options_;
  size_t at_ = 0;  // of addresses
  std::unique_ptr<WeightsLink> link_;
  bool answered_ = false;  // the link has answered something
  Backoff backoff_;
  Instant next_dial_{};
  Instant next_log_{};
  absl::Status lost_;  // why the last link ended
};

}  // namespace tutti::worker
