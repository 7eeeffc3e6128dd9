// Every kernel that a process runs on a GPU, with the times at which it began and ended, as CUPTI
// tells them: a library that CUDA's driver loads into a program that knows nothing of it.
//
//   CUDA_INJECTION64_PATH=libkernel_times.so TUTTI_KERNEL_TIMES=FILE tutti-bench local ...
//
// The file, written when the program ends, holds a line of JSON, {"kernels": [[name, grid x, y, z,
// threads of a block, registers of a thread, bytes of dynamic shared memory], ...]}, and then, in
// the order in which they began, 16 bytes for each run: microseconds since the first began, as a
// double; how long it took, as a float; and which kernel it was, as a number into that list.
// tools/gpu_check.d/kernel_times.py makes tables of it.
//
// Thread: CUPTI calls from threads of its own; the list has a mutex.
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/mutex.h"

namespace tutti::bench {
namespace {

constexpr size_t kBufferBytes = size_t{8} << 20;
constexpr size_t kAlignment = 8;  // of records
// A run of all loads has half a million; more would not be read by anybody.
constexpr size_t kRunsMax = size_t{4} << 20;

using Shape = std::tuple<std::string, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t>;

struct Run {
  uint64_t start;  // nanoseconds
  uint64_t end;
  int32_t kernel;
};

struct Recorder {
  Mutex mutex;
  std::map<Shape, int32_t> number;
  std::vector<Shape> shapes;
  std::vector<Run> runs;
  size_t lost = 0;
};

Recorder& Recorded() {
  static auto* const recorder = new Recorder;  // outlives the threads of CUPTI
  return *recorder;
}

void Say(const char* what, CUptiResult result) {
  const char* text = "";
  cuptiGetResultString(result, &text);
  std::fprintf(stderr, "kernel_times: %s: %s\n", what, text);
}

std::string Demangled(const char* name) {
  int status = 0;
  char* const plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = status == 0 ? plain : name;
  std::free(plain);
  return text;
}

void Add(const CUpti_ActivityKernel10& kernel) {
  Recorder& recorder = Recorded();
  if (recorder.runs.size() == kRunsMax) {
    ++recorder.lost;
    return;
  }
  const Shape shape = {kernel.name == nullptr ? "" : kernel.name,
                       kernel.gridX,
                       kernel.gridY,
                       kernel.gridZ,
                       kernel.blockX * kernel.blockY * kernel.blockZ,
                       kernel.registersPerThread,
                       kernel.dynamicSharedMemory};
  const auto [found, added] =
      recorder.number.emplace(shape, static_cast<int32_t>(recorder.shapes.size()));
  if (added) recorder.shapes.push_back(shape);
  recorder.runs.push_back({kernel.start, kernel.end, found->second});
}

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* bytes, size_t* records_max) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *records_max = 0;
}

void CUPTIAPI TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  {
    const MutexLock lock(&Recorded().mutex);
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
      if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        Add(*reinterpret_cast<const CUpti_ActivityKernel10*>(record));
      }
    }
  }
  std::free(buffer);
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

bool WriteRuns(std::FILE* file, const std::vector<Run>& runs) {
  const uint64_t first = runs.empty() ? 0 : runs.front().start;
  for (const Run& run : runs) {
    const double at = static_cast<double>(run.start - first) / 1000;
    const auto took = static_cast<float>(static_cast<double>(run.end - run.start) / 1000);
    if (std::fwrite(&at, sizeof at, 1, file) != 1 ||
        std::fwrite(&took, sizeof took, 1, file) != 1 ||
        std::fwrite(&run.kernel, sizeof run.kernel, 1, file) != 1) {
      return false;
    }
  }
  return true;
}

bool Write(Recorder* recorder, const char* path) {
  std::FILE* const file = std::fopen(path, "wb");
  if (file == nullptr) return false;
  std::string head = "{\"lost\": " + std::to_string(recorder->lost) + ", \"kernels\": [";
  for (size_t i = 0; i < recorder->shapes.size(); ++i) {
    const auto& [name, x, y, z, threads, registers, shared] = recorder->shapes[i];
    head += (i == 0 ? "[" : ", [") + Quoted(Demangled(name.c_str()));
    for (const int32_t value : {x, y, z, threads, registers, shared}) {
      head += ", " + std::to_string(value);
    }
    head += "]";
  }
  head += "]}\n";
  std::stable_sort(recorder->runs.begin(), recorder->runs.end(),
                   [](const Run& a, const Run& b) { return a.start < b.start; });
  bool good = std::fwrite(head.data(), 1, head.size(), file) == head.size();
  good = good && WriteRuns(file, recorder->runs);
  return std::fclose(file) == 0 && good;
}

void Finish() {
  const CUptiResult result = cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (result != CUPTI_SUCCESS) Say("the last records", result);
  const char* const path = std::getenv("TUTTI_KERNEL_TIMES");
  Recorder& recorder = Recorded();
  const MutexLock lock(&recorder.mutex);
  if (path == nullptr || !Write(&recorder, path)) {
    std::fprintf(stderr, "kernel_times: nothing was written to TUTTI_KERNEL_TIMES=%s\n",
                 path == nullptr ? "" : path);
  }
}

// Whether kernels are recorded from now on.
bool Begin() {
  CUptiResult result = cuptiActivityRegisterCallbacks(&GiveBuffer, &TakeBuffer);
  if (result == CUPTI_SUCCESS) result = cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (result != CUPTI_SUCCESS) {
    Say("kernels are not recorded", result);
    return false;
  }
  std::atexit(&Finish);
  return true;
}

}  // namespace
}  // namespace tutti::bench

// The driver calls it once, before the program's first call of CUDA returns.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  return tutti::bench::Begin() ? 1 : 0;
}
