#include "model/chunk_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "model/checkpoint_digests.h"
#include "model/checkpoint_testing.h"
#include "model/partition.h"

namespace tutti::model {
namespace {

using testing::HasSubstr;

constexpr int64_t kMiB = kDigestChunkBytes;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

// Edge chunks of one reader alone.
std::shared_ptr<EdgeChunks> Edges() { return std::make_shared<EdgeChunks>(kEdgeChunksKept); }

// Tensors "a" of 2.5 MiB, "b" of 3 bytes and "c" of 1.25 MiB, in one file.
struct ChunkReaderTest : testing::Test {
  ChunkReaderTest() {
    file =
        FileOf({TensorOf("a", StoredType::kU8, {5, kMiB / 2}), TensorOf("b", StoredType::kU8, {3}),
                TensorOf("c", StoredType::kU8, {1280, 1024})});
    dir.Write("model.safetensors", file);
    checkpoint = *Checkpoint::Open(dir.path());
  }
  std::string Read(ChunkReader* reader, const std::string& name, const TensorSlice& slice) {
    std::string out(static_cast<size_t>(slice.bytes()), '\0');
    const absl::Status status =
        reader->Read(*checkpoint->Find(name), slice, reinterpret_cast<std::byte*>(out.data()));
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }
  std::string DigestsOf(int64_t first, int64_t count) const {
    std::string digests;
    for (int64_t chunk = first; chunk < first + count; ++chunk) {
      const ChunkDigest digest = DigestOf(std::as_bytes(std::span(file).subspan(
          static_cast<size_t>(chunk * kMiB),
          static_cast<size_t>(std::min<int64_t>(kMiB, file.size() - chunk * kMiB)))));
      digests.append(reinterpret_cast<const char*>(digest.data()), digest.size());
    }
    return digests;
  }

  TempDir dir;
  std::string file;
  std::unique_ptr<Checkpoint> checkpoint;
};

TEST_F(ChunkReaderTest, ReadsSlicesAndDigestsTheChunksTheyTouch) {
  const TensorInfo& c = *checkpoint->Find("c");
  ChunkReader reader(checkpoint.get(), Edges());
  EXPECT_EQ(Read(&reader, "c", {.begin = 0, .rows = 1280, .row_bytes = 1024, .stride = 1024}),
            file.substr(c.offset, c.bytes));
  // Columns 100 to 199 of all rows.
  const std::string columns =
      Read(&reader, "c", {.begin = 100, .rows = 1280, .row_bytes = 100, .stride = 1024});
  for (size_t row = 0; row < 1280; ++row) {
    ASSERT_EQ(columns.substr(row * 100, 100), file.substr(c.offset + row * 1024 + 100, 100)) << row;
  }
  const std::vector<ChunkRun> runs = reader.Report();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].file, "model.safetensors");
  EXPECT_EQ(runs[0].first_chunk, 2);
  EXPECT_EQ(runs[0].digests, DigestsOf(2, 2));
  EXPECT_TRUE(reader.CheckUnchanged().ok());
}

TEST_F(ChunkReaderTest, OneByteTakesItsWholeChunk) {
  ChunkReader reader(checkpoint.get(), Edges());
  EXPECT_EQ(Read(&reader, "a", {.begin = 3, .rows = 1, .row_bytes = 1, .stride = 1}),
            file.substr(checkpoint->Find("a")->offset + 3, 1));
  EXPECT_EQ(Read(&reader, "a", {}), "");
  ASSERT_EQ(reader.Report().size(), 1u);
  EXPECT_EQ(reader.Report()[0].digests, DigestsOf(0, 1));
}

TEST_F(ChunkReaderTest, ReadersOfOneCheckpointAddUp) {
  ChunkReader one(checkpoint.get(), Edges()), other(checkpoint.get(), Edges());
  Read(&one, "a", {.begin = 0, .rows = 1, .row_bytes = 10, .stride = 10});
  Read(&other, "c", {.begin = 0, .rows = 1, .row_bytes = 1280 * 1024, .stride = 1280 * 1024});
  ASSERT_TRUE(one.Merge(other).ok());
  ASSERT_EQ(one.Report().size(), 2u);
  EXPECT_EQ(one.Report()[1].first_chunk, 2);
}

