#include "kernels/cpu/instruction_set.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "kernels/cpu/both_ways.h"

namespace tutti::kernels::cpu {
namespace {

// The best first: where a class or none is named, the first that the machine has is taken.
constexpr InstructionSet kAll[] = {InstructionSet::kAmx,
                                   InstructionSet::kAvx512Bf16,
                                   InstructionSet::kAvx512,
                                   InstructionSet::kAvx2,
                                   InstructionSet::kAvx512Block,
                                   InstructionSet::kAvx2Block,
                                   InstructionSet::kEmulatedAvx512Bf16};

// The register sets that the operating system saves on a context switch (XCR0).
uint64_t SavedRegisters() {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

bool Bit(uint32_t word, int bit) { return (word >> bit) & 1u; }

// Asks the system for AMX's tiles, which it gives to processes that ask. Threads that are there
// already have them then, too.
bool MayUseTiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

void FindTiles(CpuFeatures* features) {
  if (!MayUseTiles()) {
    features->amx_refused =
        "AMX is not used: the system refuses its tiles to this process (a thread may have an "
        "alternate signal stack that is too small for them)";
  } else if (!BothWaysAgree(AmxKernels())) {
    features->amx_refused = "AMX is not used: its tiles gave other bits than f32 instructions";
  } else {
    features->amx = true;
  }
}

CpuFeatures Detect() {
  CpuFeatures features;
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return features;
  const bool fma = Bit(c, 12), xsave = Bit(c, 27), avx = Bit(c, 28), f16c = Bit(c, 29);
  if (!fma || !xsave || !avx || !f16c) return features;
  const uint64_t saved = SavedRegisters();
  const bool saves_ymm = (saved & 0x6) == 0x6;
  const bool saves_zmm = (saved & 0xe6) == 0xe6;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
  const uint32_t last_subleaf = a;
  const bool has_tiles = Bit(d, 22) && Bit(d, 24) && Bit(d, 25);  // AMX-BF16, -TILE, -INT8
  const bool has_vnni = Bit(c, 11);
  features.avx2 = saves_ymm && Bit(b, 5);
  features.avx512 =
      features.avx2 && saves_zmm && Bit(b, 16) && Bit(b, 17) && Bit(b, 30) && Bit(b, 31);
  if (features.avx512 && last_subleaf >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
    // All processors with the one have the other.
    features.avx512bf16 = Bit(a, 5) && has_vnni;
  }
  const bool saves_tiles = (saved >> 17 & 3) == 3;
  if (features.avx512bf16 && saves_tiles && has_tiles) FindTiles(&features);
#ifdef TUTTI_AVX512_BY_SIMDE
  features.amx = false;
  features.avx512 = features.avx512bf16 = features.avx2;  // of kernels_simde_*_test
#endif
  return features;
}

bool Has(const CpuFeatures& features, InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx2:
    case InstructionSet::kAvx2Block:
    case InstructionSet::kEmulatedAvx512Bf16:
      return features.avx2;
    case InstructionSet::kAvx512:
    case InstructionSet::kAvx512Block:
      return features.avx512;
    case InstructionSet::kAvx512Bf16:
      return features.avx512bf16;
    case InstructionSet::kAmx:
      return features.amx;
  }
  return false;
}

std::string Names(const std::vector<InstructionSet>& sets) {
  std::string names;
  for (InstructionSet set : sets) {
    if (!names.empty()) names += ", ";
    names += InstructionSetName(set);
  }
  return names.empty() ? "none of the sets the cpu backend knows" : names;
}

absl::StatusOr<InstructionSet> ByName(const CpuFeatures& features, const BackendOptions& options) {
  for (InstructionSet set : kAll) {
    if (options.instruction_set != InstructionSetName(set)) continue;
    if (!options.numerics_class.empty() && options.numerics_class != NumericsClassOf(set)) {
      return absl::InvalidArgumentError(
          absl::StrCat("instruction set ", options.instruction_set, " computes in class ",
                       std::string(NumericsClassOf(set)), ", not in ", options.numerics_class));
    }
    if (!Has(features, set)) {
      return absl::FailedPreconditionError(absl::StrCat("this machine has no ",
                                                        options.instruction_set, "; it has ",
                                                        Names(AvailableInstructionSets(features))));
    }
    return set;
  }
  return absl::InvalidArgumentError(absl::StrCat("no instruction set is called \"",
                                                 options.instruction_set, "\"; there are ",
                                                 Names({std::begin(kAll), std::end(kAll)})));
}

}  // namespace

const CpuFeatures& MachineFeatures() {
  static const CpuFeatures features = Detect();
  return features;
}

std::string_view InstructionSetName(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx512Bf16:
      return "avx512bf16";
    case InstructionSet::kAmx:
      return "amx";
    case InstructionSet::kAvx512Block:
      return "avx512-block";
    case InstructionSet::kAvx2Block:
      return "avx2-block";
    case InstructionSet::kEmulatedAvx512Bf16:
      return "emulated-avx512bf16";
  }
  return "unknown";
}

