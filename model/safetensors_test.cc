#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "model/checkpoint_testing.h"
#include "model/limits.h"

namespace tutti::model {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Reads a whole file the way Checkpoint does.
absl::StatusOr<std::vector<TensorInfo>> ParseHeader(std::string_view file) {
  const auto size = static_cast<int64_t>(file.size());
  TUTTI_ASSIGN_OR_RETURN(const int64_t header, SafetensorsHeaderBytes(file.substr(0, 8), size));
  return ParseSafetensorsHeader(file.substr(8, static_cast<size_t>(header)), size);
}

absl::StatusOr<std::vector<TensorInfo>> ParseText(const std::string& header, int64_t data_bytes) {
  return ParseSafetensorsHeader(header, 8 + static_cast<int64_t>(header.size()) + data_bytes);
}

// Accepted tensors must lie inside the file, without overlap, and have the sizes of their shapes.
void ExpectSound(const std::vector<TensorInfo>& tensors, int64_t file_bytes) {
  int64_t at = -1;
  for (const TensorInfo& tensor : tensors) {
    int64_t bytes = StoredTypeBytes(tensor.dtype);
    for (int64_t size : tensor.shape) bytes *= size;
    EXPECT_EQ(tensor.bytes, bytes) << tensor.name;
    if (at >= 0) {
      EXPECT_EQ(tensor.offset, at);
    }
    EXPECT_GE(tensor.offset, 8);
    at = tensor.offset + tensor.bytes;
  }
  if (at >= 0) {
    EXPECT_EQ(at, file_bytes);
  }
}

std::string SmallFile() {
  return FileOf(
      {TensorOf("a", StoredType::kBF16, {2, 3}), TensorOf("b.weight", StoredType::kF32, {}),
       TensorOf("empty", StoredType::kF16, {0, 7}), TensorOf("c", StoredType::kI64, {1})});
}

TEST(Safetensors, ReadsWhatItWrites) {
  const std::string file = SmallFile();
  const auto tensors = ParseHeader(file);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 4);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].dtype, StoredType::kBF16);
  EXPECT_EQ((*tensors)[0].ShapeText(), "[2, 3]");
  EXPECT_EQ((*tensors)[0].bytes, 12);
  EXPECT_EQ((*tensors)[0].offset % 8, 0) << "the data should begin at a multiple of 8";
  EXPECT_EQ((*tensors)[1].bytes, 4);
  EXPECT_EQ((*tensors)[2].bytes, 0);
  ExpectSound(*tensors, static_cast<int64_t>(file.size()));
}

TEST(Safetensors, WritesNamesThatNeedEscapes) {
  const std::string name = "quote\" back\\slash \xc3\xa9";
  const auto tensors = ParseHeader(FileOf({TensorOf(name, StoredType::kU8, {3})}));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ((*tensors)[0].name, name);
}

TEST(Safetensors, EveryTypeHasItsNameAndSize) {
  for (int i = 0; i <= static_cast<int>(StoredType::kC64); ++i) {
    const auto type = static_cast<StoredType>(i);
    EXPECT_EQ(StoredTypeFromName(StoredTypeName(type)), type);
    EXPECT_TRUE(ParseHeader(FileOf({TensorOf("x", type, {3, 5})})).ok());
  }
  EXPECT_EQ(StoredTypeBytes(StoredType::kC64), 8);
  EXPECT_EQ(StoredTypeBytes(StoredType::kBF16), 2);
  EXPECT_EQ(StoredTypeFromName("F4"), std::nullopt);
  EXPECT_EQ(StoredTypeFromName("bf16"), std::nullopt);
  for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    EXPECT_EQ(ComputeType(StoredTypeOf(type)), type);
  }
  EXPECT_EQ(ComputeType(StoredType::kI16), std::nullopt);
}

