// The place of a sequence among those that have rows in turn (row_turns.h).
#pragma once

#include "coordinator/steps/member_line.h"

namespace tutti::coordinator {

struct RequestTurns;
struct Sequence;

struct RowTurn {
  RequestTurns* of = nullptr;  // those of its request; null: it does not run
  bool waits = false;          // in that line
  MemberLinks<Sequence> links;
};

}  // namespace tutti::coordinator
