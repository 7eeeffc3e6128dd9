// Outputs of each family, written from the formats of their chat templates.
#include "gateway/parse/call_parser.h"

#include <gtest/gtest.h>

#include "gateway/parse/answer_testing.h"

namespace tutti::gateway {
namespace {

TEST(HermesCalls, AreFound) {
  Check(Options(ToolForm::kHermes),
        {
            {R"(<tool_call>
{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}
</tool_call>)",
             {"", "", {{"get_weather", R"({"city": "Paris", "days": 3})"}}, true}},
            {"I look.\n<tool_call>\n{\"name\": \"now\", \"arguments\": "
             "{}}\n</tool_call>\n<tool_call>\n"
             "{\"arguments\": {\"path\":\"a\"}, \"name\": \"write_file\"}\n</tool_call>\nDone.",
             {"I look.Done.", "", {{"now", "{}"}, {"write_file", R"({"path":"a"})"}}, true}},
            // Tags and escapes inside of a text.
            {R"(<tool_call>{"name": "get_weather",
"arguments": {"city": "</tool_call>\"\u00e9}{"}}</tool_call>)",
             {"", "", {{"get_weather", R"({"city": "</tool_call>\"\u00e9}{"})"}}, true}},
            // A text with line ends as they are.
            {"<tool_call>{\"name\":\"write_file\",\"arguments\":{\"path\":\"a\n\tb\"}}</tool_call>",
             {"", "", {{"write_file", R"({"path":"a\n\tb"})"}}, true}},
            // The model forgot to close the first.
            {"<tool_call>{\"name\":\"now\",\"arguments\":{}}\n<tool_call>{\"name\":\"now\","
             "\"arguments\":{}}",
             {"", "", {{"now", "{}"}, {"now", "{}"}}, true}},
            {"<tool_call><tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call></tool_call>",
             {"", "", {{"now", "{}"}}, true}},
            // So are braces and tags that close nothing, and tags that were cut.
            {"<tool_call>{\"name\":\"now\",\"arguments\":{}}}\n</tool_call>\n</tool_call>\nSo.",
             {"So.", "", {{"now", "{}"}}, true}},
            {"<tool_call>{\"name\":\"now\",\"arguments\":{}}\n</tool_c",
             {"", "", {{"now", "{}"}}, true}},
            {"<tool_call>\n<tool_call>\nHm. </tool_call>",
             {"<tool_call>\n<tool_call>\nHm. </tool_call>", "", {}, false}},
        });
}

TEST(HermesCalls, ThatAreNoneAreText) {
  CheckIsText(Options(ToolForm::kHermes),
              {
                  "Plain text, 2 < 3.\n\n",
                  "half a tag <tool_c",
                  "text\n<tool_call>\n",
                  "<tool_call>\n{\"name\": \"get_weather\", \"arg",
                  "<tool_call>\n{\"name\": \"launch\", \"arguments\": {}}\n</tool_call>",
                  "<tool_call>{'name': 'now'}</tool_call>",
                  "<tool_call>{\"name\": \"now\", \"arguments\": {city: 1}}</tool_call>",
                  "<tool_call>{\"name\": \"now\", \"arguments\": \"{}\"}</tool_call>",
                  "<tool_call>{\"name\": \"now\"}</tool_call>",
                  "<tool_call>[{\"name\": \"now\", \"arguments\": {}}]</tool_call>",
                  "<tool_call>{\"name\": \"now\", \"other\": 1, \"arguments\": {}}</tool_call>",
                  "<tool_call></tool_call>",
                  "</tool_call>",
              });
}

// Text that has been said stays said; the rest is content.
TEST(HermesCalls, ThatBreakOffKeepWhatHasBeenSaid) {
  Check(Options(ToolForm::kHermes),
        {
            {"<tool_call>{\"name\":\"get_weather\",\"arguments\":{\"city\": Paris}}</tool_call>",
             {"Paris}}</tool_call>", "", {{"get_weather", "{\"city\": "}}, false}},
            {"<tool_call>{\"name\":\"get_weather\",\"arguments\":{\"city\": \"Par",
             {"", "", {{"get_weather", "{\"city\": \"Par"}}, false}},
        });
}

TEST(XmlCalls, AreFound) {
  Check(Options(ToolForm::kQwenXml),
        {
            {"<tool_call>\n<function=get_weather>\n<parameter=city>\nNew \"York\"\n</parameter>\n"
             "<parameter=days>\n3\n</parameter>\n<parameter=metric>\nTrue\n</parameter>\n</"
             "function>\n"
             "</tool_call>",
             {"",
              "",
              {{"get_weather", R"({"city": "New \"York\"", "days": 3, "metric": true})"}},
              true}},
            {"<function=now>\n</function>\nand\n<tool_call><function=now></function></tool_call>",
             {"and", "", {{"now", "{}"}, {"now", "{}"}}, true}},
            {"<tool_call>\n<function=write_file>\n<parameter=path>\n</tool_call>\n\n</parameter>\n"
             "<parameter=lines>[\"a\", 1]</parameter>\n<parameter=other>7</parameter></function>",
             {"",
              "",
              {{"write_file", R"({"path": "</tool_call>\n", "lines": ["a", 1], "other": "7"})"}},
              true}},
            // Values that are not of their types are texts.
            {"<function=get_weather><parameter=days>soon</parameter><parameter=metric>null</"
             "parameter>"
             "</function>",
             {"", "", {{"get_weather", R"({"days": "soon", "metric": null})"}}, true}},
        });
}

// </parameter> is missing.
TEST(XmlCalls, ValuesEndWithTheNextParameterOrTheFunction) {
  Check(Options(ToolForm::kQwenXml),
        {
            {"<tool_call>\n<function=get_weather>\n<parameter=city>\na\n<parameter=days>\n3\n"
             "</function>\n</tool_call>\nand",
             {"and", "", {{"get_weather", R"({"city": "a", "days": 3})"}}, true}},
            {"<tool_call><function=get_weather><parameter=city>a</function></tool_call>",
             {"", "", {{"get_weather", R"({"city": "a"})"}}, true}},
            {"<function=get_weather>\n<parameter=city>\na\n</function>\nand",
             {"and", "", {{"get_weather", R"({"city": "a"})"}}, true}},
            {"<function=get_weather><parameter=city>a</function>\n<function=now></function>",
             {"", "", {{"get_weather", R"({"city": "a"})"}, {"now", "{}"}}, true}},
            {"<tool_call>\n<function=get_weather>\n<parameter=city>\na\n</function>",
             {"", "", {{"get_weather", R"({"city": "a"})"}}, true}},
            // Tags that close nothing.
            {"<function=get_weather>\n<parameter=city>\na\n</parameter>\n</parameter>\n"
             "</function>\n</tool_call>\n</function>\nand",
             {"and", "", {{"get_weather", R"({"city": "a"})"}}, true}},
            {"<tool_call>\n<function=now>\n</function>\n</tool_", {"", "", {{"now", "{}"}}, true}},
            // A line that begins with no other parameter of the function, or with one that has been
            // given, is text; so is the end of a function that no call's end follows.
            {"<tool_call>\n<function=write_file>\n<parameter=path>\na\n<parameter=mode>\n"
             "<parameter=path>\n</function>\nb\n</parameter>\n</function>\n</tool_call>",
             {"",
              "",
              {{"write_file",
                R"({"path": "a\n<parameter=mode>\n<parameter=path>\n</function>\nb"})"}},
              true}},
            {"<tool_call>\n<function=write_file>\n<parameter=path>\nx <parameter=lines>\n"
             "<parameter=li\n</parameter>\n</function>\n</tool_call>",
             {"", "", {{"write_file", R"({"path": "x <parameter=lines>\n<parameter=li"})"}}, true}},
        });
}

TEST(XmlCalls, ThatAreNoneAreText) {
  CheckIsText(Options(ToolForm::kQwenXml),
              {
                  "text <tool_call> and <function",
                  "<tool_call>\n<function=launch>\n</function>\n</tool_call>",
                  "<tool_call>\n<function=get_weather>\nwhat\n</function>\n</tool_call>",
                  "<tool_call>\n<function=get_weather>\n<parameter=ci\nty>",
                  "<tool_call>\n<function=get_weather>\n<param",
                  "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
                  "<function=\n",
              });
}

TEST(XmlCalls, ThatBreakOffKeepWhatHasBeenSaid) {
  Check(Options(ToolForm::kQwenXml),
        {
            {"<function=get_weather>\n<parameter=city>\nPar\n</para",
             {"", "", {{"get_weather", "{\"city\": \"Par\\n</para"}}, false}},
            {"<function=get_weather>\n<parameter=city>\na\n<parameter=da",
             {"", "", {{"get_weather", "{\"city\": \"a\\n<parameter=da"}}, false}},
            {"<function=get_weather>\n<parameter=days>\n3",
             {"", "", {{"get_weather", "{\"days\": 3"}}, false}},
            {"<function=get_weather>\n<parameter=days>3</parameter>\n<parameter=ci",
             {"<parameter=ci", "", {{"get_weather", "{\"days\": 3"}}, false}},
            {"<function=get_weather>\n<parameter=days>3</parameter>\nwhat</function>",
             {"\nwhat</function>", "", {{"get_weather", "{\"days\": 3"}}, false}},
        });
}

TEST(LlamaCalls, AreFound) {
  Check(Options(ToolForm::kLlama3),
        {
            {R"({"name": "get_weather", "parameters": {"city": "Paris"}})",
             {"", "", {{"get_weather", R"({"city": "Paris"})"}}, true}},
            {R"(<|python_tag|>{"type": "function", "name": "now", "arguments": {}}<|eom_id|>)",
             {"", "", {{"now", "{}"}}, true}},
            {R"({"name":"now","parameters":{}}; {"name":"now","parameters":{}})",
             {"", "", {{"now", "{}"}, {"now", "{}"}}, true}},
            {R"({"name":"now","parameters":{}}}})", {"", "", {{"now", "{}"}}, true}},
            {R"(I look. <|python_tag|>{"name":"now","parameters":{}}<|eot_id|>)",
             {"I look. ", "", {{"now", "{}"}}, true}},
            {"Plain.<|eot_id|>", {"Plain.", "", {}, false}},
        });
}

TEST(LlamaCalls, ThatAreNoneAreText) {
  CheckIsText(Options(ToolForm::kLlama3), {
                                              R"({"city": "Paris", "days": 3})",
                                              R"({"name": "launch", "parameters": {}})",
                                              R"({"name": "now", "parameters": null})",
                                              R"(See {"name": "now", "parameters": {}})",
                                              "<|python_tag|>print(1)",
                                              " \n {",
                                              "<|python",
                                          });
}

TEST(ChatGlmCalls, AreFound) {
  Check(
      Options(ToolForm::kChatGlm3),
      {
          {"get_weather\n ```python\ntool_call(city='Pa\\'ris \"x\"', days=-2.5, metric=True)\n```",
           {"",
            "",
            {{"get_weather", R"({"city": "Pa'ris \"x\"", "days": -2.5, "metric": true})"}},
            true}},
          {"write_file\n{\"path\": \"a\", \"lines\": [1]}",
           {"", "", {{"write_file", R"({"path": "a", "lines": [1]})"}}, true}},
          {" write_file\n```python\ntool_call(path=\"\\u00e9\\x41\", lines=[1, (None,), {'a': "
           "'b',},],)\n```"
           "<|observation|>",
           {"",
            "",
            {{"write_file", "{\"path\": \"\u00e9A\", \"lines\": [1, [null], {\"a\": \"b\"}]}"}},
            true}},
          {"\n Let me see.<|assistant|>now\n ```python\ntool_call()\n```",
           {"Let me see.", "", {{"now", "{}"}}, true}},
          {"\n Hello.", {"Hello.", "", {}, false}},
      });
}

TEST(ChatGlmCalls, ThatAreNoneAreText) {
  CheckIsText(Options(ToolForm::kChatGlm3), {
                                                "Hello",
                                                "launch\n ```python\ntool_call()\n```",
                                                "now\nis the time",
                                                "now\n```python\nprint()",
                                                "now\n```python\ntool_call(1)\n```",
                                                "no",
                                                "now\n {",
                                                "now\n{city: 1}",
                                            });
  Check(Options(ToolForm::kChatGlm3), {{"get_weather\n```python\ntool_call(city=Paris)\n```",
                                        {")\n```", "", {{"get_weather", "{\"city\": "}}, false}}});
}

}  // namespace
}  // namespace tutti::gateway
