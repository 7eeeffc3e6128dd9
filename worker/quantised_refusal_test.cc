// Quantised checkpoints that are refused, and by which words; and what a fingerprint sees of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/files_testing.h"
#include "model/checkpoint.h"
#include "model/config_json.h"
#include "model/fingerprint.h"
#include "worker/plain_checkpoint_testing.h"
#include "worker/quantised_checkpoint_testing.h"
#include "worker/quantised_formats_testing.h"
#include "worker/quantised_voice_testing.h"

namespace tutti::worker {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class QuantisedRefusalTest : public ::testing::Test {
 protected:
  TempDir dir_;
  const std::string made_ = MakePlainModel(dir_.path());
};

TEST_F(QuantisedRefusalTest, ConfigurationsThatTheTensorsContradict) {
  const QuantisedCopy copy = MakeQuantisedCopy(made_, GptqConfig(4, 32), dir_.File("gptq"));
  const auto with = [&](const std::function<void(json*)>& change) {
    json root = json::parse(ReadWholeFile(copy.codes + "/config.json"));
    change(&root);
    const std::string dir = dir_.File("changed");
    std::filesystem::remove_all(dir);
    std::filesystem::create_directories(dir);
    std::filesystem::copy(copy.codes + "/model.safetensors", dir + "/model.safetensors");
    std::ofstream(dir + "/config.json") << root.dump();
    return dir;
  };
  EXPECT_EQ(LoadSaid(with([](json*) {})), "loaded");
  EXPECT_THAT(LoadSaid(with([](json* root) { root->erase("quantization_config"); })),
              HasSubstr("are quantised, but config.json has no quantization_config"));
  const auto quant = [&](const char* field, const json& value) {
    return with([&](json* root) { (*root)["quantization_config"][field] = value; });
  };
  EXPECT_THAT(LoadSaid(quant("checkpoint_format", "gptq_v2")),
              HasSubstr("qzeros\": output 0 of group 0 has the zero point 7, a symmetric"));
  EXPECT_THAT(LoadSaid(quant("bits", 8)),
              HasSubstr("q_proj.qzeros\": has shape [2, 16], expected [1, 32]"));
  EXPECT_THAT(LoadSaid(quant("bits", 3)), HasSubstr("bits 3 of GPTQ are not supported"));
  EXPECT_THAT(LoadSaid(quant("group_size", 48)), HasSubstr("groups of 48 do not divide"));
  EXPECT_THAT(LoadSaid(quant("quant_method", "bitsandbytes")), HasSubstr("\"bitsandbytes\""));
  EXPECT_THAT(LoadSaid(quant("quant_method", "awq")),
              HasSubstr("qweight\": has 8 inputs, which groups of 32"));
  const std::string both = with([](json*) {});
  std::ofstream(both + "/quantize_config.json")
      << R"({"bits": 4, "group_size": 64, "desc_act": false})";
  EXPECT_THAT(LoadSaid(both), HasSubstr("groups of 64, config.json says GPTQ int4, groups of 32"));
  const std::string old = with([](json* root) { root->erase("quantization_config"); });
  std::ofstream(old + "/quantize_config.json")
      << R"({"bits": 4, "group_size": 32, "desc_act": false, "sym": true})";
  EXPECT_EQ(LoadSaid(old), "loaded") << "as older files have it";
}

// A copy of a folder whose tensors are other ones.
std::string Changed(
    const std::string& from, const std::string& to,
    const std::function<void(std::vector<model::TensorInfo>*, std::string*)>& change) {
  std::filesystem::remove_all(to);
  std::filesystem::create_directories(to);
  std::filesystem::copy(from + "/config.json", to + "/config.json");
  std::vector<model::TensorInfo> tensors = (*model::Checkpoint::Open(from))->tensors();
  int64_t bytes = 0;
  for (const model::TensorInfo& tensor : tensors) bytes += tensor.bytes;
  std::string data = ReadWholeFile(from + "/model.safetensors");
  data.erase(0, data.size() - static_cast<size_t>(bytes));
  change(&tensors, &data);
  std::ofstream(to + "/model.safetensors", std::ios::binary)
      << model::MakeSafetensorsHeader(tensors) << data;
  return to;
}

TEST_F(QuantisedRefusalTest, TensorsThatAreNotAsTheFormatHasThem) {
  const QuantisedCopy copy = MakeQuantisedCopy(made_, GptqConfig(4, 32), dir_.File("gptq"));
  const std::string to = dir_.File("changed"), down = "model.layers.1.mlp.down_proj";
  const auto renamed = [&](const std::string& old, const std::string& name) {
    return Changed(copy.codes, to, [&](auto* tensors, std::string*) {
      for (model::TensorInfo& tensor : *tensors) {
        if (tensor.name == old) tensor.name = name;
      }
    });
  };
  for (const char* part : {".qweight", ".qzeros", ".scales"}) {
    EXPECT_THAT(LoadSaid(renamed(down + part, "other")),
                HasSubstr(absl::StrCat("\"", down, part, "\": is missing")));
  }
  EXPECT_THAT(LoadSaid(renamed(down + ".qweight", down + ".weight")),
              HasSubstr("down_proj.weight\" (down) has dtype I32, expected F32"));
  const auto with_bias = [&](char last) {
    return Changed(copy.codes, to, [&](auto* tensors, std::string* data) {
      model::TensorInfo bias;
      bias.name = down + ".bias";
      bias.dtype = model::StoredType::kF16;
      bias.shape = {64};
      bias.bytes = 128;
      tensors->push_back(bias);
      data->append(127, '\0').push_back(last);
    });
  };
  EXPECT_EQ(LoadSaid(with_bias('\0')), "loaded") << "as some packers write them";
  EXPECT_EQ(LoadSaid(with_bias('\x80')), "loaded") << "a zero with a sign";
  EXPECT_THAT(LoadSaid(with_bias(1)),
              HasSubstr("down_proj.bias\": is not all zeros, and the model has no such bias"));
  // The first scale.
  const auto with_scale = [&](uint16_t bits) {
    return Changed(copy.codes, to, [&](auto* tensors, std::string* data) {
      size_t at = 0;
      for (const model::TensorInfo& tensor : *tensors) {
        if (tensor.name == down + ".scales") std::memcpy(data->data() + at, &bits, sizeof(bits));
        at += static_cast<size_t>(tensor.bytes);
      }
    });
  };
  for (const uint16_t bad : {0x0000, 0x7c00, 0x7e00, 0xbc00}) {
    EXPECT_THAT(LoadSaid(with_scale(bad)), HasSubstr("down_proj.scales\": element 0 is")) << bad;
  }
}

TEST_F(QuantisedRefusalTest, TheFormatIsPartOfTheFingerprint) {
  const QuantisedCopy copy = MakeQuantisedCopy(made_, GptqConfig(4, 32), dir_.File("gptq"));
  const std::string before = *model::ModelFingerprint(copy.codes);
  json root = json::parse(ReadWholeFile(copy.codes + "/config.json"));
  root["quantization_config"]["checkpoint_format"] = "gptq_v2";
  std::ofstream(copy.codes + "/config.json") << root.dump();
  EXPECT_NE(*model::ModelFingerprint(copy.codes), before);
}

}  // namespace
}  // namespace tutti::worker
