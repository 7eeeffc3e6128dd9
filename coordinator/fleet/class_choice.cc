#include "coordinator/fleet/class_choice.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tutti::coordinator {
namespace {

// A class is said to be quicker from here on; less is within what the measurement varies by.
constexpr double kClassGainTold = 1.05;
// Up to here one class is as quick as another. Machines are measured when they start, and a choice
// by what a measurement varies by would be another one after the next start: other bits.
constexpr double kClassLevel = 1.25;
// Workers named in one line; the others are counted.
constexpr size_t kClassNamesShown = 8;

// The workers' word about one class.
struct Standing {
  size_t able = 0;
  size_t last = 0;   // workers that computed in it last
  size_t first = 0;  // workers whose best it is
  double flops = 0;  // of all that are able
  bool flops_known = true;
  bool inexact = false;
};

const ClassOffer* FindOffer(const ClassCandidate& worker, const std::string& numerics_class) {
  const auto found =
      std::find_if(worker.offers.begin(), worker.offers.end(),
                   [&](const ClassOffer& offer) { return offer.numerics_class == numerics_class; });
  return found == worker.offers.end() ? nullptr : &*found;
}

std::map<std::string, Standing> StandingsOf(const std::vector<ClassCandidate>& workers) {
  std::map<std::string, Standing> standings;
  for (const ClassCandidate& worker : workers) {
    for (const ClassOffer& offer : worker.offers) {
      Standing& standing = standings[offer.numerics_class];
      ++standing.able;
      standing.flops += offer.flops_per_second;
      standing.flops_known &= offer.flops_per_second > 0;
      standing.inexact |= offer.inexact;
      standing.last += offer.numerics_class == worker.last ? 1 : 0;
    }
    ++standings[worker.offers.front().numerics_class].first;
  }
  return standings;
}

// "w0, w1", or "w0, w1 and 14 more".
std::string Names(const std::vector<std::string>& ids) {
  if (ids.size() <= kClassNamesShown) return absl::StrJoin(ids, ", ");
  return absl::StrCat(
      absl::StrJoin(ids.begin(), ids.begin() + static_cast<int64_t>(kClassNamesShown), ", "),
      " and ", ids.size() - kClassNamesShown, " more");
}

std::vector<std::string> Unable(const std::vector<ClassCandidate>& workers,
                                const std::string& numerics_class) {
  std::vector<std::string> ids;
  for (const ClassCandidate& worker : workers) {
    if (FindOffer(worker, numerics_class) == nullptr) ids.push_back(worker.worker_id);
  }
  return ids;
}

// "1.6 times as quick at prompts in cpu-bf16dot"; empty: no quicker in any class than in `chosen`.
std::string Gain(const ClassCandidate& worker, const ClassOffer& chosen, std::string* better) {
  const ClassOffer* best = &chosen;
  for (const ClassOffer& offer : worker.offers) {
    if (offer.flops_per_second > best->flops_per_second) best = &offer;
  }
  if (chosen.flops_per_second <= 0) {
    best = &worker.offers.front();
    if (best->numerics_class == chosen.numerics_class) return "";
    *better = best->numerics_class;
    return absl::StrCat("better in ", *better);
  }
  const double ratio = best->flops_per_second / chosen.flops_per_second;
  if (ratio < kClassGainTold) return "";
  *better = best->numerics_class;
  return absl::StrFormat("about %.1f times as quick at prompts in %s", ratio, *better);
}

std::string CostOf(const std::vector<ClassCandidate>& workers, const std::string& chosen) {
  std::vector<std::pair<std::string, std::vector<std::string>>> gains;  // who would gain what
  std::map<std::string, std::string> better;
  for (const ClassCandidate& worker : workers) {
    const ClassOffer* const offer = FindOffer(worker, chosen);
    if (offer == nullptr) continue;
    std::string in;
    const std::string gain = Gain(worker, *offer, &in);
    if (gain.empty()) continue;
    better[gain] = in;
    const auto found = std::find_if(gains.begin(), gains.end(),
                                    [&](const auto& known) { return known.first == gain; });
    if (found == gains.end()) {
      gains.push_back({gain, {worker.worker_id}});
    } else {
      found->second.push_back(worker.worker_id);
    }
  }
  std::vector<std::string> parts;
  for (const auto& [gain, ids] : gains) {
    const std::vector<std::string> unable = Unable(workers, better[gain]);
    parts.push_back(absl::StrCat(
        Names(ids), " would be ", gain,
        unable.empty() ? "" : absl::StrCat(", which ", Names(unable), " cannot compute")));
  }
  if (const std::vector<std::string> unable = Unable(workers, chosen); !unable.empty()) {
    parts.push_back(absl::StrCat(Names(unable), " cannot compute it"));
  }
  return absl::StrJoin(parts, "; ");
}

// The classes with these standings that may be chosen: what most computed in last, as
// answers may have been begun in it, and who comes new does not outvote them; else what most can
// compute.
void KeepEligible(std::map<std::string, Standing>* standings) {
  size_t last = 0, able = 0;
  for (const auto& [name, standing] : *standings) last = std::max(last, standing.last);
  std::erase_if(*standings, [&](const auto& entry) { return entry.second.last < last; });
  for (const auto& [name, standing] : *standings) able = std::max(able, standing.able);
  std::erase_if(*standings, [&](const auto& entry) { return entry.second.able < able; });
}

}  // namespace

