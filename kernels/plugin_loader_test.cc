#include "kernels/plugin_loader.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/files_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/plugin_abi.h"

namespace tutti::kernels {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PluginAbiTest, BothSidesMustComeFromOneBuild) {
  const PluginIdentity host = ThisSide();
  EXPECT_EQ(PluginMismatch(host, ThisSide()), "");
  PluginIdentity other = host;
  other.abi_version = kPluginAbiVersion + 1;
  EXPECT_THAT(PluginMismatch(host, other), HasSubstr(absl::StrCat("version ", kPluginAbiVersion)));
  other = host;
  other.build_stamp = "0.0.1-other";
  EXPECT_THAT(PluginMismatch(host, other),
              AllOf(HasSubstr("0.0.1-other"), HasSubstr(std::string(BuildStamp()))));
  other = host;
  other.toolchain = "gcc 4";
  EXPECT_THAT(PluginMismatch(host, other), AllOf(HasSubstr("gcc 4"), HasSubstr(__VERSION__)));
}

TEST(PluginLoaderTest, SaysWhereItLooked) {
  const auto backend = OpenPluginBackend("libtutti_nothing.so", {"/nowhere", "/else"}, 0, {});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(backend.status().message()),
              AllOf(HasSubstr("libtutti_nothing.so"), HasSubstr("/nowhere, /else")));
}

TEST(PluginLoaderTest, KnowsWhereNoGpuIsThatWouldNeedIt) {
  TempDir root;
  const std::filesystem::path devices = root.File("sys/bus/pci/devices");
  const auto add = [&](const char* address, const char* vendor, const char* of_class) {
    std::filesystem::create_directories(devices / address);
    std::ofstream(devices / address / "vendor") << vendor << "\n";
    std::ofstream(devices / address / "class") << of_class << "\n";
  };
  EXPECT_FALSE(MayHaveGpu(root.path()));
  add("0000:00:02.0", "0x8086", "0x030000");
  add("0000:01:00.1", "0x10de", "0x040300");  // the sound of a card
  EXPECT_FALSE(MayHaveGpu(root.path()));
  add("0000:01:00.0", "0x10de", "0x030200");
  EXPECT_TRUE(MayHaveGpu(root.path()));
  TempDir wsl;
  std::filesystem::create_directories(wsl.File("dev/dxg"));
  EXPECT_TRUE(MayHaveGpu(wsl.path()));
}

TEST(PluginLoaderTest, OnlyTheFolderThatIsSetIsSearched) {
  setenv("TUTTI_PLUGIN_DIR", "/some/folder", 1);
  EXPECT_THAT(PluginDirectories(), ::testing::ElementsAre("/some/folder"));
  unsetenv("TUTTI_PLUGIN_DIR");
  for (const std::string& directory : PluginDirectories()) EXPECT_EQ(directory[0], '/');
}

TEST(PluginLoaderTest, RefusesOtherLibrariesAndOtherFiles) {
  const std::string source = std::getenv("TUTTI_SOURCE_DIR");
  const auto text = OpenPluginBackend("README.md", {source}, 0, {});
  EXPECT_EQ(text.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("README.md"));
}

TEST(PluginLoaderTest, KernelsAreLoadedAtOnceUnlessTheLibrarysWouldBeToo) {
  const char* const variable = "CUDA_MODULE_LOADING";
  unsetenv(variable);
  LoadGpuKernelsAtOnce("cuda-sm90-cublas");
  EXPECT_EQ(std::getenv(variable), nullptr);
  for (const char* numerics_class : {"", "cuda-sm90"}) {
    LoadGpuKernelsAtOnce(numerics_class);
    EXPECT_STREQ(std::getenv(variable), "EAGER");
    unsetenv(variable);
  }
  setenv(variable, "LAZY", 1);
  LoadGpuKernelsAtOnce("");
  EXPECT_STREQ(std::getenv(variable), "LAZY");
  unsetenv(variable);
}

TEST(RegistryTest, CudaNamesADevice) {
  setenv("TUTTI_PLUGIN_DIR", "/some/folder", 1);
  for (const char* name : {"cuda", "cuda:0", "cuda:17"}) {
    const auto backend = CreateBackend(name, {});
    EXPECT_THAT(std::string(backend.status().message()),
                AllOf(HasSubstr("device "), HasSubstr("no libtutti_cuda.so in /some/folder")));
  }
  for (const char* name : {"cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cuda0", "cuda:99999999999"}) {
    EXPECT_THAT(std::string(CreateBackend(name, {}).status().message()), HasSubstr("no backend"));
  }
}

}  // namespace
}  // namespace tutti::kernels