std::string_view NumericsClassOf(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx2:
    case InstructionSet::kAvx512:
      return "cpu-f32";
    case InstructionSet::kAvx512Bf16:
    case InstructionSet::kEmulatedAvx512Bf16:
      return "cpu-bf16dot";
    case InstructionSet::kAmx:
    case InstructionSet::kAvx512Block:
    case InstructionSet::kAvx2Block:
      return "cpu-bf16block";
  }
  return "unknown";
}

std::vector<std::string> ClassesFor(const CpuFeatures& features, const BackendOptions& options) {
  const absl::StatusOr<InstructionSet> best = ChooseInstructionSet(features, options);
  CHECK(best.ok()) << best.status();
  std::vector<std::string> classes = {std::string(NumericsClassOf(*best))};
  if (!options.instruction_set.empty() || !options.numerics_class.empty()) return classes;
  for (InstructionSet set : AvailableInstructionSets(features)) {
    const std::string_view name = NumericsClassOf(set);
    const bool known = std::find(classes.begin(), classes.end(), name) != classes.end();
    if (!known) classes.emplace_back(name);
  }
  return classes;
}

std::vector<InstructionSet> AvailableInstructionSets(const CpuFeatures& features) {
  std::vector<InstructionSet> sets;
  for (InstructionSet set : kAll) {
    if (Has(features, set)) sets.push_back(set);
  }
  return sets;
}

absl::StatusOr<InstructionSet> ChooseInstructionSet(const CpuFeatures& features,
                                                    const BackendOptions& options) {
  if (!features.avx2) {
    return absl::FailedPreconditionError(
        "the cpu backend needs AVX2, FMA and F16C; this machine lacks them");
  }
  if (!options.instruction_set.empty()) return ByName(features, options);
  bool known_class = options.numerics_class.empty();
  for (InstructionSet set : kAll) {
    const bool wanted =
        options.numerics_class.empty() || options.numerics_class == NumericsClassOf(set);
    known_class |= wanted;
    if (wanted && Has(features, set)) return set;
  }
  if (!known_class) {
    return absl::FailedPreconditionError(
        absl::StrCat("the cpu backend cannot compute in class \"", options.numerics_class,
                     "\"; its classes are cpu-f32, cpu-bf16dot and cpu-bf16block"));
  }
  return absl::FailedPreconditionError(absl::StrCat("this machine cannot compute in class ",
                                                    options.numerics_class, "; it has ",
                                                    Names(AvailableInstructionSets(features))));
}

std::string ProcessorName() {
  constexpr uint32_t kBrand = 0x80000002;  // and the two leaves after it: 16 bytes each
  std::array<char, 49> brand{};
  uint32_t words[4];
  for (uint32_t leaf = 0; leaf < 3; ++leaf) {
    if (!__get_cpuid(kBrand + leaf, &words[0], &words[1], &words[2], &words[3])) break;
    std::memcpy(&brand[16 * size_t{leaf}], words, sizeof(words));
  }
  // Family, model and stepping as CPUID packs them: many processors of a cloud have one name.
  if (!__get_cpuid(1, &words[0], &words[1], &words[2], &words[3])) words[0] = 0;
  const absl::string_view name = absl::StripAsciiWhitespace(brand.data());
  return absl::StrCat(absl::StrReplaceAll(name, {{" ", "_"}}), "-", absl::Hex(words[0]));
}

const KernelTable& KernelsOf(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx2:
      return Avx2Kernels();
    case InstructionSet::kAvx512:
      return Avx512Kernels();
    case InstructionSet::kAvx512Bf16:
      return Avx512Bf16Kernels();
    case InstructionSet::kAmx:
      return AmxKernels();
    case InstructionSet::kAvx512Block:
      return Avx512BlockKernels();
    case InstructionSet::kAvx2Block:
      return Avx2BlockKernels();
    case InstructionSet::kEmulatedAvx512Bf16:
      return EmulatedBf16DotKernels();
  }
  return Avx2Kernels();
}

}  // namespace tutti::kernels::cpu
