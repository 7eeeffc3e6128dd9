#include "kernels/backends_testing.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "kernels/cpu/instruction_set.h"

namespace tutti::kernels {
namespace {

std::optional<TestDevice>& Registered() {
  static std::optional<TestDevice> device;
  return device;
}

bool HasGpu() { return CreateBackend("cuda:0", {}).ok(); }

}  // namespace

std::vector<std::string> TestedBackends() {
  if (Registered()) return {Registered()->name};
  std::vector<std::string> names;
  for (cpu::InstructionSet set : cpu::AvailableInstructionSets(cpu::MachineFeatures())) {
    names.emplace_back(cpu::InstructionSetName(set));
  }
  if (HasGpu()) names.emplace_back("cuda:0");
  return names;
}

std::vector<std::string> TestedModelBackends() {
  if (Registered()) return {Registered()->name};
  std::vector<std::string> names = {"reference", "cpu"};
  if (HasGpu()) names.emplace_back("cuda:0");
  return names;
}

std::unique_ptr<Backend> MakeTestedBackend(const std::string& name, const BackendOptions& options,
                                           std::shared_ptr<cuda::Nccl> nccl) {
  if (Registered() && Registered()->name == name) {
    return Registered()->make(options, std::move(nccl));
  }
  const bool is_backend = name == "reference" || name == "cpu" || name.starts_with("cuda");
  BackendOptions all = options;
  if (!is_backend) all.instruction_set = name;
  auto backend = CreateBackend(is_backend ? name : "cpu", all);
  CHECK(backend.ok()) << backend.status();
  return *std::move(backend);
}

std::shared_ptr<cuda::Nccl> NewTestedNccl() {
  return Registered() ? Registered()->new_nccl() : nullptr;
}

bool RegisterTestDevice(const TestDevice& device) {
  CHECK(!Registered().has_value());
  Registered() = device;
  return true;
}

}  // namespace tutti::kernels
