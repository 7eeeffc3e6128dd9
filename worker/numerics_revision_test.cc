// Whether the bits that this build computes are those noted for its numerics revision: of every
// golden checkpoint, the logits of its prompts, in each class that this machine has.
#include "kernels/numerics_revision.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/backends_testing.h"
#include "kernels/cpu/instruction_set.h"
#include "worker/pipeline_testing.h"

namespace tutti::worker {
namespace {

using nlohmann::json;

constexpr const char* kNoted = "numerics.json";

// FNV-1a: the digest must be the same in every build.
class Digest {
 public:
  void Add(uint32_t bits) {
    for (int shift = 0; shift < 32; shift += 8) {
      value_ = (value_ ^ ((bits >> shift) & 255)) * 0x100000001b3;
    }
  }
  std::string text() const { return absl::StrFormat("%016x", value_); }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

// One of each family and type, and all shapes of the plain ones.
std::vector<std::string> Checkpoints() {
  std::vector<std::string> checkpoints;
  for (const char* type : {"f32", "bf16", "f16"}) {
    for (const char* shape :
         {"grouped-tied", "narrow-untied", "single-kv-tied", "one-layer-untied",
          "families/qwen2-tied", "families/qwen2-yarn", "families/llama2-linear", "families/llama3",
          "families/qwen3-moe", "families/qwen1", "families/chatglm3", "families/chatglm3-128k"}) {
      checkpoints.push_back(absl::StrCat(shape, "-", type));
    }
  }
  return checkpoints;
}

// A way to compute in some class.
struct Device {
  std::string numerics_class;
  std::string backend;
  std::string instruction_set;  // of the CPU
};

// One for each class: of the CPU, and of a GPU where there is one.
std::vector<Device> Devices() {
  std::vector<Device> devices;
  std::set<std::string> known;
  for (const auto set : AvailableInstructionSets(kernels::cpu::MachineFeatures())) {
    const std::string name(NumericsClassOf(set));
    if (!known.insert(name).second) continue;
    devices.push_back({name, "cpu", std::string(InstructionSetName(set))});
  }
  for (const std::string& backend : kernels::TestedModelBackends()) {
    if (backend == "reference" || backend == "cpu") continue;  // nobody serves with the former
    devices.push_back(
        {std::string(kernels::MakeTestedBackend(backend)->numerics_class()), backend, ""});
  }
  return devices;
}

std::string DigestOf(const Device& device) {
  Digest digest;
  for (const std::string& checkpoint : Checkpoints()) {
    const std::string dir = GoldenDir(checkpoint);
    const json golden = json::parse(ReadFileOrDie(dir + "/golden.json"));
    TestPipeline pipeline(
        {.model_dir = dir, .backend = device.backend, .instruction_set = device.instruction_set});
    for (const json& prompt : golden["prompts"]) {
      for (const float logit : pipeline.LastLogits(prompt["ids"], /*chunk=*/0)) {
        digest.Add(std::bit_cast<uint32_t>(logit));
      }
    }
  }
  return digest.text();
}

json Noted() { return json::parse(ReadFileOrDie(GoldenDir(kNoted))); }

TEST(NumericsRevisionTest, TheBitsAreThoseOfTheRevision) {
  const json noted = Noted();
  ASSERT_EQ(noted.back()["revision"], kernels::kNumericsRevision)
      << "the last entry of tests/golden/" << kNoted
      << " is not that of kNumericsRevision in kernels/numerics_revision.h";
  for (const Device& device : Devices()) {
    const std::string& name = device.numerics_class;
    if (!noted.back()["digests"].contains(name)) {
      std::printf("class %s: %s, not noted\n", name.c_str(), DigestOf(device).c_str());
      continue;
    }
    EXPECT_EQ(DigestOf(device), noted.back()["digests"][name])
        << "bits of class " << name
        << " have changed. If that is meant: raise kNumericsRevision in "
        << "kernels/numerics_revision.h to " << kernels::kNumericsRevision + 1
        << ", add an entry of that revision to tests/golden/" << kNoted
        << " with the digests of all classes (those of other machines are measured there), and "
        << "write a decision. Processes of the two builds will not serve together";
  }
}

// An entry is never changed, so a new digest is a new revision: no two of a class are the same, and
// none is missing.
TEST(NumericsRevisionTest, RevisionsGrowByOneAndDiffer) {
  uint32_t revision = 0;
  std::set<std::string> digests;
  for (const json& entry : Noted()) {
    EXPECT_EQ(entry["revision"], ++revision);
    bool changed = false;
    for (const auto& [name, digest] : entry["digests"].items()) {
      changed |= digests.insert(absl::StrCat(name, " ", digest.get<std::string>())).second;
    }
    EXPECT_TRUE(changed) << "revision " << revision << " has the bits of an earlier one";
  }
}

TEST(NumericsRevisionTest, TheRevisionIsPartOfTheClass) {
  EXPECT_EQ(kernels::ClassAtRevision("cpu-f32", 1), "cpu-f32");
  EXPECT_EQ(kernels::ClassAtRevision("cpu-f32", 2), "cpu-f32.2");
}

}  // namespace
}  // namespace tutti::worker
