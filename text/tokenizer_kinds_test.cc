// The tokenizers that are not Qwen2's: tiktoken files, sentencepiece models, and tokenizer.json of
// Llama 2 and 3.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/files_testing.h"
#include "text/character_map.h"
#include "text/detokenizer.h"
#include "text/limits.h"
#include "text/sentencepiece_file.h"
#include "text/sentencepiece_testing.h"
#include "text/text_break.h"
#include "text/text_testing.h"
#include "text/tiktoken_file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/unicode.h"

namespace tutti::text {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::unique_ptr<Tokenizer> Built(absl::StatusOr<TokenizerSpec> spec) {
  EXPECT_TRUE(spec.ok()) << spec.status();
  auto tokenizer = Tokenizer::Create(*std::move(spec));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::vector<TokenId> User(const Tokenizer& tokenizer, std::string_view text) {
  return *tokenizer.Encode(text);
}
std::vector<TokenId> Trusted(const Tokenizer& tokenizer, const std::string& text) {
  return *tokenizer.EncodeSegments(std::vector<Segment>{{text, false}});
}
std::string Back(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(&tokenizer, false, Detokenizer::From::kBeginning);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.Push(id);
  return text + detokenizer.Finish();
}

// --- qwen.tiktoken ---

// Bytes 0 to 255, then `words`.
std::string Tiktoken(const std::vector<std::string>& words) {
  std::string file;
  int rank = 0;
  for (int byte = 0; byte < 256; ++byte) {
    absl::StrAppend(&file, absl::Base64Escape(std::string(1, static_cast<char>(byte))), " ", rank++,
                    "\n");
  }
  for (const std::string& word : words) {
    absl::StrAppend(&file, absl::Base64Escape(word), " ", rank++, "\n");
  }
  return file;
}

TEST(TiktokenTest, MergesNeighboursThatSpellTheLowestRank) {
  const auto tokenizer = Built(ParseQwenTiktoken(Tiktoken({"bc", "ab", "abc", " ab", "xyz"})));
  EXPECT_THAT(User(*tokenizer, "abc"), ElementsAre(258));
  EXPECT_THAT(User(*tokenizer, "ab"), ElementsAre(257));
  EXPECT_THAT(User(*tokenizer, "abcab"), ElementsAre(258, 257));
  EXPECT_THAT(User(*tokenizer, "c ab"), ElementsAre('c', 259));
  // No merge makes it, but a piece that is a token is that token.
  EXPECT_THAT(User(*tokenizer, "xyz"), ElementsAre(260));
  EXPECT_THAT(User(*tokenizer, "wxyz"), ElementsAre('w', 'x', 'y', 'z'));
  EXPECT_THAT(User(*tokenizer, "e\u0301"), ElementsAre(0xC3, 0xA9));  // NFC
}

TEST(TiktokenTest, SpecialTokensFollowTheOrdinaryOnes) {
  const auto tokenizer = Built(ParseQwenTiktoken(Tiktoken({"ab"})));
  EXPECT_EQ(tokenizer->SpecialId("<|endoftext|>"), 257);
  EXPECT_EQ(tokenizer->SpecialId("<|im_start|>"), 258);
  EXPECT_EQ(tokenizer->SpecialId("<|im_end|>"), 259);
  EXPECT_EQ(tokenizer->SpecialId("<|extra_0|>"), 260);
  EXPECT_EQ(tokenizer->SpecialId("<|extra_204|>"), 464);
  EXPECT_EQ(tokenizer->vocab_size(), 465);
  EXPECT_THAT(tokenizer->end_of_turn(), ElementsAre(259, 258, 257));
  EXPECT_THAT(Trusted(*tokenizer, "ab<|im_end|>ab"), ElementsAre(256, 259, 256));
  EXPECT_EQ(User(*tokenizer, "<|im_end|>").size(), 10u);
  EXPECT_EQ(*tokenizer->EncodePrompt("ab"), User(*tokenizer, "ab"));
}

TEST(TiktokenTest, ATextBreakEndsATextAndHasNoId) {
  const auto tokenizer = Built(ParseQwenTiktoken(Tiktoken({"ab"})));
  EXPECT_THAT(Trusted(*tokenizer, absl::StrCat("a", std::string(kTextBreak), "b")),
              ElementsAre('a', 'b'));
  EXPECT_GT(User(*tokenizer, kTextBreak).size(), 5u);
}

TEST(TiktokenTest, RefusesByLine) {
  const std::string good = Tiktoken({});
  struct Case {
    std::string line, named;
  };
  for (const Case& c : std::vector<Case>{
           {"YWI=", "qwen.tiktoken:257: not a token and a rank"},
           {"YWI 256", "qwen.tiktoken:257: the token is not base64"},
           {"Y*I= 256", "qwen.tiktoken:257: the token is not base64"},
           {" 256", "qwen.tiktoken:257: the token is not base64"},
           {"YWI= x", "qwen.tiktoken:257: the rank is not a number"},
           {"YWI= -1", "qwen.tiktoken:257: the rank is not a number"},
           {"YWI= ", "qwen.tiktoken:257: the rank is not a number"},
           {"YWI= 99999999999999999999", "qwen.tiktoken:257: the rank is not a number"},
           {"YWI= 257", "qwen.tiktoken:257: the rank is 257, expected is 256"},
           {"YWI= 255", "qwen.tiktoken:257: the rank is 255, expected is 256"},
           {absl::StrCat(absl::Base64Escape(std::string(600, 'x')), " 256"),
            "qwen.tiktoken:257: has 804 bytes, at most 700"}}) {
    EXPECT_EQ(Message(ParseQwenTiktoken(good + c.line).status()), c.named);
  }
  const auto repeated = Tokenizer::Create(*ParseQwenTiktoken(good + "YQ== 256"));
  EXPECT_THAT(Message(repeated.status()), HasSubstr("token 256 repeats another one"));
  const auto lacking = Tokenizer::Create(*ParseQwenTiktoken("YQ== 0\n"));
  EXPECT_THAT(Message(lacking.status()), HasSubstr("no token stands for byte 0x00"));
  EXPECT_FALSE(Tokenizer::Create(*ParseQwenTiktoken("")).ok());
}

// --- sentencepiece ---

const std::vector<std::string> kWords = {"\u2581",  "a",  "b",        "c",  "n",
                                         "\u2581a", "ab", "\u2581ab", "an", "\u00e9"};
constexpr TokenId kSpace = kTinyFirstWord, kA = kSpace + 1, kB = kSpace + 2, kC = kSpace + 3,
                  kN = kSpace + 4, kSpaceA = kSpace + 5, kAb = kSpace + 6, kSpaceAb = kSpace + 7,
                  kAn = kSpace + 8, kE = kSpace + 9;

TEST(SentencepieceTest, MergesByScoreWithASpaceInFront) {
  const auto tokenizer = Built(ParseSentencepiece(MakeTinySentencepiece(kWords).Bytes()));
  EXPECT_THAT(User(*tokenizer, "a"), ElementsAre(kSpaceA));
  EXPECT_THAT(User(*tokenizer, "an"), ElementsAre(kSpaceA, kN));  // "▁a" scores above "an"
  EXPECT_THAT(User(*tokenizer, "ab"), ElementsAre(kSpaceAb));
  EXPECT_THAT(User(*tokenizer, "bab"), ElementsAre(kSpace, kB, kAb));
  EXPECT_THAT(User(*tokenizer, "b  an"), ElementsAre(kSpace, kB, kSpace, kSpaceA, kN));
  EXPECT_THAT(User(*tokenizer, ""), ElementsAre());
  EXPECT_THAT(User(*tokenizer, " "), ElementsAre(kSpace, kSpace));
  EXPECT_THAT(User(*tokenizer, "\u00e9"), ElementsAre(kSpace, kE));
  // U+2581 is how a space is written.
  EXPECT_EQ(User(*tokenizer, "b\u2581an"), User(*tokenizer, "b an"));
}

TEST(SentencepieceTest, CharactersWithoutAPieceFallBackToBytes) {
  const auto tokenizer = Built(ParseSentencepiece(MakeTinySentencepiece(kWords).Bytes()));
  EXPECT_THAT(User(*tokenizer, "\n"), ElementsAre(kSpace, 3 + '\n'));
  EXPECT_THAT(User(*tokenizer, "a\u65e5b"), ElementsAre(kSpaceA, 3 + 0xE6, 3 + 0x97, 3 + 0xA5, kB));
  EXPECT_EQ(tokenizer->TokenText(3 + 0xE6), "\xE6");
  EXPECT_EQ(tokenizer->TokenText(kSpaceAb), " ab");
  // Spelling a byte token gives none.
  for (const TokenId id : User(*tokenizer, "<0x41>")) EXPECT_NE(id, 3 + 0x41);
}

// A piece may be made of a character that is no piece.
TEST(SentencepieceTest, MergesThroughCharactersWithoutAPiece) {
  auto model = MakeTinySentencepiece({"a", "a\u00fc", "\u00fc\u00fc"});
  const auto tokenizer = Built(ParseSentencepiece(model.Bytes()));
  EXPECT_THAT(User(*tokenizer, "a\u00fc"), ElementsAre(3 + ' ', kTinyFirstWord + 1));
  EXPECT_THAT(User(*tokenizer, "\u00fc\u00fca"),
              ElementsAre(3 + ' ', kTinyFirstWord + 2, kTinyFirstWord));
  EXPECT_THAT(User(*tokenizer, "\u00fc"), ElementsAre(3 + ' ', 3 + 0xC3, 3 + 0xBC));
}

TEST(SentencepieceTest, EqualScoresMergeFromTheLeft) {
  auto model = MakeTinySentencepiece({"a", "b", "ab", "ba"});
  model.pieces[kTinyFirstWord + 2].score = model.pieces[kTinyFirstWord + 3].score = -7;
  const auto tokenizer = Built(ParseSentencepiece(model.Bytes()));
  EXPECT_THAT(User(*tokenizer, "bab"),
              ElementsAre(3 + ' ', kTinyFirstWord + 3, kTinyFirstWord + 1));
}

TEST(SentencepieceTest, WithoutPrefixAndWithSpacesRemoved) {
  auto model = MakeTinySentencepiece(kWords);
  model.dummy_prefix = false;
  EXPECT_THAT(User(*Built(ParseSentencepiece(model.Bytes())), "ab"), ElementsAre(kAb));
  model.dummy_prefix = true;
  model.remove_extra_spaces = true;
  const auto tokenizer = Built(ParseSentencepiece(model.Bytes()));
  EXPECT_EQ(User(*tokenizer, "  a   b  "), User(*tokenizer, "a b"));
  EXPECT_THAT(User(*tokenizer, "   "), ElementsAre());
}

TEST(SentencepieceTest, ControlPiecesAreSpecialAndUserDefinedOnesAreNot) {
  auto model = MakeTinySentencepiece(kWords);
  model.pieces.push_back({"<n>", 0, 4});
  const auto tokenizer = Built(ParseSentencepiece(model.Bytes()));
  const auto defined = static_cast<TokenId>(model.pieces.size()) - 1;
  EXPECT_THAT(User(*tokenizer, "a<n>a"), ElementsAre(kSpaceA, defined, kA));
  EXPECT_EQ(tokenizer->SpecialId("<s>"), 1);
  EXPECT_THAT(Trusted(*tokenizer, "<s>a</s>a"), ElementsAre(1, kSpaceA, 2, kSpaceA));
  EXPECT_EQ(User(*tokenizer, "<s>").size(), 4u);  // space, bytes of "<", "s", ">"
}

TEST(SentencepieceTest, DecodesWhatItEncodes) {
  const auto tokenizer = Built(ParseSentencepiece(MakeTinySentencepiece(kWords).Bytes()));
  for (const std::string text : {"", "a", " a", "  a b ", "\u65e5\u672c a\n", "\U0001F642"}) {
    EXPECT_EQ(Back(*tokenizer, User(*tokenizer, text)), text);
  }
  // What the model says after other text keeps its space.
  Detokenizer continuation(tokenizer.get(), false);
  EXPECT_EQ(continuation.Push(kSpaceAb), " ab");
  Detokenizer bytes(tokenizer.get(), false);
  EXPECT_EQ(bytes.Push(3 + 0xC3), "");
  EXPECT_EQ(bytes.Push(3 + 0xA9), "\u00e9");
}

// The longest beginning that has a replacement is replaced; nothing is replaced twice.
TEST(SentencepieceTest, MapsCharactersFirst) {
  auto model = MakeTinySentencepiece(kWords);
  model.charsmap =
      TinyCharacterMap({{"\uff0c", "b"}, {"\u3000", " "}, {"c", "ab"}, {"cc", ""}, {"n", "c"}});
  const auto ids = [&] { return Built(ParseSentencepiece(model.Bytes())); };
  EXPECT_EQ(User(*ids(), "a\uff0c"), User(*ids(), "ab"));
  EXPECT_EQ(User(*ids(), "b\u3000a"), User(*ids(), "b a"));
  EXPECT_EQ(User(*ids(), "cccb"), User(*ids(), "abb"));
  EXPECT_THAT(User(*ids(), "n"), ElementsAre(kSpace, kC));
  EXPECT_THAT(User(*ids(), "cc"), ElementsAre(kSpace));
  model.remove_extra_spaces = true;
  EXPECT_EQ(User(*ids(), "\u3000a\u3000 b "), User(*ids(), "a b"));
  EXPECT_THAT(User(*ids(), "cc"), ElementsAre());
}

TEST(SentencepieceTest, RefusesCharacterMapsThatContradictThemselves) {
  const std::string good = TinyCharacterMap({{"a", "b"}});
  EXPECT_TRUE(CharacterMap::Parse(good).ok());
  for (const std::string& bad :
       {std::string("abc"), std::string("\0\0\0\0", 4), good.substr(0, 100),
        std::string("\x03\0\0\0xxxxxxx", 11), TinyCharacterMap({{"a", "\xFF"}}),
        TinyCharacterMap({{"a", std::string(kCharacterMapTargetBytesMax + 1, 'b')}})}) {
    auto model = MakeTinySentencepiece(kWords);
    model.charsmap = bad;
    EXPECT_THAT(Message(ParseSentencepiece(model.Bytes()).status()),
                HasSubstr("normalizer_spec.precompiled_charsmap"));
  }
  // Wherever its units point, only what is there is read, and text stays text.
  for (size_t at = 4; at < good.size(); at += 3) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0xFF);
    const auto map = CharacterMap::Parse(bad);
    const std::string mapped = map.ok() ? map->Apply("ab\u65e5a\uff0c") : "";
    EXPECT_FALSE(FindInvalidUtf8(mapped).has_value()) << at;
  }
}

