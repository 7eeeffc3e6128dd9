// Sentencepiece models: their pieces, and the directories of Llama 2 and ChatGLM3.
#include "text/sentencepiece_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files_testing.h"
#include "text/character_map.h"
#include "text/detokenizer.h"
#include "text/limits.h"
#include "text/sentencepiece_testing.h"
#include "text/text_break.h"
#include "text/text_testing.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace tutti::text {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(SentencepieceTest, MergesByScoreWithASpaceInFront) {
  const auto tokenizer =
      BuildTokenizer(ParseSentencepiece(MakeTinySentencepiece(TinyWords()).Bytes()));
  EXPECT_THAT(EncodeUser(*tokenizer, "a"), ElementsAre(kSpaceA));
  EXPECT_THAT(EncodeUser(*tokenizer, "an"), ElementsAre(kSpaceA, kN));  // "▁a" scores above "an"
  EXPECT_THAT(EncodeUser(*tokenizer, "ab"), ElementsAre(kSpaceAb));
  EXPECT_THAT(EncodeUser(*tokenizer, "bab"), ElementsAre(kSpace, kB, kAb));
  EXPECT_THAT(EncodeUser(*tokenizer, "b  an"), ElementsAre(kSpace, kB, kSpace, kSpaceA, kN));
  EXPECT_THAT(EncodeUser(*tokenizer, ""), ElementsAre());
  EXPECT_THAT(EncodeUser(*tokenizer, " "), ElementsAre(kSpace, kSpace));
  EXPECT_THAT(EncodeUser(*tokenizer, "\u00e9"), ElementsAre(kSpace, kE));
  // U+2581 is how a space is written.
  EXPECT_EQ(EncodeUser(*tokenizer, "b\u2581an"), EncodeUser(*tokenizer, "b an"));
}

TEST(SentencepieceTest, CharactersWithoutAPieceFallBackToBytes) {
  const auto tokenizer =
      BuildTokenizer(ParseSentencepiece(MakeTinySentencepiece(TinyWords()).Bytes()));
  EXPECT_THAT(EncodeUser(*tokenizer, "\n"), ElementsAre(kSpace, 3 + '\n'));
  EXPECT_THAT(EncodeUser(*tokenizer, "a\u65e5b"),
              ElementsAre(kSpaceA, 3 + 0xE6, 3 + 0x97, 3 + 0xA5, kB));
  EXPECT_EQ(tokenizer->TokenText(3 + 0xE6), "\xE6");
  EXPECT_EQ(tokenizer->TokenText(kSpaceAb), " ab");
  // Spelling a byte token gives none.
  for (const TokenId id : EncodeUser(*tokenizer, "<0x41>")) EXPECT_NE(id, 3 + 0x41);
}

// A piece may be made of a character that is no piece.
TEST(SentencepieceTest, MergesThroughCharactersWithoutAPiece) {
  auto model = MakeTinySentencepiece({"a", "a\u00fc", "\u00fc\u00fc"});
  const auto tokenizer = BuildTokenizer(ParseSentencepiece(model.Bytes()));
  EXPECT_THAT(EncodeUser(*tokenizer, "a\u00fc"), ElementsAre(3 + ' ', kTinyFirstWord + 1));
  EXPECT_THAT(EncodeUser(*tokenizer, "\u00fc\u00fca"),
              ElementsAre(3 + ' ', kTinyFirstWord + 2, kTinyFirstWord));
  EXPECT_THAT(EncodeUser(*tokenizer, "\u00fc"), ElementsAre(3 + ' ', 3 + 0xC3, 3 + 0xBC));
}

TEST(SentencepieceTest, EqualScoresMergeFromTheLeft) {
  auto model = MakeTinySentencepiece({"a", "b", "ab", "ba"});
  model.pieces[kTinyFirstWord + 2].score = model.pieces[kTinyFirstWord + 3].score = -7;
  const auto tokenizer = BuildTokenizer(ParseSentencepiece(model.Bytes()));
  EXPECT_THAT(EncodeUser(*tokenizer, "bab"),
              ElementsAre(3 + ' ', kTinyFirstWord + 3, kTinyFirstWord + 1));
}

