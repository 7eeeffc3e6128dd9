// When the numerics class is chosen, when it is settled, and when it is open again.
//
// Pipelines form at once, in the best class of those that are there. Who joins within the settling
// time may change the class as long as no stream lives: pipelines then form anew. So the class is a
// function of all that joined within that time, whoever came first.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"
#include "coordinator/fleet/fleet.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

void Fleet::OpenClass(const ClassUse& use, Instant now) {
  if (!membership_.chooses_class()) return;
  class_due_ = true;
  if (membership_.size() > 0 && !membership_.class_settled()) return;
  if (membership_.class_settled() && (use.formed || use.live)) return;
  if (membership_.class_settled()) class_kept_ = membership_.numerics_class();
  membership_.SettleClass(false);
  class_opened_at_ = now;
}

bool Fleet::UpdateClass(const ClassUse& use, Instant now, std::vector<Action>* actions) {
  class_due_ = false;
  class_settles_at_ = kInstantNever;
  if (membership_.class_settled() || membership_.size() == 0) return false;
  const std::string before = membership_.numerics_class();
  const bool first_decides = TUTTI_FAIL_POINT("coordinator.first_decides_class");
  // Streams go on in their class, also while nothing has formed that could compute it.
  const bool stays =
      !before.empty() && ((use.formed && use.live) || use.begun_in == before || first_decides);
  if (!stays) membership_.ChooseClass(use.begun_in.empty() ? class_kept_ : use.begun_in);
  const Instant quiet_at = ClassQuietAt();
  // A pipeline that has not formed may need whoever comes next.
  const bool goes_on = !use.begun_in.empty() && use.begun_in == membership_.numerics_class();
  const bool settles = first_decides || goes_on || (use.formed && (stays || now >= quiet_at));
  membership_.SettleClass(settles);
  if (use.formed && !settles) class_settles_at_ = quiet_at;
  const bool changed = before != membership_.numerics_class();
  const ClassChoice& choice = membership_.class_choice();
  const std::string text = absl::StrCat("numerics class ", choice.numerics_class, ": ", choice.why,
                                        choice.cost.empty() ? "" : absl::StrCat("; ", choice.cost));
  if (choice.was_open && (settles || (use.formed && changed)) && text != class_told_) {
    class_told_ = text;
    actions->push_back(Notice{text});
  }
  may_form_ |= changed;
  return use.formed && changed;
}

Instant Fleet::ClassQuietAt() const {
  return std::min(members_changed_at_ + kJoinQuiet, class_opened_at_ + kJoinWaitMax);
}

std::vector<LostWorker> Fleet::FindUnable() {
  std::vector<LostWorker> unable;
  if (!membership_.class_settled()) return unable;
  for (const Worker* worker : membership_.All()) {
    if (membership_.CanCompute(*worker)) continue;
    unable.push_back({worker->link, membership_.CheckClass(worker->hello)});
  }
  return unable;
}

}  // namespace tutti::coordinator