TEST(SentencepieceTest, RefusesByField) {
  struct Case {
    std::function<void(TinySentencepiece*)> change;
    std::string named;
  };
  for (const Case& c : std::vector<Case>{
           {[](auto* m) { m->pieces.clear(); }, "pieces: there are none"},
           {[](auto* m) { m->model_type = 1; }, "trainer_spec.model_type: value 1"},
           {[](auto* m) { m->byte_fallback = false; }, "trainer_spec.byte_fallback"},
           {[](auto* m) { m->suffix = true; }, "trainer_spec.treat_whitespace_as_suffix"},
           {[](auto* m) { m->escape_spaces = false; }, "normalizer_spec.escape_whitespaces"},
           {[](auto* m) { m->pieces[261].text.clear(); }, "pieces[261].piece: empty"},
           {[](auto* m) { m->pieces[261].text = "\xFF"; }, "pieces[261].piece: not valid UTF-8"},
           {[](auto* m) { m->pieces[261].score = std::nanf(""); }, "pieces[261].score"},
           {[](auto* m) { m->pieces[261].type = 5; }, "pieces[261].type: value 5"},
           {[](auto* m) { m->pieces[261].type = 7; }, "pieces[261].type: value 7"},
           {[](auto* m) { m->pieces[261].text = "a"; }, "pieces[261].piece: given twice"},
           {[](auto* m) { m->pieces[10].type = 1; }, "pieces[10]: spells a byte"},
           {[](auto* m) { m->pieces[10].text = "x"; }, "pieces[10]: spells a byte"},
           {[](auto* m) {
              m->charsmap = TinyCharacterMap({{"a", "b"}});
              m->pieces[261].type = 4;
            },
            "pieces[261].type: a user defined piece"},
           {[](auto* m) {
              m->pieces[261] = {std::string(kAddedTokenBytesMax + 1, 'x'), 0, 4};
            },
            "pieces[261]"}}) {
    auto model = MakeTinySentencepiece(kWords);
    c.change(&model);
    EXPECT_THAT(Message(ParseSentencepiece(model.Bytes()).status()), HasSubstr(c.named));
  }
  auto model = MakeTinySentencepiece(kWords);
  model.pieces.erase(model.pieces.begin() + 5);
  EXPECT_THAT(Message(Tokenizer::Create(*ParseSentencepiece(model.Bytes())).status()),
              HasSubstr("no token stands for byte 0x02"));
  model = MakeTinySentencepiece({"a", std::string(kRankedTokenBytesMax + 1, 'a')});
  EXPECT_THAT(Message(Tokenizer::Create(*ParseSentencepiece(model.Bytes())).status()),
              HasSubstr("token 260 has 513 bytes"));
}