TEST(SentencepieceTest, WithoutPrefixAndWithSpacesRemoved) {
  auto model = MakeTinySentencepiece(TinyWords());
  model.dummy_prefix = false;
  EXPECT_THAT(EncodeUser(*BuildTokenizer(ParseSentencepiece(model.Bytes())), "ab"),
              ElementsAre(kAb));
  model.dummy_prefix = true;
  model.remove_extra_spaces = true;
  const auto tokenizer = BuildTokenizer(ParseSentencepiece(model.Bytes()));
  EXPECT_EQ(EncodeUser(*tokenizer, "  a   b  "), EncodeUser(*tokenizer, "a b"));
  EXPECT_THAT(EncodeUser(*tokenizer, "   "), ElementsAre());
}

TEST(SentencepieceTest, ControlPiecesAreSpecialAndUserDefinedOnesAreNot) {
  auto model = MakeTinySentencepiece(TinyWords());
  model.pieces.push_back({"<n>", 0, 4});
  const auto tokenizer = BuildTokenizer(ParseSentencepiece(model.Bytes()));
  const auto defined = static_cast<TokenId>(model.pieces.size()) - 1;
  EXPECT_THAT(EncodeUser(*tokenizer, "a<n>a"), ElementsAre(kSpaceA, defined, kA));
  EXPECT_EQ(tokenizer->SpecialId("<s>"), 1);
  EXPECT_THAT(EncodeTrusted(*tokenizer, "<s>a</s>a"), ElementsAre(1, kSpaceA, 2, kSpaceA));
  EXPECT_EQ(EncodeUser(*tokenizer, "<s>").size(), 4u);  // space, bytes of "<", "s", ">"
}

TEST(SentencepieceTest, DecodesWhatItEncodes) {
  const auto tokenizer =
      BuildTokenizer(ParseSentencepiece(MakeTinySentencepiece(TinyWords()).Bytes()));
  for (const std::string text : {"", "a", " a", "  a b ", "\u65e5\u672c a\n", "\U0001F642"}) {
    EXPECT_EQ(DecodeAll(*tokenizer, EncodeUser(*tokenizer, text)), text);
  }
  // Tokens after other text keep their space.
  Detokenizer continuation(tokenizer.get(), false);
  EXPECT_EQ(continuation.Push(kSpaceAb), " ab");
  Detokenizer bytes(tokenizer.get(), false);
  EXPECT_EQ(bytes.Push(3 + 0xC3), "");
  EXPECT_EQ(bytes.Push(3 + 0xA9), "\u00e9");
}

// The longest beginning that has a replacement is replaced; nothing is replaced twice.
TEST(SentencepieceTest, MapsCharactersFirst) {
  auto model = MakeTinySentencepiece(TinyWords());
  model.charsmap =
      TinyCharacterMap({{"\uff0c", "b"}, {"\u3000", " "}, {"c", "ab"}, {"cc", ""}, {"n", "c"}});
  const auto ids = [&] { return BuildTokenizer(ParseSentencepiece(model.Bytes())); };
  EXPECT_EQ(EncodeUser(*ids(), "a\uff0c"), EncodeUser(*ids(), "ab"));
  EXPECT_EQ(EncodeUser(*ids(), "b\u3000a"), EncodeUser(*ids(), "b a"));
  EXPECT_EQ(EncodeUser(*ids(), "cccb"), EncodeUser(*ids(), "abb"));
  EXPECT_THAT(EncodeUser(*ids(), "n"), ElementsAre(kSpace, kC));
  EXPECT_THAT(EncodeUser(*ids(), "cc"), ElementsAre(kSpace));
  model.remove_extra_spaces = true;
  EXPECT_EQ(EncodeUser(*ids(), "\u3000a\u3000 b "), EncodeUser(*ids(), "a b"));
  EXPECT_THAT(EncodeUser(*ids(), "cc"), ElementsAre());
}

