#include "coordinator/fleet/gpu_reading.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "base/gpu_reading.h"
#include "coordinator/fleet/membership.h"

namespace tutti::coordinator {
namespace {

using ::testing::HasSubstr;

v1::GpuReading Good() {
  v1::GpuReading reading;
  reading.set_name("NVIDIA H200");
  reading.set_total_bytes(kGpuMemoryBytesMax);
  reading.set_used_bytes(kGpuMemoryBytesMax);
  reading.set_own_bytes(kGpuMemoryBytesMax);
  reading.set_other_bytes(0);
  reading.set_holders(std::string(kGpuTextBytesMax, '~'));
  reading.set_busy_share(1);
  reading.set_power_watts(kGpuPowerWattsMax);
  reading.set_temperature_celsius(kGpuCelsiusMax);
  reading.set_age_seconds(kGpuAgeSecondsMax);
  return reading;
}

TEST(GpuReadingTest, WhatCanBeIsTaken) {
  EXPECT_TRUE(CheckGpuReading(Good()).ok()) << CheckGpuReading(Good());
  EXPECT_TRUE(CheckGpuReading({}).ok());
}

TEST(GpuReadingTest, WhatCannotBeIsRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const struct {
    std::function<void(v1::GpuReading*)> change;
    const char* why;
  } cases[] = {
      {[](auto* r) { r->set_total_bytes(-1); }, "has -1 bytes"},
      {[](auto* r) { r->set_total_bytes(kGpuMemoryBytesMax + 1); }, "are believed"},
      {[](auto* r) { r->set_used_bytes(-5); }, "-5 of the"},
      {[](auto* r) { r->set_own_bytes(kGpuMemoryBytesMax + 1); }, "are held, which cannot be"},
      {[](auto* r) { r->set_other_bytes(INT64_MIN); }, "are held, which cannot be"},
      {[](auto* r) { r->set_busy_share(1.01); }, "1.01 of the time"},
      {[](auto* r) { r->set_busy_share(kNan); }, "nan of the time"},
      {[](auto* r) { r->set_power_watts(-1); }, "draws -1 W"},
      {[](auto* r) { r->set_power_limit_watts(kNan); }, "which cannot be"},
      {[](auto* r) { r->set_temperature_celsius(1e9); }, "which cannot be"},
      {[](auto* r) { r->set_age_seconds(-0.5); }, "-0.5 s ago"},
      {[](auto* r) { r->set_name("a\nb"); }, "in 3 bytes"},
      {[](auto* r) { r->set_trouble("\x1b[2J"); }, "printable ASCII"},
      {[](auto* r) { r->set_holders(std::string(kGpuTextBytesMax + 1, 'a')); }, "in 257 bytes"},
  };
  for (const auto& c : cases) {
    v1::GpuReading reading = Good();
    c.change(&reading);
    const absl::Status status = CheckGpuReading(reading);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.why));
  }
}

TEST(GpuReadingTest, GrowsOldWhereNoBeatComes) {
  Worker worker;
  v1::WorkerStatus status;
  FillWorkerStatus(worker, Instant(), &status);
  EXPECT_FALSE(status.has_gpu());
  worker.gpu = Good();
  worker.gpu->set_age_seconds(2);
  worker.gpu_read_at = Instant(std::chrono::seconds(10));
  FillWorkerStatus(worker, Instant(std::chrono::seconds(15)), &status);
  EXPECT_DOUBLE_EQ(status.gpu().age_seconds(), 7);
  EXPECT_EQ(status.gpu().name(), "NVIDIA H200");
}

TEST(GpuReadingTest, OnlyWhatIsTheWorkersToSayIsKept) {
  v1::GpuReading reading = Good();
  const std::string good = reading.SerializeAsString();
  reading.set_cuda_bytes(INT64_MIN);
  reading.GetReflection()->MutableUnknownFields(&reading)->AddLengthDelimited(
      99, std::string(6 << 20, '\x1b'));
  EXPECT_EQ(KeptGpuReading(reading).SerializeAsString(), good);
}

TEST(GpuReadingTest, TheRestOfTheProcessIsCudas) {
  v1::MemoryBytes held;
  held.set_weights(50);
  held.set_kv(30);
  held.set_activations(5);
  v1::GpuReading reading;
  FillCudaBytes(held, &reading);
  EXPECT_EQ(reading.cuda_bytes(), 0) << "not known";
  reading.set_own_bytes(100);
  FillCudaBytes(held, &reading);
  EXPECT_EQ(reading.cuda_bytes(), 15);
  // Asked for before the last allocation.
  reading.set_own_bytes(60);
  FillCudaBytes(held, &reading);
  EXPECT_EQ(reading.cuda_bytes(), 0);
  held.set_weights(INT64_MAX);
  held.set_kv(INT64_MAX);
  FillCudaBytes(held, &reading);
  EXPECT_EQ(reading.cuda_bytes(), 0) << "a sum too large to say";
}

}  // namespace
}  // namespace tutti::coordinator
