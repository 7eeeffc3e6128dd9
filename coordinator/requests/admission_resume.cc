// Answers that go on after they broke off: what is checked of them, and the streams that they take
// over.
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"
#include "coordinator/requests/admission.h"

namespace tutti::coordinator {

absl::Status TakenOver() {
  return absl::AbortedError(
      "the same request came again over another call, which goes on with its answer");
}

bool Admission::AnyLives(std::string* numerics) const {
  bool any = false;
  for (const Sequence* sequence : requests_.All()) {
    any |= sequence->pipeline >= 0;
    if (sequence->numerics.empty()) continue;
    *numerics = sequence->numerics;
    return true;
  }
  return any;
}

// Another class would compute other bits. One that does not serve yet may be of any.
absl::Status Admission::CheckNumerics(const Request& request) const {
  if (request.numerics.empty()) return absl::OkStatus();
  for (const AdmissionTarget& target : targets_) {
    // True of one that is gone as well: it returns as what it was.
    const bool inexact = target.exact != nullptr && !*target.exact;
    if (!inexact || request.allow_inexact || *target.numerics != request.numerics) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("resume: the answer was begun in the numerics class ", request.numerics,
                     ", which is not exact: its rest may differ from what would have come; say "
                     "resume.allow_inexact to go on all the same, or ask anew"));
  }
  std::string here;
  for (const AdmissionTarget& target : targets_) {
    if (!target.serving() || target.numerics == nullptr) return absl::OkStatus();
    if (*target.numerics == request.numerics) return absl::OkStatus();
    if (TUTTI_FAIL_POINT("coordinator.class_not_pinned")) return absl::OkStatus();
    here = *target.numerics;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("resume.token: the answer was begun in the numerics class ", request.numerics,
                   "; here it would go on in ", here, ", which computes other bits"));
}

// Where the output still runs here, its tokens are known; where it goes on itself and is computed
// again, not all of them yet.
absl::Status Admission::CheckOutput(const Request& request, int64_t output) const {
  const Sequence* const running = requests_.Find(request.replaces);
  if (running == nullptr) return absl::OkStatus();
  const auto said = std::span<const TokenId>(running->tokens)
                        .subspan(static_cast<size_t>(running->prompt_tokens));
  for (size_t i = 0; i < request.output.size(); ++i) {
    if (i < said.size() ? said[i] == request.output[i] : running->request.resumes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("resume.outputs[", output, "].ids[", i, "] is ", request.output[i],
                     i < said.size() ? absl::StrCat(", the model said ", said[i])
                                     : std::string(", so much has not been said yet")));
  }
  return absl::OkStatus();
}

absl::Status Admission::TakeOver(const RequestArrived& event, const std::vector<Request>& outputs,
                                 std::vector<Action>* actions) {
  for (const Request& output : outputs) {
    const uint64_t number = output.replaces.value() - event.taken_over.value();
    TUTTI_RETURN_IF_ERROR(CheckOutput(output, static_cast<int64_t>(number)));
  }
  for (int32_t i = 0; i < event.taken_over_outputs; ++i) {
    const RequestId id(event.taken_over.value() + static_cast<uint64_t>(i));
    if (Sequence* const running = requests_.Find(id)) {
      End(running, FinishCause::kError, TakenOver(), actions);
    }
  }
  return absl::OkStatus();
}

// A resume token names one class for all outputs of a request: one that has not begun computes in
// that of the first.
void Admission::FollowGroup(Sequence* sequence) const {
  if (!sequence->numerics.empty()) return;
  const Sequence* const first = requests_.Find(sequence->request.first_output);
  if (first != nullptr && first != sequence) sequence->numerics = first->numerics;
}

}  // namespace tutti::coordinator
