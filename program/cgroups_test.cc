#include "program/cgroups.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/files_testing.h"

namespace tutti {
namespace {

class CgroupsTest : public ::testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.File(file)).parent_path());
    folder_.Write(file, text);
  }
  CgroupLimits Read(const std::string& cgroups) {
    return ReadCgroupLimits(cgroups, folder_.path());
  }

  TempDir folder_;
};

TEST_F(CgroupsTest, WithoutFilesThereIsNoLimit) {
  for (const char* cgroups : {"", "0::/\n", "0::/a/b\n", "4:memory:/x\n1:cpu:/\n", "nonsense",
                              "::", "0::relative\n", "0::/../../etc\n"}) {
    const CgroupLimits limits = Read(cgroups);
    EXPECT_FALSE(limits.memory_bytes_left.has_value()) << cgroups;
    EXPECT_FALSE(limits.cpus.has_value()) << cgroups;
  }
}

TEST_F(CgroupsTest, Version2CountsTheLowestFromOursToTheRoot) {
  Write("pod/memory.max", "1000\n");
  Write("pod/memory.current", "700\n");
  Write("pod/memory.stat", "anon 300\ninactive_file 200\n");
  Write("pod/cpu.max", "150000 100000\n");
  Write("pod/box/memory.max", "max\n");
  Write("pod/box/memory.current", "600\n");
  Write("pod/box/cpu.max", "max 100000\n");
  const CgroupLimits limits = Read("0::/pod/box\n");
  EXPECT_EQ(limits.memory_bytes_left, 500);
  EXPECT_EQ(limits.cpus, 1.5);
  EXPECT_FALSE(Read("0::/other\n").cpus.has_value());
}

TEST_F(CgroupsTest, AContainerIsAtTheRootWhateverItsHostCallsIt) {
  Write("memory.max", "4096\n");
  Write("memory.current", "5000\n");
  Write("cpu.max", "200000 100000\n");
  const CgroupLimits limits = Read("0::/docker/4684b7abc0e6\n");
  EXPECT_EQ(limits.memory_bytes_left, 0);
  EXPECT_EQ(limits.cpus, 2.0);
}

TEST_F(CgroupsTest, Version1HasAFolderForEachController) {
  Write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("memory/memory.usage_in_bytes", "800\n");
  Write("memory/box/memory.limit_in_bytes", "2000\n");
  Write("memory/box/memory.usage_in_bytes", "900\n");
  Write("memory/box/memory.stat", "inactive_file 1\ntotal_inactive_file 400\n");
  Write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  Write("cpu,cpuacct/box/cpu.cfs_quota_us", "50000\n");
  Write("cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  const CgroupLimits limits = Read("4:memory:/box\n1:cpu,cpuacct:/box\n0::/\n");
  EXPECT_EQ(limits.memory_bytes_left, 1500);
  EXPECT_EQ(limits.cpus, 0.5);
  EXPECT_FALSE(Read("4:memory:/\n1:cpu,cpuacct:/\n").memory_bytes_left.has_value());
}

TEST_F(CgroupsTest, BothVersionsBesideEachOther) {
  Write("unified/box/memory.max", "max\n");
  Write("unified/box/cpu.max", "300000 100000\n");
  Write("memory/box/memory.limit_in_bytes", "2000\n");
  Write("memory/box/memory.usage_in_bytes", "500\n");
  const CgroupLimits limits = Read("4:memory:/box\n0::/box\n");
  EXPECT_EQ(limits.memory_bytes_left, 1500);
  EXPECT_EQ(limits.cpus, 3.0);
}

TEST_F(CgroupsTest, StrangeTextsAreNoLimits) {
  Write("cpu.max", "nonsense 100000\n");
  Write("memory.max", "-5x\n");
  Write("memory.current", "1\n");
  EXPECT_FALSE(Read("0::/\n").cpus.has_value());
  EXPECT_FALSE(Read("0::/\n").memory_bytes_left.has_value());
  Write("cpu.max", "100000 0\n");
  EXPECT_FALSE(Read("0::/\n").cpus.has_value());
}

}  // namespace
}  // namespace tutti
