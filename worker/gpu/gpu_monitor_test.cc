// The monitor with a library that is opened as the driver's is, and says what a test likes.
#include "worker/gpu/gpu_monitor.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/gpu_reading.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;
const GpuIdentity kGpu = {.id = "GPU-whole", .name = "NVIDIA H200"};

std::string Library(const std::string& name) {
  return absl::StrCat(std::getenv("TUTTI_BINARY_DIR"), "/emulated_gpus/lib", name, ".so");
}

class GpuMonitorTest : public ::testing::Test {
 protected:
  GpuMonitorTest() {
    setenv("NVML_TESTING", file_.c_str(), 1);
    Set("values");
  }
  // A library that hangs has to end before the process does.
  ~GpuMonitorTest() override { Set("values"); }

  void Set(const std::string& mode) {
    const std::string next = file_ + ".next";
    std::ofstream(next) << mode;
    rename(next.c_str(), file_.c_str());
  }

  static GpuMonitor::Options With(const GpuIdentity& gpu,
                                  const std::string& library = "tutti_nvml_testing") {
    return {.library = Library(library), .gpu = gpu, .period = milliseconds(2)};
  }

  // A reading of which `good` is true.
  template <class Good>
  static v1::GpuReading Await(const GpuMonitor& monitor, Good good) {
    const SystemClock clock;
    v1::GpuReading reading;
    for (const Instant begin = clock.Now(); clock.Now() - begin < std::chrono::seconds(60);) {
      reading.Clear();
      if (monitor.Fill(&reading) && good(reading)) return reading;
      std::this_thread::yield();
    }
    ADD_FAILURE() << "it never came: " << reading.ShortDebugString();
    return reading;
  }
  static bool Any(const v1::GpuReading&) { return true; }
  static bool Troubled(const v1::GpuReading& reading) { return !reading.trouble().empty(); }

  static GpuFigures Figures(const std::string& library, const GpuIdentity& gpu = kGpu) {
    auto nvml = NvmlLibrary::Open(Library(library));
    EXPECT_TRUE(nvml.ok()) << nvml.status();
    const auto device = (*nvml)->Find(gpu);
    EXPECT_TRUE(device.ok()) << device.status();
    auto figures = (*nvml)->Read(*device);
    EXPECT_TRUE(figures.ok()) << figures.status();
    return figures.ok() ? *std::move(figures) : GpuFigures();
  }

  const std::string file_ = absl::StrCat(::testing::TempDir(), "/nvml_", getpid());
};

TEST_F(GpuMonitorTest, SaysWhatTheDriverSays) {
  const GpuMonitor monitor(With(kGpu));
  const v1::GpuReading reading = Await(monitor, Any);
  EXPECT_EQ(reading.name(), "NVIDIA H200");
  EXPECT_EQ(reading.total_bytes(), 80 * kGiB);
  EXPECT_EQ(reading.used_bytes(), 69 * kGiB) << "without what the driver reserves";
  EXPECT_EQ(reading.own_bytes(), 8 * kGiB);
  EXPECT_EQ(reading.other_bytes(), 59 * kGiB + 17 * kGiB / 1024);
  EXPECT_THAT(reading.holders(), AllOf(HasSubstr("pid 123 python3: 59.0 GiB, pid 1000: 1.0 MiB"),
                                       Not(HasSubstr("124"))));
  EXPECT_DOUBLE_EQ(reading.busy_share(), 0.37);
  EXPECT_DOUBLE_EQ(reading.power_watts(), 412.5);
  EXPECT_DOUBLE_EQ(reading.power_limit_watts(), 700);
  EXPECT_DOUBLE_EQ(reading.temperature_celsius(), 61);
  EXPECT_EQ(reading.trouble(), "");
}

