#include "model/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "model/checkpoint_index.h"
#include "model/checkpoint_testing.h"
#include "model/config_json.h"
#include "model/limits.h"
#include "model/weight_map.h"

namespace tutti::model {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::string Bytes(const Checkpoint& checkpoint, const std::string& name) {
  const auto bytes = checkpoint.Read(name);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

void WriteIndex(const TempDir& dir, const std::map<std::string, std::string>& map) {
  nlohmann::json index;
  index["metadata"]["total_size"] = 1;
  index["weight_map"] = map;
  dir.Write("model.safetensors.index.json", index.dump());
}

const std::string kFirst = "model-00001-of-00002.safetensors";
const std::string kSecond = "model-00002-of-00002.safetensors";

// Two shards: a and b in the first, c in the second.
void WriteTwoShards(const TempDir& dir) {
  dir.Write(kFirst, FileOf({TensorOf("a", StoredType::kBF16, {2, 3}),
                            TensorOf("b", StoredType::kU8, {5})}));
  dir.Write(kSecond, FileOf({TensorOf("c", StoredType::kF32, {4})}));
  WriteIndex(dir, {{"a", kFirst}, {"b", kFirst}, {"c", kSecond}});
}

TEST(Checkpoint, ReadsASingleFile) {
  TempDir dir;
  const std::string file =
      FileOf({TensorOf("a", StoredType::kBF16, {2, 3}), TensorOf("b", StoredType::kF32, {}),
              TensorOf("none", StoredType::kF32, {0})});
  dir.Write("model.safetensors", file);
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->tensors().size(), 3);
  EXPECT_EQ((*checkpoint)->Find("nothing"), nullptr);
  const TensorInfo* b = (*checkpoint)->Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(Bytes(**checkpoint, "b"), file.substr(static_cast<size_t>(b->offset), 4));
  EXPECT_EQ(Bytes(**checkpoint, "a"), file.substr(file.size() - 16, 12));
  EXPECT_EQ(Bytes(**checkpoint, "none"), "");
  EXPECT_EQ((*checkpoint)->Read("nothing").status().code(), absl::StatusCode::kNotFound);
}

TEST(Checkpoint, FindsTheTensorOfAByte) {
  TempDir dir;
  WriteTwoShards(dir);
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const TensorInfo* const b = (*checkpoint)->Find("b");
  EXPECT_EQ((*checkpoint)->FindAt(0, b->offset), b);
  EXPECT_EQ((*checkpoint)->FindAt(0, b->offset - 1)->name, "a");
  EXPECT_EQ((*checkpoint)->FindAt(0, b->offset + b->bytes), nullptr) << "behind the file";
  EXPECT_EQ((*checkpoint)->FindAt(1, 0), nullptr) << "a header";
  EXPECT_EQ((*checkpoint)->FindAt(1, (*checkpoint)->Find("c")->offset + 15)->name, "c");
}

TEST(Checkpoint, OpensOnlyTheShardsThatHoldTheNames) {
  TempDir dir;
  WriteTwoShards(dir);
  std::filesystem::remove(dir.File(kFirst));
  const std::vector<std::string> names = {"c", "unknown"};
  const auto checkpoint = Checkpoint::OpenFor(dir.path(), names);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->files().size(), 1);
  EXPECT_NE((*checkpoint)->Find("c"), nullptr);
  EXPECT_EQ((*checkpoint)->Find("a"), nullptr);

  const auto all = Checkpoint::Open(dir.path());
  EXPECT_EQ(all.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(all.status()), HasSubstr(kFirst));
}

TEST(Checkpoint, TheIndexDecidesWhichShardATensorIsFrom) {
  TempDir dir;
  WriteTwoShards(dir);
  // An older copy of "a" that the index does not mention.
  dir.Write(kSecond,
            FileOf({TensorOf("a", StoredType::kU8, {1}), TensorOf("c", StoredType::kF32, {4})}));
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->Find("a")->bytes, 12);
  EXPECT_EQ((*checkpoint)->tensors().size(), 3);
}

