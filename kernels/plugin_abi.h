// The border between the worker and a backend that is a library of its own, such as
// libtutti_cuda.so.
//
// A plug-in exports two C symbols: kPluginSymbol opens a device, kPluginDevicesSymbol lists those
// that there are. In both calls the sides first tell each other their version, build and compiler,
// in C types whose order never changes, and each refuses the other unless all three agree. Only
// then do C++ objects cross: the Backend of kernels/backend.h, whose layout is certain only between
// files of one build.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/build_info.h"

namespace tutti::kernels {

class Backend;
struct BackendOptions;

// Counts changes of this file. backend.h may change freely: the build stamp covers it.
inline constexpr int32_t kPluginAbiVersion = 3;
inline constexpr char kPluginSymbol[] = "tutti_backend_plugin";
inline constexpr char kPluginDevicesSymbol[] = "tutti_backend_devices";
inline constexpr int32_t kPluginMessageBytes = 2048;
inline constexpr int32_t kPluginDevicesMax = 64;

struct PluginIdentity {
  int32_t abi_version = 0;
  const char* build_stamp = nullptr;
  const char* toolchain = nullptr;  // compiler and checks, which decide the layout of objects
};

struct PluginRequest {
  int32_t device_index = 0;
  const BackendOptions* options = nullptr;
};

struct PluginAnswer {
  PluginIdentity plugin;       // always filled
  Backend* backend = nullptr;  // owned by the caller; nullptr: see the rest
  int32_t status_code = 0;     // an absl::StatusCode
  char message[kPluginMessageBytes] = {};
};

// Fills *answer. Throws nothing. `host` and `request` are read during the call only.
using PluginFunction = void (*)(const PluginIdentity* host, const PluginRequest* request,
                                PluginAnswer* answer);

struct PluginDevice {
  int32_t index = 0;
  int64_t memory_bytes = 0;
  char id[64] = {};     // the same in every process that sees this device
  char bus[32] = {};    // where it is plugged in, as the driver names it; "": not known
  char name[256] = {};  // the maker's
  char problem[kPluginMessageBytes] = {};  // why it cannot serve; "": it can
};

struct PluginDevices {
  PluginIdentity plugin;  // always filled
  int32_t count = 0;      // of `devices`
  PluginDevice devices[kPluginDevicesMax] = {};
  char problem[kPluginMessageBytes] = {};  // why there are none
};

// Fills *answer; opens no device. Throws nothing.
using PluginDevicesFunction = void (*)(const PluginIdentity* host, PluginDevices* answer);

#ifdef TUTTI_PARANOID
#define TUTTI_TOOLCHAIN_CHECKS " paranoid"
#else
#define TUTTI_TOOLCHAIN_CHECKS ""
#endif

// Copies what fits.
template <size_t kBytes>
void FillText(std::string_view text, char (&to)[kBytes]) {
  const size_t count = std::min(text.size(), kBytes - 1);
  text.copy(to, count);
  to[count] = '\0';
}

inline PluginIdentity ThisSide() {
  return {kPluginAbiVersion, BuildStamp().data(), "gcc " __VERSION__ TUTTI_TOOLCHAIN_CHECKS};
}

// "" when the two may exchange C++ objects; else why not, with both sides' facts.
inline std::string PluginMismatch(const PluginIdentity& host, const PluginIdentity& plugin) {
  if (host.abi_version != plugin.abi_version) {
    return absl::StrCat("the worker speaks plug-in version ", host.abi_version, ", the plug-in ",
                        plugin.abi_version);
  }
  if (std::string_view(host.build_stamp) != plugin.build_stamp) {
    return absl::StrCat("the worker is build ", host.build_stamp, ", the plug-in build ",
                        plugin.build_stamp, "; both must come from one build");
  }
  if (std::string_view(host.toolchain) != plugin.toolchain) {
    return absl::StrCat("the worker was compiled by ", host.toolchain, ", the plug-in by ",
                        plugin.toolchain, "; both must come from one build");
  }
  return "";
}

}  // namespace tutti::kernels