TEST_F(GpuMonitorTest, FindsAGpuItsPartOrItsPlace) {
  for (const GpuIdentity& gpu : {kGpu, GpuIdentity{.id = "GPU-part"},
                                 GpuIdentity{.id = "GPU-unknown", .bus = "0000:3b:00.0"}}) {
    EXPECT_EQ(Figures("tutti_nvml_testing", gpu).total_bytes, 80 * kGiB) << gpu.id;
  }
  const auto nvml = NvmlLibrary::Open(Library("tutti_nvml_testing"));
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  const absl::Status lost = (*nvml)->Find({.id = "GPU-x", .bus = "0000:4c:00.0"}).status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(lost.message()),
              HasSubstr("looking for GPU-x at 0000:4c:00.0: Not Found (6)"));
}

TEST_F(GpuMonitorTest, AnOldDriverSaysLess) {
  const GpuFigures figures = Figures("tutti_nvml_old_testing");
  EXPECT_EQ(figures.used_bytes, 70 * kGiB);
  EXPECT_FALSE(figures.processes.has_value());
  EXPECT_FALSE(figures.busy_share || figures.power_watts || figures.power_limit_watts ||
               figures.temperature_celsius);
  const GpuMonitor monitor(With(kGpu, "tutti_nvml_old_testing"));
  const v1::GpuReading reading = Await(monitor, Any);
  EXPECT_FALSE(reading.has_busy_share() || reading.has_power_watts());
  EXPECT_EQ(reading.own_bytes(), 0);
}

TEST_F(GpuMonitorTest, WithoutALibraryThereAreNoFigures) {
  for (const char* name : {"no_such_library", "tutti_nvml_broken_testing"}) {
    GpuMonitor monitor(With(kGpu, name));
    EXPECT_EQ(monitor.AwaitFirst(std::chrono::seconds(60)), "");
    v1::GpuReading reading;
    EXPECT_FALSE(monitor.Fill(&reading)) << reading.ShortDebugString();
  }
  EXPECT_THAT(
      std::string(NvmlLibrary::Open(Library("tutti_nvml_broken_testing")).status().message()),
      HasSubstr("has no function nvmlDeviceGetMemoryInfo"));
}

TEST_F(GpuMonitorTest, ErrorsLeaveTheLastFiguresAndSayWhy) {
  const GpuMonitor monitor(With(kGpu));
  Await(monitor, Any);
  Set("error");
  const v1::GpuReading old = Await(monitor, Troubled);
  EXPECT_EQ(old.used_bytes(), 69 * kGiB);
  EXPECT_EQ(old.trouble(), "NVML, asking for memory: Unknown Error (999)");
  Set("lost");
  EXPECT_THAT(
      Await(monitor, [](const auto& r) { return r.trouble().find("lost") != r.trouble().npos; })
          .trouble(),
      HasSubstr("GPU is lost (15)"));
  Set("values");
  EXPECT_EQ(Await(monitor, [](const auto& r) { return r.trouble().empty(); }).used_bytes(),
            69 * kGiB);
}