TEST(SentencepieceTest, RefusesWhatIsNoModel) {
  const std::string good = MakeTinySentencepiece(kWords).Bytes();
  for (size_t n = 0; n < good.size(); n += 7) {
    const auto spec = ParseSentencepiece(good.substr(0, n));
    const bool usable = spec.ok() && Tokenizer::Create(*spec).ok();
    EXPECT_FALSE(usable) << n;
  }
  EXPECT_THAT(Message(ParseSentencepiece(std::string(11, '\xFF')).status()),
              HasSubstr("more than 10 bytes"));
  EXPECT_THAT(Message(ParseSentencepiece("version https://git-lfs").status()), HasSubstr("field"));
}

// --- Directories of models with a tokenizer.model ---

TEST(SentencepieceDirectoryTest, LlamaPutsItsBeginningBeforeAPrompt) {
  TempDir dir;
  dir.Write("tokenizer.model", MakeTinySentencepiece(kWords).Bytes());
  auto plain = Tokenizer::Load(dir.path());
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(*(*plain)->EncodePrompt("a"), ElementsAre(1, kSpaceA));
  EXPECT_THAT(Trusted(**plain, "<s>a</s>a"), ElementsAre(1, kSpaceA, 2, kSpaceA));

  const auto load = [&](const json& config) {
    dir.Write("tokenizer_config.json", config.dump());
    return Tokenizer::Load(dir.path());
  };
  const auto modern =
      load({{"tokenizer_class", "LlamaTokenizer"}, {"legacy", false}, {"add_bos_token", false}});
  ASSERT_TRUE(modern.ok()) << modern.status();
  EXPECT_THAT(*(*modern)->EncodePrompt("a"), ElementsAre(kSpaceA));
  EXPECT_THAT(Trusted(**modern, "<s>a"), ElementsAre(1, kA));
  EXPECT_THAT(Message(load({{"tokenizer_class", "T5Tokenizer"}}).status()),
              HasSubstr("tokenizer_config.json.tokenizer_class: \"T5Tokenizer\""));
  EXPECT_THAT(Message(load({{"add_eos_token", true}}).status()), HasSubstr("add_eos_token"));
  EXPECT_THAT(Message(load({{"bos_token", "<q>"}}).status()), HasSubstr("bos_token"));
}

