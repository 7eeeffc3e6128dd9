#include "kernels/cuda/exchange_facts.h"

#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/cuda/nccl_library.h"

namespace tutti::kernels::cuda {
namespace {

// Both sides are of one build, so the layout needs no versions; the mark catches mistakes.
constexpr uint32_t kMark = 0x54475031;

struct Wire {
  uint32_t mark = kMark;
  int32_t scope = 0;
  int32_t nccl_version = 0;
  int32_t founded = 0;
  MachineKey machine = {};
  std::array<std::byte, 16> device = {};
  NcclGroupId group = {};
  uint64_t reserved = 0;  // zero
};
static_assert(sizeof(Wire) == static_cast<size_t>(kExchangeFactsBytes));

std::string WhyAlone(const std::string& name, const ExchangeFacts& facts) {
  if (facts.scope == DeviceExchangeScope::kOff) {
    return name + " was started with --device-exchange off";
  }
  if (facts.nccl_version == 0) return name + " has no NCCL it can use";
  return "";
}

std::string WhyNotBoth(const std::string& a, const ExchangeFacts& left, const std::string& b,
                       const ExchangeFacts& right) {
  const std::string both = absl::StrCat(a, " and ", b);
  if (left.scope != right.scope) {
    return both + " were started with different values of --device-exchange";
  }
  if (left.nccl_version != right.nccl_version) {
    return absl::StrCat(a, " has NCCL ", NcclVersionName(left.nccl_version), ", ", b, " has ",
                        NcclVersionName(right.nccl_version));
  }
  if (left.device == right.device) return both + " share a GPU";
  if (left.scope == DeviceExchangeScope::kMachine && left.machine != right.machine) {
    return both +
           " are on different machines or in different network namespaces, and "
           "--device-exchange is machine";
  }
  return "";
}

}  // namespace

MachineKey ThisMachine() {
  MachineKey key = {};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  // Hexadecimal digits and dashes: 32 digits fill two words.
  int digits = 0;
  for (const char c : boot) {
    if (c == '-' || digits == 32) continue;
    const uint64_t value = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    key[digits / 16] = key[digits / 16] << 4 | (value & 15);
    ++digits;
  }
  struct stat network = {};
  if (stat("/proc/self/ns/net", &network) == 0) key[2] = network.st_ino;
  return key;
}

void WriteFacts(const ExchangeFacts& facts, std::span<std::byte> to) {
  CHECK(to.size() == static_cast<size_t>(kExchangeFactsBytes));
  const Wire wire = {.scope = static_cast<int32_t>(facts.scope),
                     .nccl_version = facts.nccl_version,
                     .founded = facts.founded ? 1 : 0,
                     .machine = facts.machine,
                     .device = facts.device,
                     .group = facts.group};
  std::memcpy(to.data(), &wire, sizeof(wire));
}

absl::StatusOr<ExchangeFacts> ReadFacts(std::span<const std::byte> from) {
  CHECK(from.size() == static_cast<size_t>(kExchangeFactsBytes));
  Wire wire;
  std::memcpy(&wire, from.data(), sizeof(wire));
  const auto scope_max = static_cast<int32_t>(DeviceExchangeScope::kNetwork);
  if (wire.mark != kMark || wire.scope < 0 || wire.scope > scope_max || wire.nccl_version < 0 ||
      wire.founded < 0 || wire.founded > 1 || wire.reserved != 0) {
    return absl::InvalidArgumentError("not a description of a GPU");
  }
  return ExchangeFacts{.scope = static_cast<DeviceExchangeScope>(wire.scope),
                       .nccl_version = wire.nccl_version,
                       .machine = wire.machine,
                       .device = wire.device,
                       .founded = wire.founded == 1,
                       .group = wire.group};
}

std::string WhyNoGroup(std::span<const ExchangeFacts> members, std::span<const std::string> names) {
  CHECK(members.size() == names.size());
  for (size_t a = 0; a < members.size(); ++a) {
    if (std::string why = WhyAlone(names[a], members[a]); !why.empty()) return why;
    for (size_t b = 0; b < a; ++b) {
      if (std::string why = WhyNotBoth(names[b], members[b], names[a], members[a]); !why.empty()) {
        return why;
      }
    }
  }
  return "";
}

}  // namespace tutti::kernels::cuda
