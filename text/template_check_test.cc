#include "text/template_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/text_testing.h"

namespace tutti::text {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> Faults(std::string_view source, const std::vector<TokenId>& ends) {
  const auto chat_template = ChatTemplate::Parse(source);
  EXPECT_TRUE(chat_template.ok()) << chat_template.status();
  return TemplateFaults(*chat_template, *TinyTokenizer(), ends);
}

constexpr std::string_view kEnded = "{% for m in messages %}{{ m.content }}<|end|>\n{% endfor %}";

TEST(TemplateCheckTest, MarkersAndEndsThatAreTokens) {
  EXPECT_THAT(Faults(kEnded, {kTinyEnd}), IsEmpty());
  EXPECT_THAT(Faults("{% for m in messages %}[INST] {{ m.content }}{% endfor %}", {}), IsEmpty());
  EXPECT_THAT(Faults("{{ raise_exception('no') }}", {}), IsEmpty());
}

TEST(TemplateCheckTest, AMarkerThatIsNoToken) {
  EXPECT_THAT(
      Faults("{% for m in messages %}<|im_start|>{{ m.content }} <| a <b|> <|end|>{% endfor %}",
             {kTinyEnd}),
      ElementsAre(AllOf(HasSubstr("writes <|im_start|>, which the tokenizer cuts into 12"),
                        HasSubstr("added_tokens.json"))));
}

TEST(TemplateCheckTest, AnEndThatEndsNothing) {
  EXPECT_THAT(Faults(kEnded, {5, 6}),
              ElementsAre(AllOf(HasSubstr("ends an answer with <|end|> (300)"),
                                HasSubstr("(5, 6): answers go on past their end"))));
}

// Text of a message that looks like a marker is text.
TEST(TemplateCheckTest, OnlyWhatTheTemplateWritesIsLookedAt) {
  EXPECT_THAT(Faults("{{ messages[0].content }}<|end|>", {kTinyEnd}), IsEmpty());
}

}  // namespace
}  // namespace tutti::text