std::string InexactText(const std::string& numerics_class) {
  return absl::StrCat(numerics_class,
                      " is not exact (bits depend on the rows computed side by side), so it serves "
                      "only where the coordinator is started with --numerics-class ",
                      numerics_class);
}

std::string OperatorsWord(bool inexact) {
  return absl::StrCat("the operator's word (--numerics-class)",
                      inexact ? "; not exact: what is computed again may differ" : "");
}

ClassChoice ChooseClass(const std::vector<ClassCandidate>& workers, const std::string& kept) {
  ClassChoice choice;
  if (workers.empty()) return choice;
  std::map<std::string, Standing> standings = StandingsOf(workers);
  choice.was_open = standings.size() > 1;
  std::erase_if(standings, [&](const auto& entry) {
    if (entry.second.inexact) choice.why = InexactText(entry.first);
    return entry.second.inexact;
  });
  if (standings.empty()) return choice;
  KeepEligible(&standings);
  bool by_speed = true;
  double quickest = 0;
  for (const auto& [name, standing] : standings) {
    by_speed &= standing.flops_known;
    quickest = std::max(quickest, standing.flops);
  }
  const auto key = [&](const std::string& name, const Standing& standing) {
    const bool is_quick = !by_speed || standing.flops * kClassLevel >= quickest;
    return std::make_tuple(name == kept, is_quick, standing.first);
  };
  const Standing* best = nullptr;
  for (const auto& [name, standing] : standings) {
    if (best != nullptr && key(name, standing) <= key(choice.numerics_class, *best)) continue;
    choice.numerics_class = name;
    best = &standing;
  }
  const size_t able = best->able;
  const std::string all = able < workers.size()
                              ? absl::StrCat("most workers, ", able, " of ", workers.size(), ",")
                          : able == 1 ? "the only worker"
                                      : absl::StrCat("all ", able, " workers");
  if (best->last > 0) {
    choice.why = absl::StrCat(best->last, best->last == 1 ? " worker" : " workers",
                              " computed in it last, and answers may have been begun in it");
  } else if (standings.size() == 1) {
    choice.why = absl::StrCat("the only one that ", all, " can compute");
  } else if (choice.numerics_class == kept) {
    choice.why = absl::StrCat("kept of those that ", all,
                              " can compute, because answers may have been begun in it");
  } else {
    const bool is_quickest = by_speed && best->flops == quickest;
    choice.why =
        absl::StrCat(is_quickest ? "the quickest of those that " : "the best of those that ", all,
                     " can compute");
  }
  choice.cost = CostOf(workers, choice.numerics_class);
  return choice;
}

std::string CostNow(std::vector<ClassCandidate> workers, const std::string& serving) {
  std::vector<std::string> parts;
  if (std::string cost = CostOf(workers, serving); !cost.empty()) parts.push_back(std::move(cost));
  for (ClassCandidate& one : workers) one.last.clear();
  const std::string anew = ChooseClass(workers, "").numerics_class;
  if (!anew.empty() && anew != serving && Unable(workers, anew).empty()) {
    parts.push_back(absl::StrCat("chosen anew it would be ", anew,
                                 ", which all can compute: restart the coordinator with "
                                 "--numerics-class ",
                                 anew, " when no answer begun in ", serving, " need go on"));
  }
  return absl::StrJoin(parts, "; ");
}

std::string AdviceFor(const ClassCandidate& worker, const std::vector<ClassCandidate>& others,
                      const std::string& serving) {
  std::vector<ClassCandidate> all = others;
  all.push_back(worker);
  // The classes that they could compute, whatever they did last.
  for (ClassCandidate& one : all) one.last.clear();
  if (const ClassOffer& first = worker.offers.front(); first.inexact) {
    return InexactText(first.numerics_class);
  }
  const ClassChoice choice = ChooseClass(all, "");
  if (FindOffer(worker, choice.numerics_class) != nullptr &&
      Unable(all, choice.numerics_class).empty()) {
    return absl::StrCat("it can compute in ", choice.numerics_class,
                        ", as all the others can: start the coordinator with --numerics-class ",
                        choice.numerics_class);
  }
  return absl::StrCat("it has no class in common with all workers that serve in ", serving,
                      ": give it a coordinator of its own, or allow mixing with --mix-numerics");
}

}  // namespace tutti::coordinator
