// The place of this process in a group of a LeaderWorkerSet (Kubernetes), as its controller's
// variables of the environment tell it: defaults for what is not given by flags.
//
// Thread: any, while nobody sets variables.
#pragma once

#include <string>

namespace tutti {

inline constexpr char kGroupLeaderVariable[] = "LWS_LEADER_ADDRESS";
inline constexpr char kGroupIndexVariable[] = "LWS_WORKER_INDEX";
inline constexpr char kGroupSizeVariable[] = "LWS_GROUP_SIZE";

// Not checked yet; each is empty where its variable is not set.
struct GroupPlace {
  std::string leader;  // the name of its first pod, where the coordinator is
  std::string index;   // of this pod, from 0 on
  std::string size;    // how many pods there are
};

GroupPlace PlaceInGroup();

}  // namespace tutti