TEST_F(GpuMonitorTest, ADriverThatHangsHoldsNobody) {
  const SystemClock clock;
  {
    const GpuMonitor monitor(With(kGpu));
    Await(monitor, Any);
    Set("hang");
    const v1::GpuReading old = Await(monitor, Troubled);
    EXPECT_THAT(old.trouble(), HasSubstr("the driver has not answered for"));
    EXPECT_GE(old.age_seconds(), Seconds(kGpuAnswerPatience));
    EXPECT_EQ(old.used_bytes(), 69 * kGiB);
    Set("values");
    Await(monitor, [](const auto& r) { return r.trouble().empty(); });
    Set("hang");
    Await(monitor, [](const auto& r) { return r.age_seconds() > 0.1; });
  }
  // It is gone with its thread in the driver.
  GpuMonitor from_the_first_call(With(kGpu));
  const Instant begin = clock.Now();
  EXPECT_EQ(from_the_first_call.AwaitFirst(milliseconds(20)), "");
  EXPECT_LT(clock.Now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(Await(from_the_first_call, Troubled).total_bytes(), 0);
}

TEST_F(GpuMonitorTest, WhatCannotBeIsNotPassedOn) {
  Set("garbage");
  const GpuMonitor monitor(With(kGpu, "tutti_nvml_old_testing"));
  EXPECT_THAT(Await(monitor, Troubled).trouble(),
              HasSubstr("18446744073709551615 of 85899345920 bytes are used, which cannot be"));
}

TEST_F(GpuMonitorTest, GarbageBesideTheMemoryIsLeftOut) {
  Set("garbage-but-memory");
  const GpuMonitor monitor(With(kGpu));
  const v1::GpuReading reading = Await(monitor, Any);
  EXPECT_EQ(reading.trouble(), "");
  EXPECT_EQ(reading.used_bytes(), 69 * kGiB);
  EXPECT_EQ(reading.own_bytes(), 8 * kGiB);
  EXPECT_THAT(reading.holders(), HasSubstr("pid 123 ?[2J??"));
  EXPECT_EQ(PrintableOf(reading.holders(), kGpuTextBytesMax), reading.holders());
  EXPECT_FALSE(reading.has_busy_share() || reading.has_power_watts() ||
               reading.has_power_limit_watts() || reading.has_temperature_celsius())
      << reading.ShortDebugString();
}

TEST_F(GpuMonitorTest, WithoutMemoryTheOtherFiguresCome) {
  Set("no-memory");
  GpuMonitor monitor(With(kGpu));
  EXPECT_EQ(monitor.AwaitFirst(std::chrono::seconds(60)), "");
  const v1::GpuReading reading = Await(monitor, Any);
  EXPECT_EQ(reading.trouble(), "");
  EXPECT_EQ(reading.total_bytes() + reading.used_bytes() + reading.own_bytes(), 0);
  EXPECT_DOUBLE_EQ(reading.busy_share(), 0.37);
  EXPECT_DOUBLE_EQ(reading.temperature_celsius(), 61);
}

TEST_F(GpuMonitorTest, TheLogSaysOnceThatTheDriverHangsAndNothingAfterTheEnd) {
  const auto before = spdlog::default_logger();
  std::ostringstream log;
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  Set("hang");
  {
    GpuMonitor monitor(With(kGpu));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(monitor.AwaitFirst(milliseconds(5)), "");
    Await(monitor, Troubled);
  }
  Set("values");
  {
    const GpuMonitor monitor(With(kGpu));
    Await(monitor, Any);
    Set("hang");
    Await(monitor, [](const auto& r) { return r.age_seconds() > 0.1; });
  }
  // The thread was left in the driver. It comes back, with an error.
  Set("lost");
  std::this_thread::sleep_for(milliseconds(200));
  spdlog::set_default_logger(before);
  const std::string text = log.str();
  EXPECT_THAT(text, HasSubstr("no figures of GPU-whole: the driver has not answered yet"));
  EXPECT_EQ(text.find("no figures"), text.rfind("no figures")) << text;
}

TEST_F(GpuMonitorTest, OthersThatFillAGpuAreNamedBeforeItIsOpened) {
  GpuMonitor monitor(With(kGpu));
  EXPECT_THAT(monitor.AwaitFirst(std::chrono::seconds(60)),
              AllOf(HasSubstr("GPU-whole (NVIDIA H200): 69.0 GiB of 80.0 GiB are held by other "
                              "processes (pid 123 python3: 59.0 GiB, "),
                    HasSubstr("end them, choose another GPU with --device, or give --memory")));
  EXPECT_THAT(CrowdedText(kGpu, {.total_bytes = 80 * kGiB, .used_bytes = 40 * kGiB}),
              HasSubstr("(the driver does not say which)"));
  EXPECT_EQ(CrowdedText(kGpu, {.total_bytes = 80 * kGiB, .used_bytes = 2 * kGiB}), "");
}

TEST_F(GpuMonitorTest, WithoutOurOwnNumberOthersAreNotTold) {
  Set("no-processes");
  const GpuMonitor monitor(With(kGpu));
  const v1::GpuReading reading = Await(monitor, Any);
  EXPECT_EQ(reading.used_bytes(), 69 * kGiB);
  EXPECT_EQ(reading.own_bytes() + reading.other_bytes(), 0);
  EXPECT_EQ(reading.holders(), "");
}

}  // namespace
}  // namespace tutti::worker
