// A worker's place in a stage.
#pragma once

namespace tutti::worker {

// The rank of a stage, of how many.
struct RankPlace {
  int ranks = 1;
  int rank = 0;
};

}  // namespace tutti::worker
