// Writes a checkpoint of codes as a format's packers do, of one in 16 or 32 bits, for
// quantised_test.py: quantised_checkpoint FORMAT FROM TO makes TO/codes.

#include <cstdio>
#include <map>

#include "worker/quantised_checkpoint_testing.h"
#include "worker/quantised_formats_testing.h"

int main(int argc, char** argv) {
  std::map<std::string, nlohmann::json> formats = tutti::worker::QuantisedFormats();
  formats["w8a8"] = tutti::worker::Integers(true);
  if (argc != 4 || !formats.contains(argv[1])) {
    std::fputs("usage: quantised_checkpoint FORMAT FROM TO\nformats:", stderr);
    for (const auto& [name, format] : formats) std::fprintf(stderr, " %s", name.c_str());
    std::fputs("\n", stderr);
    return 2;
  }
  tutti::worker::MakeQuantisedCopy(argv[2], formats[argv[1]], argv[3], "bfloat16");
  return 0;
}