TEST(Checkpoint, ChecksTheIndex) {
  TempDir dir;
  WriteTwoShards(dir);
  WriteIndex(dir, {{"a", kFirst}, {"missing.weight", kSecond}});
  auto checkpoint = Checkpoint::Open(dir.path());
  EXPECT_EQ(checkpoint.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(checkpoint.status()), HasSubstr("missing.weight"));
  EXPECT_THAT(Message(checkpoint.status()), HasSubstr(kSecond));

  for (const char* name :
       {"", ".", "..", "../model.safetensors", "/etc/passwd", "sub/x.safetensors"}) {
    WriteIndex(dir, {{"a", name}});
    checkpoint = Checkpoint::Open(dir.path());
    EXPECT_EQ(checkpoint.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(Message(checkpoint.status()), HasSubstr("does not name a file")) << name;
  }
  for (const char* text :
       {"", "{}", "[]", "{\"weight_map\": []}", "{\"weight_map\": {}}",
        "{\"weight_map\": {\"a\": 1}}", "{\"weight_map\": {\"a\": \"x\", \"a\": \"y\"}}",
        "{\"weight_map\": {\"a\": [\"x\"]}}", "{\"weight_map\": \"x\"}", "3"}) {
    dir.Write("model.safetensors.index.json", text);
    EXPECT_EQ(Checkpoint::Open(dir.path()).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
}

// Text that comes behind a zero byte would be ignored.
TEST(Checkpoint, AnIndexWithAZeroByteIsRefused) {
  TempDir dir;
  WriteTwoShards(dir);
  WriteIndex(dir, {{"a", kFirst}});
  const std::string good = ReadWholeFile(dir.File("model.safetensors.index.json"));
  dir.Write("model.safetensors.index.json", good + std::string("\0{", 2));
  EXPECT_THAT(Message(Checkpoint::Open(dir.path()).status()), HasSubstr("which is zero"));
}

// Refused while it is read, before it takes memory.
TEST(Checkpoint, AnIndexOfTooManyNamesOrTooMuchElseIsRefused) {
  std::string names = R"({"weight_map": {)";
  for (int64_t i = 0; i <= kTensorsMax; ++i) {
    names += absl::StrCat(i == 0 ? "" : ",", "\"", i, "\":\"f\"");
  }
  EXPECT_THAT(Message(ParseCheckpointIndex(names + "}}", "index").status()),
              HasSubstr("more tensors than the limit of 524288"));
  for (const std::string& metadata : {"\"" + std::string(kIndexMetadataMax, 'x') + "\"",
                                      "[" + std::string(2 * kIndexMetadataMax, '1') + "," +
                                          std::string(4 * kIndexMetadataMax, ' ') + "1]"}) {
    const auto parsed = ParseCheckpointIndex(
        absl::StrCat(R"({"metadata": )", metadata, R"(, "weight_map": {"a": "f"}})"), "index");
    if (metadata[0] == '"') {
      EXPECT_THAT(Message(parsed.status()), HasSubstr("beside weight_map"));
    } else {
      EXPECT_FALSE(parsed.ok() && parsed->empty());
    }
  }
  std::string many = R"({"metadata": [1)";
  for (int64_t i = 0; i < kIndexMetadataMax; ++i) many += ",1";
  EXPECT_THAT(Message(ParseCheckpointIndex(many + "]}", "index").status()),
              HasSubstr("beside weight_map"));
}

TEST(Checkpoint, ALinkToNothingIsNamedAsOne) {
  TempDir dir;
  std::filesystem::create_symlink("blobs/gone", dir.File("model.safetensors"));
  EXPECT_THAT(Message(Checkpoint::Open(dir.path()).status()),
              HasSubstr("model.safetensors: a link to blobs/gone, which is not there"));
  std::filesystem::remove(dir.File("model.safetensors"));
  std::filesystem::create_symlink("blobs/gone", dir.File("model.safetensors.index.json"));
  EXPECT_THAT(Message(Checkpoint::Open(dir.path()).status()), HasSubstr("a link to blobs/gone"));
}

TEST(Checkpoint, NamesTheFileAndTensorThatAreWrong) {
  TempDir dir;
  WriteTwoShards(dir);
  const std::string good = ReadWholeFile(dir.File(kSecond));
  dir.Write(kSecond, good.substr(0, good.size() - 1));
  const absl::Status status = Checkpoint::Open(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr(kSecond));
  EXPECT_THAT(Message(status), HasSubstr("\"c\""));
}

TEST(Checkpoint, EveryTruncationOfASmallFileIsRefused) {
  TempDir dir;
  const std::string file =
      FileOf({TensorOf("a", StoredType::kBF16, {2, 3}), TensorOf("b", StoredType::kU8, {5})});
  for (size_t n = 0; n < file.size(); ++n) {
    dir.Write("model.safetensors", file.substr(0, n));
    EXPECT_EQ(Checkpoint::Open(dir.path()).status().code(), absl::StatusCode::kInvalidArgument)
        << n;
  }
}

TEST(Checkpoint, PickledWeightsAreRefusedWithAHint) {
  TempDir dir;
  EXPECT_EQ(Checkpoint::Open(dir.path()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Checkpoint::Open(dir.File("nowhere")).status().code(), absl::StatusCode::kNotFound);
  dir.Write("pytorch_model.bin", "\x80\x02.");
  const absl::Status status = Checkpoint::Open(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(status), HasSubstr("convert"));
  EXPECT_THAT(Message(status), HasSubstr("pytorch_model.bin"));
}

TEST(Checkpoint, OneFileBesideShardsIsTheWhole) {
  TempDir dir;
  dir.Write("model.safetensors", FileOf({TensorOf("a", StoredType::kU8, {5})}));
  EXPECT_FALSE((*Checkpoint::Open(dir.path()))->ignores_shards());
  dir.Write("model.safetensors.index.json", "{}");
  const auto opened = Checkpoint::Open(dir.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE((*opened)->ignores_shards());
}

TEST(Checkpoint, OnlyRegularFilesAreOpened) {
  TempDir dir;
  ASSERT_EQ(mkfifo(dir.File("model.safetensors").c_str(), 0600), 0);
  EXPECT_EQ(Checkpoint::Open(dir.path()).status().code(), absl::StatusCode::kInvalidArgument);
  std::filesystem::remove(dir.File("model.safetensors"));
  std::filesystem::create_directory(dir.File("model.safetensors"));
  EXPECT_EQ(Checkpoint::Open(dir.path()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Checkpoint, AFileThatChangedIsNotRead) {
  const std::string file = FileOf({TensorOf("a", StoredType::kU8, {5})});
  for (const bool replace : {false, true}) {
    TempDir dir;
    dir.Write("model.safetensors", file);
    const auto checkpoint = Checkpoint::Open(dir.path());
    ASSERT_TRUE(checkpoint.ok());
    if (replace) {
      dir.Write("other", file);
      std::filesystem::rename(dir.File("other"), dir.File("model.safetensors"));
    } else {
      ASSERT_EQ(truncate(dir.File("model.safetensors").c_str(), 10), 0);
    }
    const auto span = (*checkpoint)->Read("a");
    EXPECT_EQ(span.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(span.status()), HasSubstr("changed"));
  }
}

TEST(CheckCheckpoint, NamesWhatIsMissingOrDiffers) {
  const ModelConfig config = TinyConfig();
  const std::string victim = "model.layers.1.self_attn.k_proj.weight";
  struct Case {
    const char* expected;
    void (*spoil)(TensorInfo&);
  };
  for (const Case& c :
       {Case{"is missing", [](TensorInfo& t) { t.name = "other"; }},
        Case{"has dtype I16, expected BF16", [](TensorInfo& t) { t.dtype = StoredType::kI16; }},
        Case{"has shape [24, 16], expected [16, 24]",
             [](TensorInfo& t) { std::swap(t.shape[0], t.shape[1]); }}}) {
    TempDir dir;
    std::vector<TensorInfo> tensors = TensorsOf(config);
    for (TensorInfo& tensor : tensors) {
      if (tensor.name == victim) c.spoil(tensor);
    }
    dir.Write("model.safetensors", FileOf(tensors));
    const auto checkpoint = Checkpoint::Open(dir.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    const absl::Status status = CheckCheckpoint(config, **checkpoint);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr(victim));
    EXPECT_THAT(Message(status), HasSubstr(c.expected));
    // Another stage is not concerned.
    EXPECT_TRUE(
        CheckCheckpoint(config, **checkpoint, {.first_layer = 2, .num_layers = 1, .has_head = true})
            .ok());
  }
}

// transformers converts what it loads to the type that config.json says.
TEST(CheckCheckpoint, SaysWhatIsConverted) {
  ModelConfig config = TinyConfig();
  TempDir dir;
  dir.Write("model.safetensors", FileOf(TensorsOf(config)));
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(DescribeConversion(config, **checkpoint), "");
  config.dtype = DType::kF32;
  EXPECT_TRUE(CheckCheckpoint(config, **checkpoint).ok());
  EXPECT_THAT(DescribeConversion(config, **checkpoint),
              HasSubstr("computed in F32, exactly, with twice the bytes"));
  config.dtype = DType::kF16;
  EXPECT_THAT(DescribeConversion(config, **checkpoint), HasSubstr("rounded where the ranges"));
}

TEST(CheckCheckpoint, ATiedModelNeedsNoHeadButMayHaveOne) {
  ModelConfig config = TinyConfig();
  config.tie_word_embeddings = true;
  for (const bool with_head : {false, true}) {
    TempDir dir;
    std::vector<TensorInfo> tensors = TensorsOf(config);
    if (with_head) tensors.push_back(TensorOf("lm_head.weight", StoredType::kF32, {1}));
    dir.Write("model.safetensors", FileOf(tensors));
    const auto checkpoint = Checkpoint::Open(dir.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_TRUE(CheckCheckpoint(config, **checkpoint).ok())
        << CheckCheckpoint(config, **checkpoint);
    config.tie_word_embeddings = false;
    EXPECT_THAT(Message(CheckCheckpoint(config, **checkpoint)), HasSubstr("lm_head.weight"));
    config.tie_word_embeddings = true;
  }
}

// transformers uses the head then; the embedding in its place would give nonsense.
TEST(CheckTiedHead, AHeadOfItsOwnMustBeTheEmbedding) {
  ModelConfig config = TinyConfig();
  config.tie_word_embeddings = false;
  TempDir dir;
  const std::vector<TensorInfo> tensors = TensorsOf(config);
  std::string file = FileOf(tensors);
  dir.Write("model.safetensors", file);
  config.tie_word_embeddings = true;
  auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const TensorInfo* const head = (*checkpoint)->Find("lm_head.weight");
  const TensorInfo* const embedding = (*checkpoint)->Find("model.embed_tokens.weight");
  ASSERT_TRUE(head != nullptr && embedding != nullptr);
  ASSERT_EQ(head->bytes, embedding->bytes);
  file.replace(static_cast<size_t>(head->offset), static_cast<size_t>(head->bytes), file,
               static_cast<size_t>(embedding->offset), static_cast<size_t>(embedding->bytes));
  dir.Write("model.safetensors", file);
  const int64_t last_byte = head->offset + head->bytes - 1;
  checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(CheckTiedHead(config, **checkpoint).ok()) << CheckTiedHead(config, **checkpoint);

  file[static_cast<size_t>(last_byte)] ^= 1;
  dir.Write("model.safetensors", file);
  checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT(Message(CheckTiedHead(config, **checkpoint)),
              HasSubstr("\"lm_head.weight\" differs from \"model.embed_tokens.weight\""));
  config.tie_word_embeddings = false;
  EXPECT_TRUE(CheckTiedHead(config, **checkpoint).ok());
}

// The checkpoints that transformers wrote.
TEST(CheckCheckpoint, GoldenCheckpoints) {
  const char* root = std::getenv("TUTTI_SOURCE_DIR");
  const std::string dir = std::string(root == nullptr ? "." : root) + "/tests/golden";
  if (!std::filesystem::exists(dir)) GTEST_SKIP() << dir << " is not there";
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    ++seen;
    const auto config = LoadModelConfig(entry.path());
    ASSERT_TRUE(config.ok()) << config.status();
    const auto checkpoint = Checkpoint::Open(entry.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_TRUE(CheckCheckpoint(*config, **checkpoint).ok())
        << CheckCheckpoint(*config, **checkpoint);
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace tutti::model