TEST(Safetensors, RefusesEachMistakeByName) {
  struct Case {
    std::string header;
    int64_t data_bytes;
    std::string reason;
  };
  const std::string ok = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  ASSERT_TRUE(ParseText(R"({"t":)" + ok + "}", 4).ok());
  ASSERT_TRUE(ParseText("{}", 0).ok());
  ASSERT_TRUE(ParseText(R"({"__metadata__":{"a":"b"}}   )", 0).ok());
  for (const Case& c : std::vector<Case>{
           {"", 0, "not a JSON object"},
           {" {}", 0, "not a JSON object"},
           {"[]", 0, "not a JSON object"},
           {"{", 0, "not JSON at byte"},
           {"{}{}", 0, "not JSON at byte"},
           {"{}\xff", 0, "not JSON at byte"},
           {R"({"t":1})", 0, "\"t\": a number"},
           {R"({"t":[]})", 0, "\"t\": a list"},
           {R"({"t":null})", 0, "\"t\": null"},
           {R"({"t":{}})", 0, "needs dtype, shape and data_offsets"},
           {R"({"t":{"dtype":"U8","shape":[4]}})", 4, "needs dtype, shape and data_offsets"},
           {R"({"t":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4, "twice"},
           {R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}})", 4,
            "unknown key \"x\""},
           {R"({"t":{"dtype":"u8","shape":[4],"data_offsets":[0,4]}})", 4, "unknown dtype \"u8\""},
           {R"({"t":{"dtype":8,"shape":[4],"data_offsets":[0,4]}})", 4, "a number"},
           {R"({"t":{"dtype":["U8"],"shape":[4],"data_offsets":[0,4]}})", 4, "a list"},
           {R"({"t":{"dtype":"U8","shape":4,"data_offsets":[0,4]}})", 4, "a number"},
           {R"({"t":{"dtype":"U8","shape":["4"],"data_offsets":[0,4]}})", 4, "a string"},
           {R"({"t":{"dtype":"U8","shape":[[4]],"data_offsets":[0,4]}})", 4, "a list"},
           {R"({"t":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4, "a negative number"},
           {R"({"t":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}})", 4, "a fraction"},
           {R"({"t":{"dtype":"U8","shape":[true],"data_offsets":[0,4]}})", 4, "a boolean"},
           {R"({"t":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,4]}})", 4,
            "more than 8 dimensions"},
           {R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0]}})", 4,
            "data_offsets must be two"},
           {R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4,4]}})", 4, "a number"},
           {R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4, "data_offsets 4 > 0"},
           {R"({"t":{"dtype":"U8","shape":[5],"data_offsets":[0,4]}})", 4, "needs 5"},
           {R"({"t":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0,
            "shape overflows"},
           {R"({"t":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
            "shape overflows"},
           {R"({"t":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4,
            "beyond 2^63"},
           {R"({"t":{"dtype":"U8","shape":[0],"data_offsets":)"
            R"([9223372036854775807,9223372036854775807]}})",
            0, "data_offsets overflow"},
           {R"({"t":{"dtype":"U8","shape":[9223372036854775707],"data_offsets":)"
            R"([0,9223372036854775707]}})",
            4, "the file has"},
           {R"({"t":)" + ok + "}", 3, "needs 4 bytes"},
           {R"({"t":)" + ok + "}", 5, "the tensors end at"},
           {R"({"t":)" + ok + R"(,"t":)" + ok + "}", 4, "\"t\": listed twice"},
           {R"({"t":)" + ok + R"(,"u":)" + ok + "}", 4, "inside the tensor before it"},
           {R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5, "a gap"},
           {R"({"__metadata__":{"a":1}})", 0, "a number"},
           {R"({"__metadata__":{"a":{}}})", 0, "an object"},
           {R"({"__metadata__":{"a":"b","a":"b"}})", 0, "twice"},
           {R"({"__metadata__":{},"__metadata__":{}})", 0, "listed twice"},
           {R"({"__metadata__":"x"})", 0, "a string"}}) {
    const auto tensors = ParseText(c.header, c.data_bytes);
    EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument) << c.header;
    EXPECT_THAT(std::string(tensors.status().message()), HasSubstr(c.reason)) << c.header;
  }
}

// Text that comes behind a zero byte would be ignored.
TEST(Safetensors, AZeroByteIsNoEndOfTheHeader) {
  const auto parsed = ParseSafetensorsHeader(std::string("{}\0{", 4), 12);
  EXPECT_THAT(std::string(parsed.status().message()), testing::HasSubstr("which is zero"));
}

