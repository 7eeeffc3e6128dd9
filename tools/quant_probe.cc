// quant_probe FILE_OR_DIR PREFIX [--quantization-config JSON]: what a quantised matrix stands for.
//
// Prints one line of JSON: its shape [out, in], and the SHA-256 of its weights [out, in] as f32 and
// rounded to bf16, both little-endian.
#include <openssl/evp.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/float_formats.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "quant/quant_reader.h"
#include "text/text_file.h"

namespace tutti::tools {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(const void* data, size_t bytes) { EVP_DigestUpdate(context_, data, bytes); }
  std::string Finish() {
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_, hash, &size);
    std::string text;
    for (unsigned int i = 0; i < size; ++i) {
      constexpr char kDigits[] = "0123456789abcdef";
      text += {kDigits[hash[i] >> 4], kDigits[hash[i] & 15]};
    }
    return text;
  }

 private:
  EVP_MD_CTX* const context_;
};

// What a folder's config.json, or quantize_config.json, says.
absl::StatusOr<nlohmann::json> FindConfig(const std::string& path) {
  std::filesystem::path folder = path;
  if (!std::filesystem::is_directory(folder)) folder = folder.parent_path();
  for (const char* name : {"config.json", "quantize_config.json"}) {
    const std::string file = (folder / name).string();
    if (!text::IsThere(file)) continue;
    TUTTI_ASSIGN_OR_RETURN(const std::string text,
                           text::ReadTextFile(file, model::kConfigBytesMax));
    TUTTI_ASSIGN_OR_RETURN(nlohmann::json root,
                           model::ParseJson(text, file, model::kConfigBytesMax));
    if (std::string_view(name) == "quantize_config.json") return root;
    for (const char* field : {"quantization_config", "compression_config"}) {
      if (root.is_object() && root.contains(field)) return root[field];
    }
  }
  return absl::NotFoundError(path +
                             ": nothing says how it is quantised; give "
                             "--quantization-config JSON");
}

absl::Status Probe(const std::string& path, const std::string& prefix,
                   const std::optional<std::string>& given) {
  nlohmann::json object;
  if (given.has_value()) {
    TUTTI_ASSIGN_OR_RETURN(
        object, model::ParseJson(*given, "--quantization-config", model::kConfigBytesMax));
  } else {
    TUTTI_ASSIGN_OR_RETURN(object, FindConfig(path));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::vector<model::QuantConfig> configs,
                         model::ParseQuantConfigs(object, "quantization_config"));
  TUTTI_ASSIGN_OR_RETURN(const auto source, quant::OpenTensors(path));
  const auto find = [&](const std::string& name) { return source->Find(name); };
  if (!model::IsQuantised(find, prefix)) {
    return absl::NotFoundError(path + ": no quantised matrix \"" + prefix + "\"");
  }
  // The first of the formats that the tensors have.
  absl::StatusOr<quant::QuantMatrix> read = absl::InternalError("no format");
  for (size_t i = 0; i < configs.size() && !read.ok(); ++i) {
    read = quant::ReadQuantMatrix(*source, prefix, configs[i]);
  }
  TUTTI_ASSIGN_OR_RETURN(const quant::QuantMatrix matrix, std::move(read));
  Sha256 f32, bf16;
  std::vector<float> row(static_cast<size_t>(matrix.in));
  std::vector<uint16_t> rounded(row.size());
  for (int64_t n = 0; n < matrix.out; ++n) {
    matrix.Dequantise(n, row.data());
    for (size_t k = 0; k < row.size(); ++k) rounded[k] = kernels::F32ToBf16(row[k]);
    f32.Add(row.data(), row.size() * sizeof(float));
    bf16.Add(rounded.data(), rounded.size() * sizeof(uint16_t));
  }
  const nlohmann::ordered_json result = {{"shape", {matrix.out, matrix.in}},
                                         {"sha256_f32", f32.Finish()},
                                         {"sha256_bf16", bf16.Finish()}};
  std::cout << result.dump() << "\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace tutti::tools

int main(int argc, char** argv) {
  const bool with_config = argc == 5 && std::string_view(argv[3]) == "--quantization-config";
  if (argc != 3 && !with_config) {
    std::cerr << "usage: quant_probe FILE_OR_DIR PREFIX [--quantization-config JSON]\n"
                 "  quant_probe Qwen2.5-7B-Instruct-AWQ model.layers.0.mlp.up_proj\n";
    return 2;
  }
  const absl::Status done = tutti::tools::Probe(
      argv[1], argv[2], with_config ? std::optional<std::string>(argv[4]) : std::nullopt);
  if (done.ok()) return 0;
  std::cerr << "quant_probe: " << done.message() << "\n";
  return 1;
}
