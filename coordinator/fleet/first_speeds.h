// The speeds of workers as they first were: one that comes back measured again, while others may
// have computed, and layers must not move for that.
//
// Pure.  Thread: the engine's.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "placement/step_cost.h"
#include "proto/peer_messages.h"

namespace tutti::coordinator {

class FirstSpeeds {
 public:
  struct Speeds {
    std::map<std::string, placement::DeviceSpeed> by_class;
    double others_share = 0;  // of the worker's machine, while they were measured
  };

  // Those by which a worker that joins counts: what it told first, while its device and number of
  // threads are the same; what it tells now where others have less of its machine than at first.
  Speeds Of(const v1::Hello& hello);

 private:
  struct First {
    std::string device;
    uint32_t threads = 0;
    Speeds speeds;
  };
  std::map<std::string, First> first_;  // by worker id; at most kDeviceNumbersMax
};

}  // namespace tutti::coordinator