TEST(Safetensors, BelievesNoLength) {
  EXPECT_FALSE(SafetensorsHeaderBytes("", 0).ok());
  EXPECT_FALSE(SafetensorsHeaderBytes("1234567", 7).ok());
  const std::string huge(8, '\xff');
  EXPECT_THAT(std::string(SafetensorsHeaderBytes(huge, 1 << 30).status().message()),
              HasSubstr("header length 18446744073709551615 is more than the limit"));
  const std::string at_limit = WithLength("").replace(0, 8, [] {
    std::string out;
    for (int i = 0; i < 8; ++i)
      out.push_back(static_cast<char>(kSafetensorsHeaderBytesMax >> (8 * i)));
    return out;
  }());
  EXPECT_TRUE(SafetensorsHeaderBytes(at_limit, kSafetensorsHeaderBytesMax + 8).ok());
  EXPECT_FALSE(SafetensorsHeaderBytes(at_limit, kSafetensorsHeaderBytesMax + 7).ok());
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string file = SmallFile();
  for (size_t n = 0; n < file.size(); ++n) {
    EXPECT_FALSE(ParseHeader(std::string_view(file).substr(0, n)).ok()) << n;
  }
  EXPECT_FALSE(ParseHeader(file + "x").ok());
}

// Some bytes of length and header changed, removed or added: refused, or still sound. In half of
// the cases the length is corrected afterwards, so that the change reaches the reader of the
// header.
TEST(Safetensors, MutatedHeadersAreRefusedOrSound) {
  const std::string file = SmallFile();
  const size_t header = 8 + static_cast<size_t>(*SafetensorsHeaderBytes(file, 1000));
  Random random(20261121);
  int accepted = 0;
  constexpr int kMutations = 20'000;
  for (int i = 0; i < kMutations; ++i) {
    std::string mutated = file;
    for (int64_t edits = random.Between(1, 3); edits > 0; --edits) {
      const auto at = static_cast<size_t>(random.Between(0, static_cast<int64_t>(header) - 1));
      static constexpr std::string_view kLikely = "0123456789{}[]\",:.-eE \\\xff";
      const char byte = random.Chance(0.5)
                            ? kLikely[static_cast<size_t>(random.Between(0, kLikely.size() - 1))]
                            : static_cast<char>(random.Bits());
      switch (random.Between(0, 2)) {
        case 0:
          mutated[at] = byte;
          break;
        case 1:
          mutated.erase(at, 1);
          break;
        default:
          mutated.insert(at, 1, byte);
      }
    }
    if (const int64_t size = static_cast<int64_t>(header + mutated.size() - file.size());
        size >= 8 && random.Chance(0.5)) {
      const auto end = static_cast<size_t>(size);
      mutated = WithLength(mutated.substr(8, end - 8)) + mutated.substr(end);
    }
    const auto tensors = ParseHeader(mutated);
    if (!tensors.ok()) continue;
    ++accepted;
    ExpectSound(*tensors, static_cast<int64_t>(mutated.size()));
  }
  // Changes inside a name or the metadata are harmless; most others are not.
  EXPECT_GT(accepted, kMutations / 200);
  EXPECT_LT(accepted, kMutations / 2);
}

// Numbers in the right places with hostile values.
TEST(Safetensors, HostileNumbersAreRefusedOrSound) {
  Random random(7);
  const std::vector<std::string> values = {"0",
                                           "1",
                                           "2",
                                           "3",
                                           "4",
                                           "8",
                                           "12",
                                           "4294967295",
                                           "4294967296",
                                           "9223372036854775807",
                                           "9223372036854775808",
                                           "18446744073709551615",
                                           "18446744073709551616",
                                           "-1",
                                           "-0",
                                           "1e3"};
  const auto pick = [&] {
    return values[static_cast<size_t>(random.Between(0, values.size() - 1))];
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::string header = R"({"t":{"dtype":"F16","shape":[)" + pick() + "," + pick() +
                               R"(],"data_offsets":[)" + pick() + "," + pick() + "]}}";
    const int64_t data_bytes = random.Between(0, 16);
    const auto tensors = ParseText(header, data_bytes);
    if (tensors.ok()) ExpectSound(*tensors, 8 + static_cast<int64_t>(header.size()) + data_bytes);
  }
}

TEST(Safetensors, TheListOfMalformedFiles) {
  if (TestData().empty()) GTEST_SKIP() << "TUTTI_TESTDATA is not set: no malformed files";
  const std::string dir = TestData() + "/malformed/safetensors/";
  const json expected = json::parse(ReadWholeFile(dir + "expected.json"));
  ASSERT_GE(expected.size(), 11);
  for (const auto& [name, row] : expected.items()) {
    const auto tensors = ParseHeader(ReadWholeFile(dir + name));
    EXPECT_EQ(tensors.ok(), row["expect"] == "accept")
        << name << " (" << row["why"] << "): " << tensors.status();
  }
}

}  // namespace
}  // namespace tutti::model
