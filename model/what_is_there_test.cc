#include "model/what_is_there.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/files_testing.h"

namespace tutti::model {
namespace {

using testing::HasSubstr;

TEST(WhatIsThere, SaysWhatIsThereInstead) {
  const auto said = [](const std::vector<std::string>& files) {
    TempDir dir;
    for (const std::string& file : files) dir.Write(file, "x");
    return std::string(DescribeNoCheckpoint(dir.path()).message());
  };
  EXPECT_THAT(said({"adapter_config.json", "adapter_model.safetensors"}),
              HasSubstr("an adapter (adapter_config.json)"));
  EXPECT_THAT(said({"consolidated.00.pth"}), HasSubstr("in their makers' own layout"));
  EXPECT_THAT(said({"consolidated.safetensors"}), HasSubstr("in their makers' own layout"));
  EXPECT_THAT(said({"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}),
              HasSubstr("fetch model.safetensors.index.json"));
  EXPECT_THAT(said({"model-00002-of-00002.safetensors"}),
              HasSubstr("fetch model.safetensors.index.json"));
  EXPECT_THAT(said({"mine.safetensors"}), HasSubstr("\"mine.safetensors\" is there"));
}

TEST(WhatIsThere, SaysHowNamesDiffer) {
  const auto said = [](const std::string& has, std::string_view name) {
    const std::vector<TensorInfo> tensors = {{.name = "first"}, {.name = has}};
    return DescribeOtherName(tensors, name);
  };
  EXPECT_THAT(said("wrapped.model.norm.weight", "model.norm.weight"),
              HasSubstr("its names begin with \"wrapped.\""));
  EXPECT_EQ(said("wrapped.model.norm.weight", "model.other.weight"), "");
  EXPECT_THAT(said("norm.weight", "model.norm.weight"), HasSubstr("its names lack \"model.\""));
}

}  // namespace
}  // namespace tutti::model
