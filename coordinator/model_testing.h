// A ServedModel for tests: the demo model's tokenizer and template, its configuration, no weights.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "base/check.h"
#include "coordinator/service/served_model.h"

namespace tutti::coordinator {

inline std::string DemoModelDir() {
  const char* source = std::getenv("TUTTI_SOURCE_DIR");
  return std::string(source != nullptr ? source : ".") + "/models/demo";
}

inline std::unique_ptr<ServedModel> LoadDemoModel() {
  auto model = ServedModel::Load(DemoModelDir(), "demo", 0);
  CHECK(model.ok()) << model.status().ToString();
  return *std::move(model);
}

}  // namespace tutti::coordinator
