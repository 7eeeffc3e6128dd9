#include "worker/class_offers.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/numerics_revision.h"
#include "kernels/several_classes.h"
#include "spdlog/spdlog.h"

namespace tutti::worker {
namespace {

std::vector<std::string> ClassesOf(kernels::Backend* backend) {
  const auto* const several = backend->several_classes();
  if (several == nullptr) return {std::string(backend->numerics_class())};
  return several->numerics_classes();
}

// REQUIRES: one of ClassesOf(backend)
void ComputeIn(kernels::Backend* backend, const std::string& numerics_class) {
  auto* const several = backend->several_classes();
  if (several != nullptr) several->ComputeIn(numerics_class);
}

}  // namespace

void OfferClasses(kernels::Backend* backend, const MeasuredSpeed& best,
                  const std::function<MeasuredSpeed()>& measure, v1::Hello* hello) {
  const std::vector<std::string> classes = ClassesOf(backend);
  hello->set_numerics_class(ClassAtRevision(classes.front()));
  hello->set_read_bytes_per_second(best.read_bytes_per_second);
  hello->set_flops_per_second(best.flops_per_second);
  hello->set_speed_others_share(best.others_share);
  for (const std::string& one : classes) {
    ComputeIn(backend, one);
    const MeasuredSpeed speed = one == classes.front() ? best : measure();
    v1::NumericsOffer* const offer = hello->add_numerics();
    offer->set_numerics_class(ClassAtRevision(one));
    offer->set_read_bytes_per_second(speed.read_bytes_per_second);
    offer->set_flops_per_second(speed.flops_per_second);
    offer->set_inexact(!backend->exact());
  }
  ComputeIn(backend, classes.front());
}

StageRunnerFactory InClassOfShard(kernels::Backend* backend, StageRunnerFactory factory) {
  using Loaded = absl::StatusOr<std::unique_ptr<StageRunner>>;
  return [backend, factory = std::move(factory), classes = ClassesOf(backend)](
             const v1::AssignShard& shard, const ShardProgressCallback& progress) -> Loaded {
    const auto wanted = std::find_if(classes.begin(), classes.end(), [&](const std::string& one) {
      return shard.numerics_class().empty() || ClassAtRevision(one) == shard.numerics_class();
    });
    if (wanted == classes.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("numerics class \"", absl::CHexEscape(shard.numerics_class()),
                       "\" is asked for; this worker computes in ", absl::StrJoin(classes, ", ")));
    }
    if (*wanted != backend->numerics_class()) spdlog::info("computes in class {} now", *wanted);
    ComputeIn(backend, *wanted);
    return factory(shard, progress);
  };
}

}  // namespace tutti::worker
