// Writes a checkpoint of codes as a format's packers do, of one in 16 or 32 bits, for
// quantised_test.py: quantised_checkpoint FORMAT FROM TO makes TO/codes.

#include <cstdio>
#include <map>

#include "worker/quantised_checkpoint_testing.h"
#include "worker/quantised_formats_testing.h"

namespace tutti {
namespace {

// The first layer is left as it was; of the others attention is in FP8, MLPs are in int4. The
// embedding, and with it the head, is in int8.
void WriteMixed(const char* from, const char* to) {
  nlohmann::json fp8 = worker::QuantisedFormats()["fp8_rows"]["config_groups"]["group_0"];
  nlohmann::json int4 = worker::Packed(4, 32, false)["config_groups"]["group_0"];
  fp8["format"] = "float-quantized";
  int4["format"] = "pack-quantized";
  nlohmann::json int8 = worker::Packed(8, 32, true)["config_groups"]["group_0"];
  int8["format"] = "pack-quantized";
  const nlohmann::json all = {
      {"quant_method", "compressed-tensors"},
      {"format", "mixed-precision"},
      {"config_groups", {{"group_0", fp8}, {"group_1", int4}, {"group_2", int8}}}};
  worker::MakeMixedCopy(from, all, to, "bfloat16", [](model::Role role, int64_t layer) {
    if (role == model::Role::kEmbedding) return 2;
    if (layer < 1) return -1;
    const bool mlp =
        role == model::Role::kGate || role == model::Role::kUp || role == model::Role::kDown;
    return mlp ? 1 : 0;
  });
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  std::map<std::string, nlohmann::json> formats = tutti::worker::QuantisedFormats();
  formats["w8a8"] = tutti::worker::Integers(true);
  const bool mixed = argc == 4 && std::string(argv[1]) == "mixed";
  if (argc != 4 || (!mixed && !formats.contains(argv[1]))) {
    std::fputs("usage: quantised_checkpoint FORMAT FROM TO\nformats: mixed", stderr);
    for (const auto& [name, format] : formats) std::fprintf(stderr, " %s", name.c_str());
    std::fputs("\n", stderr);
    return 2;
  }
  if (mixed) {
    tutti::WriteMixed(argv[2], argv[3]);
  } else {
    tutti::worker::MakeQuantisedCopy(argv[2], formats[argv[1]], argv[3], "bfloat16");
  }
  return 0;
}
