// Which instructions this machine has, and which kernels and numerics class follow from them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"

namespace tutti::kernels::cpu {

struct CpuFeatures {
  bool avx2 = false;        // with FMA and F16C, and the system saves the registers
  bool avx512 = false;      // F, BW, DQ, VL, and the system saves the registers
  bool avx512bf16 = false;  // avx512 and the bf16 dot instruction
  // avx512bf16 and AMX's tiles for bf16, which the system lets this process use, and which give the
  // bits of their class (both_ways.h)
  bool amx = false;
  // Why not, of a processor that has tiles; null where there is nothing to say.
  const char* amx_refused = nullptr;
};

// Of this machine. The answer is found once.
const CpuFeatures& MachineFeatures();

enum class InstructionSet {
  kAvx2,
  kAvx512,
  kAvx512Bf16,
  kAmx,
  kAvx512Block,
  kAvx2Block,
  kEmulatedAvx512Bf16
};

// "avx2", "avx512", "avx512bf16", "amx", "avx512-block", "avx2-block", "emulated-avx512bf16": the
// names of BackendOptions::instruction_set.
std::string_view InstructionSetName(InstructionSet set);

// "cpu-f32", "cpu-bf16dot", "cpu-bf16block". The emulation gives the bits of the dot instruction,
// on the processors of both makers (docs/decisions/0066).
std::string_view NumericsClassOf(InstructionSet set);

// The classes for `options`, the best first: those of the sets that ChooseInstructionSet would
// choose. One, where a class or a set is named.  REQUIRES: ChooseInstructionSet is OK
std::vector<std::string> ClassesFor(const CpuFeatures& features, const BackendOptions& options);

// Those that a machine with `features` can run.
std::vector<InstructionSet> AvailableInstructionSets(const CpuFeatures& features);

// The instruction set for `options`: the named one, else the best of the named class, else the best
// there is. INVALID_ARGUMENT for an unknown name, or a set that is not of the named class;
// FAILED_PRECONDITION when the machine lacks the set, with those it has.
absl::StatusOr<InstructionSet> ChooseInstructionSet(const CpuFeatures& features,
                                                    const BackendOptions& options);

// This processor's name, family, model and stepping, without blanks: what a measured choice holds
// for.
std::string ProcessorName();

// The kernels of a set. Calling one needs a machine that has the set.
const KernelTable& KernelsOf(InstructionSet set);

}  // namespace tutti::kernels::cpu