// "b" begins and ends within the chunk in which "a" ends: who has read it is asked no more.
TEST_F(ChunkReaderTest, ReadersShareTheChunksOfTheirEdges) {
  const auto edges = Edges();
  ChunkReader one(checkpoint.get(), edges), other(checkpoint.get(), edges);
  const TensorInfo& a = *checkpoint->Find("a");
  Read(&one, "a", {.begin = 0, .rows = 1, .row_bytes = a.bytes, .stride = a.bytes});
  EXPECT_EQ(Read(&other, "b", {.begin = 0, .rows = 1, .row_bytes = 3, .stride = 3}),
            file.substr(static_cast<size_t>(checkpoint->Find("b")->offset), 3));
  EXPECT_TRUE(other.Report().empty());
  ASSERT_TRUE(one.Merge(other).ok());
  EXPECT_EQ(one.Report()[0].digests, DigestsOf(0, 3));
  EXPECT_TRUE(other.CheckUnchanged().ok());
}

TEST_F(ChunkReaderTest, AFileThatShrinksIsNamed) {
  ChunkReader reader(checkpoint.get(), Edges());
  Read(&reader, "b", {.begin = 0, .rows = 1, .row_bytes = 3, .stride = 3});
  ASSERT_EQ(truncate(dir.File("model.safetensors").c_str(), 3 * kMiB), 0);
  std::vector<std::byte> out(1280 * 1024);
  const absl::Status status =
      reader.Read(*checkpoint->Find("c"),
                  {.begin = 0, .rows = 1280, .row_bytes = 1024, .stride = 1024}, out.data());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("model.safetensors: ends at byte 3145728"));
  EXPECT_THAT(MessageOf(status), HasSubstr("tensor \"c\""));
  EXPECT_EQ(reader.CheckUnchanged().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ChunkReaderTest, AFileThatIsWrittenToIsNamed) {
  ChunkReader reader(checkpoint.get(), Edges());
  Read(&reader, "b", {.begin = 0, .rows = 1, .row_bytes = 3, .stride = 3});
  std::filesystem::last_write_time(dir.File("model.safetensors"),
                                   std::filesystem::file_time_type::clock::now());
  EXPECT_THAT(MessageOf(reader.CheckUnchanged()), HasSubstr("model.safetensors: changed since"));

  // Two reads of one chunk see different bytes.
  ChunkReader first(checkpoint.get(), Edges()), second(checkpoint.get(), Edges());
  dir.Write("model.safetensors", file);
  checkpoint = *Checkpoint::Open(dir.path());
  ChunkReader before(checkpoint.get(), Edges()), after(checkpoint.get(), Edges());
  const TensorSlice one = {.begin = 0, .rows = 1, .row_bytes = 1, .stride = 1};
  Read(&before, "a", one);
  Read(&after, "b", one);  // opens the file while it is unchanged
  const int64_t at = checkpoint->Find("a")->offset;
  FILE* const open = std::fopen(dir.File("model.safetensors").c_str(), "r+");
  std::fseek(open, static_cast<long>(at), SEEK_SET);
  std::fputc(file[at] ^ 1, open);
  std::fclose(open);
  Read(&after, "a", one);
  EXPECT_THAT(MessageOf(before.Merge(after)), HasSubstr("bytes 0 to 1048575 changed while"));
}

TEST(JoinChunks, JoinsNeighboursAndDropsTheRest) {
  EXPECT_THAT(JoinChunks({{1, 5, 2}, {0, 3, 1}, {0, 0, 3}, {0, 1, 1}, {1, 9, 0}, {1, 8, 1}}),
              testing::ElementsAre(ChunkRange{0, 0, 4}, ChunkRange{1, 5, 2}, ChunkRange{1, 8, 1}));
}

// The digests of a checkpoint of several files, as hashed whole.
std::unique_ptr<CheckpointDigests> HashAll(std::shared_ptr<const Checkpoint> checkpoint) {
  std::vector<std::string> digests;
  for (size_t i = 0; i < checkpoint->files().size(); ++i) {
    const std::string bytes = ReadWholeFile(checkpoint->PathOf(static_cast<int32_t>(i)));
    std::string& of_file = digests.emplace_back();
    for (size_t at = 0; at < bytes.size(); at += kMiB) {
      const ChunkDigest digest = DigestOf(
          std::as_bytes(std::span(bytes)).subspan(at, std::min<size_t>(kMiB, bytes.size() - at)));
      of_file.append(reinterpret_cast<const char*>(digest.data()), digest.size());
    }
  }
  return std::make_unique<CheckpointDigests>(std::move(checkpoint), std::move(digests));
}

