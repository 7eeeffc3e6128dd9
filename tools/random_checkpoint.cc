#include "tools/random_checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/random.h"
#include "model/safetensors.h"
#include "model/weight_map.h"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

// 1 or 2 MiB: fits a cache, and a write() of it costs little beside the copy.
constexpr int64_t kChunkElements = 1 << 19;
constexpr float kWeightDeviation = 0.02f;
constexpr float kNormSpread = 0.1f;

// A bijection of 64 bits that passes for random on a counter (Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014). Weights need speed, not more than that.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

uint16_t ToBF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// Rounds to nearest, for |value| below 2, which includes all we write; subnormal results are
// rounded the same way.
uint16_t ToF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t sign = bits >> 31 << 15;
  const float magnitude = std::fabs(value);
  if (magnitude < 0x1p-14f) {
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(magnitude * 0x1p24f)));
  }
  std::memcpy(&bits, &magnitude, sizeof(bits));
  const uint32_t rounded = bits + 0xFFF + ((bits >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

template <typename T, typename Convert>
void Fill(uint64_t key, int64_t first, int64_t count, float mean, float spread, T* out,
          Convert convert) {
  const float scale = spread / 32768.0f;
  const auto value = [&](uint64_t bits, int lane) {
    // The middle of each of 65,536 equal steps, so that the mean is exact.
    const auto step = static_cast<int16_t>(bits >> (16 * lane));
    return convert(mean + (static_cast<float>(step) + 0.5f) * scale);
  };
  uint64_t counter = key + static_cast<uint64_t>(first) / 4;
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const uint64_t bits = Mix(counter++);
    for (int lane = 0; lane < 4; ++lane) out[i + lane] = value(bits, lane);
  }
  const uint64_t bits = Mix(counter);
  for (int lane = 0; i < count; ++i, ++lane) out[i] = value(bits, lane);
}

// FNV-1a: the same on every machine, unlike std::hash.
uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001B3;
  return hash;
}

bool IsNorm(model::Role role) {
  return role == model::Role::kInputNorm || role == model::Role::kPostAttentionNorm ||
         role == model::Role::kFinalNorm || role == model::Role::kQueryNorm ||
         role == model::Role::kKeyNorm;
}

struct Planned {
  model::TensorInfo info;
  model::Role role;
};

