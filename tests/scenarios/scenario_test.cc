// Runs every scenario beside this file. With TUTTI_REWRITE=1 the files are rewritten with what the
// engine does now; read the difference before you commit it.
#include "tests/support/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tutti::tests {
namespace {

std::vector<std::string> ScenarioFiles() {
  const char* const root = std::getenv("TUTTI_SOURCE_DIR");
  std::vector<std::string> files;
  if (root == nullptr) return files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(root) / "tests" / "scenarios")) {
    if (entry.path().extension() == ".txt" && entry.path().filename() != "CMakeLists.txt") {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(ScenarioTest, AllFiles) {
  const std::vector<std::string> files = ScenarioFiles();
  ASSERT_GE(files.size(), 12u) << "run by ctest, or with TUTTI_SOURCE_DIR set";
  const char* const rewrite = std::getenv("TUTTI_REWRITE");
  for (const std::string& file : files) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    const std::string now = RunScenario(text.str());
    if (rewrite != nullptr && std::string(rewrite) == "1") {
      std::ofstream(file) << now;
      continue;
    }
    EXPECT_EQ(now, text.str()) << file << ": rewrite with TUTTI_REWRITE=1 if this is intended";
  }
}

TEST(ScenarioTest, CommandsThatCannotBeAreSaid) {
  Scenario scenario;
  EXPECT_EQ(scenario.RunBlock("join w1"), "\"join w1\": no engine yet\n");
  EXPECT_EQ(scenario.RunBlock("engine\nlost w9 x"), "\"lost w9 x\": no such worker\n");
  EXPECT_EQ(scenario.RunBlock("engine\nresult"), "\"result\": no last stage\n");
}

}  // namespace
}  // namespace tutti::tests