TEST(SentencepieceDirectoryTest, ChatGlmHasCommandsThatNoTextSpells) {
  TempDir dir;
  const auto model = MakeTinySentencepiece(kWords);
  dir.Write("tokenizer.model", model.Bytes());
  dir.Write("tokenizer_config.json", R"({"tokenizer_class": "ChatGLMTokenizer",
      "added_tokens_decoder": {"272": {"content": "sop", "special": false}}})");
  auto loaded = Tokenizer::Load(dir.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Tokenizer& tokenizer = **loaded;
  const auto first = static_cast<TokenId>(model.pieces.size());
  EXPECT_EQ(tokenizer.SpecialId("[MASK]"), first);
  EXPECT_EQ(tokenizer.SpecialId("<|system|>"), first + 5);
  EXPECT_EQ(tokenizer.SpecialId("<|observation|>"), first + 8);
  EXPECT_EQ(tokenizer.vocab_size(), first + 9);
  EXPECT_THAT(*tokenizer.EncodePrompt("a"), ElementsAre(first + 1, first + 3, kSpaceA));
  EXPECT_THAT(tokenizer.end_of_turn(), ElementsAre(first + 6, first + 8));
  EXPECT_THAT(Trusted(tokenizer, absl::StrCat("<|user|>\n", std::string(kTextBreak), "a")),
              ElementsAre(first + 6, kSpace, 3 + '\n', kSpaceA));
  for (const TokenId id : User(tokenizer, "sop<|user|>")) EXPECT_FALSE(tokenizer.IsSpecial(id));
}