std::vector<Planned> PlanTensors(const model::ModelConfig& config) {
  std::vector<Planned> tensors;
  for (model::CheckpointTensor& listed : model::ListCheckpointTensors(config)) {
    Planned tensor;
    tensor.role = listed.role;
    tensor.info.name = std::move(listed.name);
    tensor.info.dtype = model::StoredTypeOf(config.dtype);
    tensor.info.shape = std::move(listed.shape);
    tensor.info.bytes = DTypeBytes(config.dtype);
    for (int64_t size : tensor.info.shape) tensor.info.bytes *= size;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<std::vector<Planned>> PlanShards(std::vector<Planned> tensors, int64_t shard_bytes) {
  std::vector<std::vector<Planned>> shards(1);
  int64_t bytes = 0;
  for (Planned& tensor : tensors) {
    if (shard_bytes > 0 && bytes > 0 && bytes + tensor.info.bytes > shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += tensor.info.bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

// A file that has its name only once Commit was called.
class NewFile {
 public:
  explicit NewFile(std::string path)
      : path_(std::move(path)), file_(std::fopen(Partial().c_str(), "wb"), std::fclose) {
    if (file_ == nullptr) error_ = errno;
  }
  ~NewFile() {
    file_.reset();
    std::remove(Partial().c_str());
  }

  void Write(const void* data, size_t bytes) {
    if (error_ == 0 && std::fwrite(data, 1, bytes, file_.get()) != bytes) error_ = errno;
  }

  absl::Status Commit() {
    if (error_ == 0 && std::fclose(file_.release()) != 0) error_ = errno;
    if (error_ == 0 && std::rename(Partial().c_str(), path_.c_str()) != 0) error_ = errno;
    if (error_ == 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("writing ", path_, ": ", std::strerror(error_)));
  }

  bool ok() const { return error_ == 0; }

 private:
  std::string Partial() const { return path_ + ".partial"; }

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  int error_ = 0;
};

class Writer {
 public:
  Writer(const model::ModelConfig& config, const RandomCheckpointOptions& options,
         const WriteProgress& progress, int64_t total)
      : config_(config),
        options_(options),
        progress_(progress),
        total_(total),
        chunk_(kChunkElements * DTypeBytes(config.dtype)) {}

  absl::Status WriteShard(const std::string& name, const std::vector<Planned>& tensors) {
    NewFile file(options_.output_dir + "/" + name);
    std::vector<model::TensorInfo> infos;
    for (const Planned& tensor : tensors) infos.push_back(tensor.info);
    const std::string header = model::MakeSafetensorsHeader(infos);
    file.Write(header.data(), header.size());
    for (const Planned& tensor : tensors) WriteTensor(tensor, &file);
    return file.Commit();
  }

 private:
  void WriteTensor(const Planned& tensor, NewFile* file) {
    const uint64_t key = RandomBits(options_.seed, HashName(tensor.info.name));
    const bool norm = IsNorm(tensor.role);
    const float scale = tensor.role == model::Role::kHead ? options_.head_scale : 1;
    const float spread = norm ? kNormSpread : scale * kWeightDeviation * std::sqrt(3.0f);
    const int64_t element = DTypeBytes(config_.dtype);
    const int64_t count = tensor.info.bytes / element;
    for (int64_t at = 0; at < count && file->ok(); at += kChunkElements) {
      const int64_t n = std::min(kChunkElements, count - at);
      FillRandom(key, at, n, config_.dtype, norm ? 1.0f : 0.0f, spread, chunk_.data());
      file->Write(chunk_.data(), static_cast<size_t>(n * element));
      done_ += n * element;
      progress_(done_, total_);
    }
  }

  const model::ModelConfig& config_;
  const RandomCheckpointOptions& options_;
  const WriteProgress& progress_;
  const int64_t total_;
  int64_t done_ = 0;
  std::vector<std::byte> chunk_;
};

absl::Status WriteIndex(const std::string& dir, const nlohmann::json& weight_map, int64_t total) {
  nlohmann::json index;
  index["metadata"]["total_size"] = total;
  index["weight_map"] = weight_map;
  NewFile file(dir + "/model.safetensors.index.json");
  const std::string text = index.dump(2) + "\n";
  file.Write(text.data(), text.size());
  return file.Commit();
}

}  // namespace

void FillRandom(uint64_t key, int64_t first, int64_t count, DType dtype, float mean, float spread,
                std::byte* out) {
  switch (dtype) {
    case DType::kF32:
      Fill(key, first, count, mean, spread, reinterpret_cast<float*>(out),
           [](float v) { return v; });
      break;
    case DType::kBF16:
      Fill(key, first, count, mean, spread, reinterpret_cast<uint16_t*>(out), ToBF16);
      break;
    case DType::kF16:
      Fill(key, first, count, mean, spread, reinterpret_cast<uint16_t*>(out), ToF16);
      break;
  }
}

absl::Status WriteRandomCheckpoint(const model::ModelConfig& config,
                                   const RandomCheckpointOptions& options,
                                   const WriteProgress& progress) {
  int64_t total = 0;
  std::vector<Planned> tensors = PlanTensors(config);
  for (const Planned& tensor : tensors) total += tensor.info.bytes;
  const auto shards = PlanShards(std::move(tensors), options.shard_bytes);

  // An older checkpoint in the other layout would shadow this one, or mix with it.
  std::error_code ignored;
  fs::remove(options.output_dir + "/model.safetensors", ignored);
  fs::remove(options.output_dir + "/model.safetensors.index.json", ignored);

  Writer writer(config, options, progress, total);
  if (shards.size() == 1) return writer.WriteShard("model.safetensors", shards[0]);
  nlohmann::json weight_map;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, shards.size());
    TUTTI_RETURN_IF_ERROR(writer.WriteShard(name, shards[i]));
    for (const Planned& tensor : shards[i]) weight_map[tensor.info.name] = name;
  }
  return WriteIndex(options.output_dir, weight_map, total);
}

}  // namespace tutti::tools
