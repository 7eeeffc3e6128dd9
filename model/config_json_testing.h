// A config.json that is right, to be changed, and what becomes of it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "model/checkpoint_testing.h"
#include "model/config_json.h"

namespace tutti::model {

inline nlohmann::json ValidRoot() { return nlohmann::json::parse(ConfigText(TinyConfig())); }

inline absl::StatusOr<ModelConfig> ParseRoot(const nlohmann::json& root) {
  return ParseModelConfig(root.dump(), "config.json");
}

inline void ExpectRootRefused(const nlohmann::json& root, absl::StatusCode code,
                              const std::string& text) {
  const auto config = ParseRoot(root);
  EXPECT_EQ(config.status().code(), code) << text << ": " << config.status();
  EXPECT_THAT(std::string(config.status().message()), testing::HasSubstr(text));
  EXPECT_THAT(std::string(config.status().message()), testing::HasSubstr("config.json"));
}

inline void ExpectRootInvalid(const nlohmann::json& root, const std::string& text) {
  ExpectRootRefused(root, absl::StatusCode::kInvalidArgument, text);
}

inline void ExpectRootUnsupported(const nlohmann::json& root, const std::string& text) {
  ExpectRootRefused(root, absl::StatusCode::kUnimplemented, text);
}

}  // namespace tutti::model