// --- tokenizer.json of Llama 2 and 3 ---

// The same vocabulary as transformers writes it.
json LlamaJson() {
  json vocab = json::object(), added = json::array();
  const auto model = MakeTinySentencepiece(kWords);
  for (size_t i = 0; i < model.pieces.size(); ++i) vocab[model.pieces[i].text] = i;
  for (int id = 0; id < 3; ++id) {
    added.push_back({{"id", id},
                     {"content", model.pieces[id].text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", id == 0},
                     {"special", true}});
  }
  const json bos = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {{"added_tokens", added},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "\u2581"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {bos, text}},
            {"pair", {bos, text, bos, text}},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", {"\u2581 a", "a b", "\u2581 ab", "\u2581a b", "a n"}}}}};
}

TEST(LlamaJsonTest, GivesTheIdsOfTheModelItWasMadeFrom) {
  const auto tokenizer = Built(ParseTokenizerJson(LlamaJson().dump()));
  const auto model = Built(ParseSentencepiece(MakeTinySentencepiece(kWords).Bytes()));
  for (const std::string text : {"", "a", "ab", "bab  an", " \u00e9\n", "\u65e5<s>", "x\u2581a"}) {
    EXPECT_EQ(User(*tokenizer, text), User(*model, text)) << text;
    EXPECT_EQ(Back(*tokenizer, User(*tokenizer, text)), Back(*model, User(*model, text)));
  }
  EXPECT_THAT(*tokenizer->EncodePrompt("a"), ElementsAre(1, kSpaceA));
  EXPECT_THAT(Trusted(*tokenizer, "<s>a</s>a<unk>"), ElementsAre(1, kSpaceA, 2, kSpaceA, 0));
}

TEST(LlamaJsonTest, MetaspaceInPlaceOfNormalizers) {
  json document = LlamaJson();
  document["normalizer"] = nullptr;
  const auto load = [&](const json& metaspace) {
    document["pre_tokenizer"] = metaspace;
    return Built(ParseTokenizerJson(document.dump()));
  };
  json metaspace = {{"type", "Metaspace"},
                    {"replacement", "\u2581"},
                    {"prepend_scheme", "first"},
                    {"split", false}};
  const auto first = load(metaspace);
  EXPECT_THAT(Trusted(*first, "a"), ElementsAre(kSpaceA));
  EXPECT_THAT(Trusted(*first, " a"), ElementsAre(kSpaceA));  // has its space already
  EXPECT_THAT(Trusted(*first, "<s>a"), ElementsAre(1, kA));
  metaspace["prepend_scheme"] = "always";
  EXPECT_THAT(Trusted(*load(metaspace), "<s>a"), ElementsAre(1, kSpaceA));
  metaspace["prepend_scheme"] = "never";
  EXPECT_THAT(Trusted(*load(metaspace), "a"), ElementsAre(kA));
  metaspace = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"add_prefix_space", true}};
  EXPECT_THAT(Trusted(*load(metaspace), "<s>a"), ElementsAre(1, kSpaceA));
}

