// Whether the bits that this build computes are those noted for its numerics revision, in each
// class that this machine has: of every golden checkpoint the logits of its prompts, and of numbers
// that no checkpoint shows (denormals, sums that are flushed, infinities) the results of operators.
#include "base/numerics_revision.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/backends_testing.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/kernels_testing.h"
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

// Numbers of every size and sign: denormals, zeros and the largest among them.
kernels::Matrix Wild(int64_t rows, int64_t cols, DType dtype, Random* random) {
  kernels::Matrix matrix(rows, cols, dtype);
  matrix.Each([&](float) {
    const auto sign = static_cast<uint32_t>(random->Between(0, 1)) << 31;
    // Most near to 1; products of the others begin and end at the bounds of the type.
    const int64_t exponent = random->Chance(0.5)   ? random->Between(110, 140)
                             : random->Chance(0.5) ? random->Between(0, 70)
                                                   : random->Between(180, 254);
    const auto fraction = static_cast<uint32_t>(random->Between(0, (1 << 23) - 1));
    return std::bit_cast<float>(sign | static_cast<uint32_t>(exponent) << 23 | fraction);
  });
  return matrix;
}

void AddBits(kernels::Matrix& values, Digest* digest) {
  for (int64_t r = 0; r < values.rows(); ++r) {
    for (int64_t c = 0; c < values.cols(); ++c) {
      const float value = values.at(r, c);
      // The payload of a NaN is not promised.
      digest->Add(std::isnan(value) ? 0x7fc00000 : std::bit_cast<uint32_t>(value));
    }
  }
}

// Sums that are just below the least normal number, where what flushes does so before or after it
// rounds: the emulation of the bf16 dot once did the latter.
void AddLeastSums(kernels::Backend* backend, Digest* digest) {
  kernels::Matrix in(1, 4, DType::kF32), weight(64, 4, DType::kBF16);
  in.FillWith(0), weight.FillWith(0);
  in.set(0, 1, 0x1p-63f);
  in.set(0, 3, -0x1p-75f);
  for (int64_t n = 0; n < 64; ++n) {
    weight.set(n, 1, 0x1p-63f);
    weight.set(n, 3, (1 + static_cast<float>(n) / 64) * 0x1p-76f);
  }
  const auto packed = *backend->Pack({{weight.view()}, {}, "w"});
  kernels::Matrix out(1, 64, DType::kF32);
  backend->MatMul(in.view(), *packed, out.view());
  AddBits(out, digest);
}

// The edges of `name`, an instruction set of the CPU or a GPU.
std::string EdgesOf(const std::string& name) {
  const auto backend = kernels::Tested(name);
  Random random(46);
  Digest digest;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int64_t rows : {1, 3, 7, 20}) {
      for (const int64_t in_features : {1, 2, 64, 131}) {
        kernels::Matrix weight = Wild(48, in_features, dtype, &random);
        kernels::Matrix in = Wild(rows, in_features, DType::kF32, &random);
        const auto packed = *backend->Pack({{weight.view()}, {}, "w"});
        kernels::Matrix out(rows, 48, DType::kF32);
        backend->MatMul(in.view(), *packed, out.view());
        AddBits(out, &digest);
      }
    }
  }
  AddLeastSums(backend.get(), &digest);
  for (const int64_t cols : {8, 130}) {
    kernels::Matrix in = Wild(5, 2 * cols, DType::kF32, &random);
    kernels::Matrix out(5, cols, DType::kF32);
    backend->SiluMul(in.view(), out.view());
    AddBits(out, &digest);
  }
  return digest.text();
}

json Noted() { return json::parse(ReadFileOrDie(GoldenDir(kNoted))); }

// A class of the CPU that is not noted is an error, for nobody would see when its bits change; that
// of a GPU is noted where there is one.
void ExpectNoted(const json& noted, const std::string& name, const std::string& digest) {
  if (!noted.contains(name) && name.starts_with("cuda-")) {
    std::printf("class %s: %s, not noted\n", name.c_str(), digest.c_str());
    return;
  }
  EXPECT_EQ(digest, noted.value(name, "nothing noted"))
      << "bits of class " << name << " have changed. If that is meant: raise kNumericsRevision in "
      << "base/numerics_revision.h to " << kNumericsRevision + 1
      << ", add an entry of that revision to tests/golden/" << kNoted
      << " with the digests of all classes (those of other machines are measured there), and "
      << "write a decision. Processes of the two builds will not serve together";
}

TEST(NumericsRevisionTest, TheBitsAreThoseOfTheRevision) {
  const json noted = Noted();
  ASSERT_EQ(noted.back()["revision"], kNumericsRevision)
      << "the last entry of tests/golden/" << kNoted
      << " is not that of kNumericsRevision in base/numerics_revision.h";
  for (const Device& device : Devices()) {
    ExpectNoted(noted.back()["digests"], device.numerics_class, DigestOf(device));
  }
}

// The bits of each instruction set, also where a class has several.
TEST(NumericsRevisionTest, TheBitsOfRareNumbersAreThoseOfTheRevision) {
  const json noted = Noted();
  for (const auto set : AvailableInstructionSets(kernels::cpu::MachineFeatures())) {
    SCOPED_TRACE(InstructionSetName(set));
    ExpectNoted(noted.back().value("edges", json::object()), std::string(NumericsClassOf(set)),
                EdgesOf(std::string(InstructionSetName(set))));
  }
  for (const Device& device : Devices()) {
    if (device.backend == "cpu") continue;
    ExpectNoted(noted.back().value("edges", json::object()), device.numerics_class,
                EdgesOf(device.backend));
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
    for (const char* kind : {"digests", "edges"}) {
      std::set<std::string> classes;
      const json noted = entry.value(kind, json::object());
      for (const auto& [name, digest] : noted.items()) {
        const std::string text = digest.get<std::string>();
        changed |= digests.insert(absl::StrCat(kind, " ", name, " ", text)).second;
        classes.insert(name);
      }
      std::vector<std::string> needed = {"cpu-f32", "cpu-bf16dot"};
      // No build has had it since.
      if (revision == 1) needed.emplace_back("cpu-bf16dot-emulated");
      needed.emplace_back("cpu-bf16block");
      for (const std::string& name : needed) {
        EXPECT_TRUE(classes.contains(name)) << kind << " of " << name << " are not noted";
      }
    }
    EXPECT_TRUE(changed) << "revision " << revision << " has the bits of an earlier one";
  }
}

TEST(NumericsRevisionTest, TheRevisionIsPartOfTheClass) {
  EXPECT_EQ(ClassAtRevision("cpu-f32", 1), "cpu-f32");
  EXPECT_EQ(ClassAtRevision("cpu-f32", 2), "cpu-f32.2");
}

TEST(NumericsRevisionTest, OperatorsMayLeaveItOut) {
  for (const auto& [name, told, backend] :
       std::vector<std::array<std::string, 3>>{{"cpu-f32", "cpu-f32.2", "cpu-f32"},
                                               {"cpu-f32.2", "cpu-f32.2", "cpu-f32"},
                                               {"cpu-f32.3", "cpu-f32.3", "cpu-f32.3"},
                                               {"cuda-sm90", "cuda-sm90.2", "cuda-sm90"},
                                               {"", "", ""}}) {
    EXPECT_EQ(ToldClass(name, 2), told);
    EXPECT_EQ(BackendClass(name, 2), backend);
  }
  EXPECT_EQ(ToldClass("cpu-f32", 1), "cpu-f32");
  EXPECT_EQ(BackendClass("cpu-f32", 1), "cpu-f32");
}

}  // namespace
}  // namespace tutti::worker
