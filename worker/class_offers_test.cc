#include "worker/class_offers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/numerics_revision.h"
#include "kernels/tunable.h"
#include "worker/kernel_tuner.h"

namespace tutti::worker {
namespace {

using testing::HasSubstr;

std::unique_ptr<kernels::Backend> Cpu(const std::string& numerics_class = "") {
  return *kernels::CreateBackend("cpu", {.num_threads = 1, .numerics_class = numerics_class});
}

TEST(ClassOffersTest, OffersEveryClassWithItsSpeed) {
  const auto backend = Cpu();
  const std::string best(backend->numerics_class());
  std::vector<std::string> measured;
  v1::Hello hello;
  OfferClasses(
      backend.get(), {.read_bytes_per_second = 3e9, .flops_per_second = 4e9},
      [&] {
        measured.emplace_back(backend->numerics_class());
        return MeasuredSpeed{.read_bytes_per_second = 1e9, .flops_per_second = 2e9};
      },
      &hello);
  EXPECT_EQ(hello.numerics_class(), ClassAtRevision(best));
  EXPECT_EQ(hello.flops_per_second(), 4e9);
  ASSERT_EQ(hello.numerics_size(), 3) << "every machine can compute all";
  EXPECT_EQ(hello.numerics(0).numerics_class(), hello.numerics_class());
  EXPECT_EQ(hello.numerics(0).read_bytes_per_second(), 3e9);
  EXPECT_EQ(hello.numerics(1).flops_per_second(), 2e9);
  ASSERT_EQ(measured.size(), 2u);
  for (int other : {0, 1}) {
    EXPECT_EQ(hello.numerics(1 + other).numerics_class(), ClassAtRevision(measured[other]));
    EXPECT_NE(measured[other], best);
  }
  EXPECT_NE(measured[0], measured[1]);
  EXPECT_EQ(backend->numerics_class(), best) << "as before";
}

// The choice of --tune auto by then is what shards are computed with.
TEST(ClassOffersTest, KeepsWhatWasChosenByMeasurement) {
  const auto backend = Cpu();
  auto* const tunable = backend->tunable();
  for (size_t k = 0; k < tunable->knobs().size(); ++k) {
    const kernels::Knob& knob = tunable->knobs()[k];
    const int64_t last = knob.values.back();
    tunable->SetKnob(k, last != knob.usual ? last : knob.values.front());
  }
  const std::string chosen = ChoicesText(*tunable);
  v1::Hello hello;
  OfferClasses(
      backend.get(), {}, [] { return MeasuredSpeed(); }, &hello);
  ASSERT_EQ(hello.numerics_size(), 3);
  EXPECT_EQ(ChoicesText(*tunable), chosen);
}

TEST(ClassOffersTest, OffersOneWhereTheOperatorNamesIt) {
  const auto backend = Cpu("cpu-f32");
  v1::Hello hello;
  OfferClasses(
      backend.get(), {}, [] { return MeasuredSpeed(); }, &hello);
  ASSERT_EQ(hello.numerics_size(), 1);
  EXPECT_EQ(hello.numerics(0).numerics_class(), ClassAtRevision("cpu-f32"));
}

TEST(ClassOffersTest, LoadsAShardInItsClass) {
  const auto backend = Cpu();
  const std::string best(backend->numerics_class());
  std::string loaded;
  const StageRunnerFactory factory =
      InClassOfShard(backend.get(), [&](const v1::AssignShard&, const ShardProgressCallback&) {
        loaded = std::string(backend->numerics_class());
        return absl::StatusOr<std::unique_ptr<StageRunner>>(nullptr);
      });
  v1::AssignShard shard;
  const auto load = [&](const std::string& numerics_class) {
    shard.set_numerics_class(numerics_class);
    return factory(shard, nullptr).status();
  };
  for (const char* one : {"cpu-f32", "cpu-bf16dot", "cpu-bf16block", "cpu-f32"}) {
    EXPECT_TRUE(load(ClassAtRevision(one)).ok());
    EXPECT_EQ(loaded, one);
  }
  EXPECT_TRUE(load("").ok()) << "a coordinator of another build";
  EXPECT_EQ(loaded, best);
  loaded.clear();
  const absl::Status refused = load("cuda-sm90");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("numerics class \"cuda-sm90\" is asked for; this worker computes in cpu-"));
  EXPECT_EQ(loaded, "");
}

}  // namespace
}  // namespace tutti::worker