TEST(LlamaJsonTest, RefusesByField) {
  struct Case {
    std::string pointer;
    json value;
    std::string named;
  };
  const json strip = {{"type", "Strip"}, {"content", "x"}, {"start", 1}, {"stop", 0}};
  for (const Case& c : std::vector<Case>{
           {"/model/byte_fallback", false, "model.byte_fallback"},
           {"/normalizer/normalizers/0/prepend", "x", "normalizer.normalizers[0].prepend"},
           {"/normalizer/normalizers/1/content", "_", "normalizers[1].content"},
           {"/normalizer/normalizers/1/pattern", {{"Regex", " "}}, "normalizers[1].pattern"},
           {"/normalizer",
            {{"type", "Prepend"}, {"prepend", "\u2581"}},
            "normalizer: Prepend without"},
           {"/decoder", {{"type", "ByteLevel"}}, "decoder.type"},
           {"/decoder/decoders/3", strip, "decoders[3].content"},
           {"/post_processor/single/0/SpecialToken/id", "<x>", "special_tokens.<x>"},
           {"/post_processor/single/0", {{"Sequence", {{"id", "A"}}}}, "single[1]"},
           {"/post_processor/special_tokens/<s>/ids", json::array({-1}), "special_tokens.<s>.ids"},
           {"/pre_tokenizer", {{"type", "ByteLevel"}}, "pre_tokenizer.type: \"ByteLevel\""}}) {
    json document = LlamaJson();
    document[json::json_pointer(c.pointer)] = c.value;
    const auto spec = ParseTokenizerJson(document.dump());
    ASSERT_FALSE(spec.ok()) << c.pointer;
    EXPECT_THAT(Message(spec.status()), HasSubstr(c.named)) << c.pointer;
  }
  json document = LlamaJson();
  document["model"]["vocab"]["a b"] = 999;
  EXPECT_THAT(Message(Tokenizer::Create(*ParseTokenizerJson(document.dump())).status()),
              HasSubstr("\"a b\" (999) is not spelled"));
}

// Llama 3 keeps words whole that no merge makes, and begins prompts with a token.
TEST(LlamaJsonTest, ByteLevelWithWholeWordsAndABeginning) {
  json document = TinyTokenizerJson();
  document["model"]["ignore_merges"] = true;
  document["model"]["vocab"]["qqq"] = 280;
  document["post_processor"] = {{"type", "Sequence"},
                                {"processors",
                                 {document["decoder"],
                                  {{"type", "TemplateProcessing"},
                                   {"single",
                                    {{{"SpecialToken", {{"id", "<|end|>"}, {"type_id", 0}}}},
                                     {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
                                   {"special_tokens", {{"<|end|>", {{"ids", {kTinyEnd}}}}}}}}}};
  const auto tokenizer = Built(ParseTokenizerJson(document.dump()));
  EXPECT_THAT(*tokenizer->EncodePrompt("qqq"), ElementsAre(kTinyEnd, 280));
  EXPECT_THAT(User(*tokenizer, "qqqq"), ElementsAre('q', 'q', 'q', 'q'));
}

}  // namespace
}  // namespace tutti::text