TEST(SentencepieceTest, RefusesCharacterMapsThatContradictThemselves) {
  const std::string good = TinyCharacterMap({{"a", "b"}});
  EXPECT_TRUE(CharacterMap::Parse(good).ok());
  for (const std::string& bad :
       {std::string("abc"), std::string("\0\0\0\0", 4), good.substr(0, 100),
        std::string("\x03\0\0\0xxxxxxx", 11), TinyCharacterMap({{"a", "\xFF"}}),
        TinyCharacterMap({{"a", std::string(kCharacterMapTargetBytesMax + 1, 'b')}})}) {
    auto model = MakeTinySentencepiece(TinyWords());
    model.charsmap = bad;
    EXPECT_THAT(MessageOf(ParseSentencepiece(model.Bytes()).status()),
                HasSubstr("normalizer_spec.precompiled_charsmap"));
  }
  // Wherever its units point, only existing bytes are read, and text stays text.
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
    auto model = MakeTinySentencepiece(TinyWords());
    c.change(&model);
    EXPECT_THAT(MessageOf(ParseSentencepiece(model.Bytes()).status()), HasSubstr(c.named));
  }
  auto model = MakeTinySentencepiece(TinyWords());
  model.pieces.erase(model.pieces.begin() + 5);
  EXPECT_THAT(MessageOf(Tokenizer::Create(*ParseSentencepiece(model.Bytes())).status()),
              HasSubstr("no token stands for byte 0x02"));
  model = MakeTinySentencepiece({"a", std::string(kRankedTokenBytesMax + 1, 'a')});
  EXPECT_THAT(MessageOf(Tokenizer::Create(*ParseSentencepiece(model.Bytes())).status()),
              HasSubstr("token 260 has 513 bytes"));
}

TEST(SentencepieceTest, RefusesWhatIsNoModel) {
  const std::string good = MakeTinySentencepiece(TinyWords()).Bytes();
  for (size_t n = 0; n < good.size(); n += 7) {
    const auto spec = ParseSentencepiece(good.substr(0, n));
    const bool usable = spec.ok() && Tokenizer::Create(*spec).ok();
    EXPECT_FALSE(usable) << n;
  }
  EXPECT_THAT(MessageOf(ParseSentencepiece(std::string(11, '\xFF')).status()),
              HasSubstr("more than 10 bytes"));
  EXPECT_THAT(MessageOf(ParseSentencepiece("version https://git-lfs").status()),
              HasSubstr("field"));
}

// --- Directories of models with a tokenizer.model ---

TEST(SentencepieceDirectoryTest, LlamaPutsItsBeginningBeforeAPrompt) {
  TempDir dir;
  dir.Write("tokenizer.model", MakeTinySentencepiece(TinyWords()).Bytes());
  auto plain = Tokenizer::Load(dir.path());
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(*(*plain)->EncodePrompt("a"), ElementsAre(1, kSpaceA));
  EXPECT_THAT(EncodeTrusted(**plain, "<s>a</s>a"), ElementsAre(1, kSpaceA, 2, kSpaceA));

  const auto load = [&](const json& config) {
    dir.Write("tokenizer_config.json", config.dump());
    return Tokenizer::Load(dir.path());
  };
  const auto modern =
      load({{"tokenizer_class", "LlamaTokenizer"}, {"legacy", false}, {"add_bos_token", false}});
  ASSERT_TRUE(modern.ok()) << modern.status();
  EXPECT_THAT(*(*modern)->EncodePrompt("a"), ElementsAre(kSpaceA));
  EXPECT_THAT(EncodeTrusted(**modern, "<s>a"), ElementsAre(1, kA));
  EXPECT_THAT(MessageOf(load({{"tokenizer_class", "T5Tokenizer"}}).status()),
              HasSubstr("tokenizer_config.json.tokenizer_class: \"T5Tokenizer\""));
  EXPECT_THAT(MessageOf(load({{"add_eos_token", true}}).status()), HasSubstr("add_eos_token"));
  EXPECT_THAT(MessageOf(load({{"bos_token", "<q>"}}).status()), HasSubstr("bos_token"));
}

TEST(SentencepieceDirectoryTest, ChatGlmHasCommandsThatNoTextSpells) {
  TempDir dir;
  const auto model = MakeTinySentencepiece(TinyWords());
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
  EXPECT_THAT(EncodeTrusted(tokenizer, absl::StrCat("<|user|>\n", std::string(kTextBreak), "a")),
              ElementsAre(first + 6, kSpace, 3 + '\n', kSpaceA));
  const std::string spelled = absl::StrCat("a", std::string(kTextBreak), "a");
  EXPECT_EQ(*tokenizer.EncodePrompt(spelled, {.adds_prefix = false}),
            EncodeUser(tokenizer, spelled));
  EXPECT_THAT(*tokenizer.EncodePrompt("<|user|>", {.adds_prefix = false}), ElementsAre(first + 6));
  for (const TokenId id : EncodeUser(tokenizer, "sop<|user|>"))
    EXPECT_FALSE(tokenizer.IsSpecial(id));
}

// --- tokenizer.json of Llama 2 and 3 ---

}  // namespace
}  // namespace tutti::text
