// Compiles if NVML's header declares what worker/gpu/nvml_interface.h says of it.
#include <nvml.h>

#include <cstddef>
#include <type_traits>

#include "worker/gpu/nvml_interface.h"

using ours = tutti::worker::Nvml;

#define SAME_FIELD(type, field, their_type, their_field)                           \
  static_assert(offsetof(ours::type, field) == offsetof(their_type, their_field)); \
  static_assert(std::is_same_v<decltype(ours::type::field), decltype(their_type::their_field)>)

static_assert(sizeof(ours::Memory) == sizeof(nvmlMemory_t));
SAME_FIELD(Memory, total, nvmlMemory_t, total);
SAME_FIELD(Memory, free, nvmlMemory_t, free);
SAME_FIELD(Memory, used, nvmlMemory_t, used);

static_assert(sizeof(ours::MemoryV2) == sizeof(nvmlMemory_v2_t));
static_assert(ours::kMemoryVersion == nvmlMemory_v2);
SAME_FIELD(MemoryV2, version, nvmlMemory_v2_t, version);
SAME_FIELD(MemoryV2, total, nvmlMemory_v2_t, total);
SAME_FIELD(MemoryV2, reserved, nvmlMemory_v2_t, reserved);
SAME_FIELD(MemoryV2, free, nvmlMemory_v2_t, free);
SAME_FIELD(MemoryV2, used, nvmlMemory_v2_t, used);

static_assert(sizeof(ours::Utilization) == sizeof(nvmlUtilization_t));
SAME_FIELD(Utilization, gpu, nvmlUtilization_t, gpu);
SAME_FIELD(Utilization, memory, nvmlUtilization_t, memory);

static_assert(sizeof(ours::ProcessInfo) == sizeof(nvmlProcessInfo_v2_t));
SAME_FIELD(ProcessInfo, pid, nvmlProcessInfo_v2_t, pid);
SAME_FIELD(ProcessInfo, used_bytes, nvmlProcessInfo_v2_t, usedGpuMemory);
SAME_FIELD(ProcessInfo, gpu_instance, nvmlProcessInfo_v2_t, gpuInstanceId);
SAME_FIELD(ProcessInfo, compute_instance, nvmlProcessInfo_v2_t, computeInstanceId);

static_assert(ours::kSuccess == NVML_SUCCESS);
static_assert(ours::kNotSupported == NVML_ERROR_NOT_SUPPORTED);
static_assert(ours::kNotFound == NVML_ERROR_NOT_FOUND);
static_assert(ours::kInsufficientSize == NVML_ERROR_INSUFFICIENT_SIZE);
static_assert(ours::kLost == NVML_ERROR_GPU_IS_LOST);
static_assert(ours::kCoreTemperature == NVML_TEMPERATURE_GPU);
static_assert(ours::kNotAvailable == static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE));

// Enumerations are passed as ints.
static_assert(sizeof(nvmlReturn_t) == sizeof(int) &&
              sizeof(nvmlTemperatureSensors_t) == sizeof(int));

#define SAME_FUNCTION(function, ...) \
  static_assert(std::is_same_v<decltype(&function), nvmlReturn_t (*)(__VA_ARGS__)>)

SAME_FUNCTION(nvmlInit_v2, );
SAME_FUNCTION(nvmlShutdown, );
SAME_FUNCTION(nvmlDeviceGetHandleByUUID, const char*, nvmlDevice_t*);
SAME_FUNCTION(nvmlDeviceGetHandleByPciBusId_v2, const char*, nvmlDevice_t*);
SAME_FUNCTION(nvmlDeviceGetMemoryInfo, nvmlDevice_t, nvmlMemory_t*);
SAME_FUNCTION(nvmlDeviceGetMemoryInfo_v2, nvmlDevice_t, nvmlMemory_v2_t*);
SAME_FUNCTION(nvmlDeviceGetUtilizationRates, nvmlDevice_t, nvmlUtilization_t*);
SAME_FUNCTION(nvmlDeviceGetPowerUsage, nvmlDevice_t, unsigned*);
SAME_FUNCTION(nvmlDeviceGetEnforcedPowerLimit, nvmlDevice_t, unsigned*);
SAME_FUNCTION(nvmlDeviceGetTemperature, nvmlDevice_t, nvmlTemperatureSensors_t, unsigned*);
SAME_FUNCTION(nvmlSystemGetProcessName, unsigned, char*, unsigned);
static_assert(std::is_same_v<decltype(&nvmlErrorString), const char* (*)(nvmlReturn_t)>);
