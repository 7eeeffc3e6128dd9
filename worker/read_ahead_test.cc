#include "worker/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint_testing.h"

namespace tutti::worker {
namespace {

using model::StoredType;
using model::TensorOf;
using testing::HasSubstr;

constexpr int64_t kTensorBytes = 700'000;
constexpr int kTensors = 24;

struct ReadAheadTest : testing::Test {
  ReadAheadTest() {
    std::vector<model::TensorInfo> tensors;
    for (int i = 0; i < kTensors; ++i) {
      tensors.push_back(TensorOf("t" + std::to_string(i), StoredType::kU8, {kTensorBytes}));
    }
    file = model::FileOf(tensors);
    dir.Write("model.safetensors", file);
    checkpoint = *model::Checkpoint::Open(dir.path());
  }
  // One item of each tensor.
  std::vector<ReadItem> Items() const {
    std::vector<ReadItem> items;
    for (const model::TensorInfo& tensor : checkpoint->tensors()) {
      const model::TensorSlice slice = {
          .begin = 0, .rows = 1, .row_bytes = tensor.bytes, .stride = tensor.bytes};
      items.push_back({.parts = {{.tensor = &tensor, .slice = slice}}});
    }
    return items;
  }

  TempDir dir;
  std::string file;
  std::unique_ptr<model::Checkpoint> checkpoint;
};

TEST_F(ReadAheadTest, GivesEveryItemInOrderWithAnyRoom) {
  for (const int threads : {1, 3}) {
    for (const int64_t room : {int64_t{1}, 2 * kTensorBytes, int64_t{1} << 30}) {
      ReadAhead ahead(checkpoint.get(), Items(), threads, room);
      for (const model::TensorInfo& tensor : checkpoint->tensors()) {
        const auto bytes = ahead.Next([] {});
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        ASSERT_EQ(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()),
                  file.substr(static_cast<size_t>(tensor.offset), kTensorBytes))
            << tensor.name;
      }
      const auto runs = ahead.Finish();
      ASSERT_TRUE(runs.ok()) << runs.status();
      ASSERT_EQ(runs->size(), 1u);
      EXPECT_EQ((*runs)[0].chunks(), model::ChunkCount(static_cast<int64_t>(file.size())));
    }
  }
}

// A mapped file would end the process here.
TEST_F(ReadAheadTest, AFileThatShrinksMeanwhileIsNamed) {
  ReadAhead ahead(checkpoint.get(), Items(), 2, 1);
  ASSERT_TRUE(ahead.Next([] {}).ok());
  ASSERT_EQ(truncate(dir.File("model.safetensors").c_str(), 5 * kTensorBytes), 0);
  absl::Status status;
  for (int i = 1; i < kTensors && status.ok(); ++i) status = ahead.Next([] {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("model.safetensors"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"t"));
}

TEST_F(ReadAheadTest, AFileThatWasWrittenToIsRefusedAtTheEnd) {
  ReadAhead ahead(checkpoint.get(), Items(), 2, int64_t{1} << 30);
  for (int i = 0; i < kTensors; ++i) ASSERT_TRUE(ahead.Next([] {}).ok());
  dir.Write("model.safetensors", file);
  EXPECT_THAT(std::string(ahead.Finish().status().message()), HasSubstr("changed since"));
}

TEST_F(ReadAheadTest, MayEndAtAnyTime) {
  for (int taken = 0; taken < 3; ++taken) {
    ReadAhead ahead(checkpoint.get(), Items(), 3, 2 * kTensorBytes);
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(ahead.Next([] {}).ok());
  }
}

}  // namespace
}  // namespace tutti::worker