// A model of two files with chunks in its tensors' middles.
struct CompareTest : testing::Test {
  CompareTest() {
    config = TinyConfig();
    config.hidden_size = 256;
    config.intermediate_size = 4096;
    config.num_heads = config.num_kv_heads = 8;
    config.head_dim = config.rope.rotary_dim = 32;
    const std::vector<TensorInfo> all = TensorsOf(config);
    const auto half = all.begin() + static_cast<ptrdiff_t>(all.size()) / 2;
    std::string index = R"({"weight_map": {)";
    const auto write = [&](const std::string& name, const std::vector<TensorInfo>& tensors) {
      dir.Write(name, FileOf(tensors));
      for (const TensorInfo& tensor : tensors) {
        index += (index.back() == '{' ? "\"" : ", \"") + tensor.name + "\": \"" + name + "\"";
      }
    };
    write("one.safetensors", {all.begin(), half});
    write("two.safetensors", {half, all.end()});
    dir.Write("model.safetensors.index.json", index + "}}");
    checkpoint = *Checkpoint::Open(dir.path());
    digests = HashAll(checkpoint);
  }
  // The chunks that rank `rank` reads, by the path that loading takes.
  std::vector<ChunkRun> Runs(const StageShare& share, int ranks, int rank) {
    ChunkReader reader(checkpoint.get(), Edges());
    std::vector<std::byte> out(16 << 20);
    for (const ShardTensor& part : ListShardTensors(config, share, ranks, rank)) {
      const int64_t cols = part.spec.shape.size() > 1 ? part.spec.shape[1] : 1;
      EXPECT_TRUE(reader
                      .Read(*checkpoint->Find(part.spec.name),
                            {.begin = part.bytes.begin,
                             .rows = part.rows.size(),
                             .row_bytes = part.cols.size() * 2,
                             .stride = cols * 2},
                            out.data())
                      .ok());
    }
    return reader.Report();
  }

  TempDir dir;
  ModelConfig config;
  std::shared_ptr<const Checkpoint> checkpoint;
  std::unique_ptr<CheckpointDigests> digests;
};

TEST_F(CompareTest, EveryStageAndRankAgrees) {
  for (const StageShare& share :
       {WholeModel(config), StageShare{0, 1, true, false}, StageShare{1, 2, false, true}}) {
    for (const int ranks : {1, 2, 4}) {
      for (int rank = 0; rank < ranks; ++rank) {
        const absl::Status status =
            digests->Compare(config, share, ranks, rank, Runs(share, ranks, rank));
        EXPECT_TRUE(status.ok()) << status << ", rank " << rank << " of " << ranks;
      }
    }
  }
}

TEST_F(CompareTest, ADifferenceNamesFileBytesTensorAndDigests) {
  std::vector<ChunkRun> runs = Runs(WholeModel(config), 1, 0);
  const std::string ours = DigestText(runs[0].digests.substr(2 * kChunkDigestBytes, 16));
  runs[0].digests[2 * kChunkDigestBytes] ^= 1;
  const std::string theirs = DigestText(runs[0].digests.substr(2 * kChunkDigestBytes, 16));
  const absl::Status status = digests->Compare(config, WholeModel(config), 1, 0, runs);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), HasSubstr("one.safetensors, bytes 2097152 to 3145727, in tensor"));
  EXPECT_THAT(MessageOf(status), HasSubstr(checkpoint->FindAt(0, 2 * kMiB)->name))
      << "the first of them";
  EXPECT_THAT(MessageOf(status), HasSubstr(ours + " here"));
  EXPECT_THAT(MessageOf(status), HasSubstr(theirs + " there"));
  EXPECT_THAT(MessageOf(status), HasSubstr("sha256sum"));
}

TEST_F(CompareTest, WhatIsMissingOrNoRunIsRefused) {
  const StageShare share = {0, 1, true, false};
  const std::vector<ChunkRun> good = Runs(share, 1, 0);
  const auto message = [&](std::vector<ChunkRun> runs) {
    const absl::Status status = digests->Compare(config, share, 1, 0, runs);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return MessageOf(status);
  };
  EXPECT_THAT(message({}), HasSubstr("does not say what it read of one.safetensors from byte 0"));
  std::vector<ChunkRun> runs = good;
  runs[0].digests.resize(runs[0].digests.size() - kChunkDigestBytes);
  EXPECT_THAT(message(runs), HasSubstr("does not say what it read"));
  runs = good;
  runs[0].first_chunk = -1;
  EXPECT_THAT(message(runs), HasSubstr("from -1 on"));
  runs[0].first_chunk = INT64_MAX;
  EXPECT_THAT(message(runs), HasSubstr("chunks"));
  runs = good;
  runs[0].digests += "x";
  EXPECT_THAT(message(runs), HasSubstr("bytes of digests"));
  runs = good;
  runs[0].file = "../three\n";
  EXPECT_THAT(message(runs), HasSubstr("\"../three\\n\", which our checkpoint does not have"));
}

}  // namespace
}  // namespace tutti::model
