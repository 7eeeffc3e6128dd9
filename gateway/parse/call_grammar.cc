#include "gateway/parse/call_grammar.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr std::string_view kAssistantTag = "<|assistant|>";

// The markup of one form. Between `begin` and `end` stands one of the functions: `before_name`, its
// name, `behind_name`, its arguments.
struct CallMarkup {
  std::string_view begin, before_name, behind_name, end;
  std::string_view between;  // two calls; empty: there is only one
};

CallMarkup MarkupOf(ToolForm form) {
  switch (form) {
    case ToolForm::kQwenXml:
      return {"<tool_call>\n", "<function=", ">\n", "</function>\n</tool_call>", "\n"};
    case ToolForm::kLlama3:
      return {"", "{\"name\": \"", "\", \"parameters\": ", "}", "; "};
    case ToolForm::kChatGlm3:
      return {"", "", "\n", "", ""};
    default:
      return {"<tool_call>\n", "{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>", "\n"};
  }
}

// Text in which the form's parser finds no call.
std::string FreeText(ToolForm form) {
  switch (form) {
    case ToolForm::kQwenXml:
      return R"((%without "<tool_call>" "<function="))";
    case ToolForm::kLlama3: {
      // An object at the beginning would be a call; a tag may not be spelled over the two parts.
      const std::string rest = absl::StrCat("(%without ", EbnfString(kPythonTag), ")");
      return absl::StrCat("[ \\t\\r\\n]* ([^{< \\t\\r\\n] ", rest, " | \"<\" ([^|<] ", rest,
                          ")?)?");
    }
    case ToolForm::kChatGlm3:
      // The line of the function's name is empty.
      return absl::StrCat("\"\\n\" (%without ", EbnfString(kAssistantTag), ")");
    default:
      return R"((%without "<tool_call>"))";
  }
}

// Whether an answer in the form has either text or calls. In the others calls may be behind text.
bool IsTextOrCalls(ToolForm form) {
  return form == ToolForm::kLlama3 || form == ToolForm::kChatGlm3;
}

}  // namespace

bool IsCallableName(std::string_view name) {
  if (name.empty() || name.size() > kFunctionNameBytesMax) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("\"\\<>{}=`").find(c) == std::string_view::npos;
  });
}

std::string EbnfString(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += "\\x";
      quoted += kDigits[c >> 4 & 15];
      quoted += kDigits[c & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string EbnfJson(std::string_view schema) {
  return absl::StrCat("%json ", absl::string_view(schema.data(), schema.size()));
}

CallGrammar GrammarOfCalls(ToolForm form, const std::vector<CallableFunction>& functions,
                           const CallRules& rules) {
  CHECK(!functions.empty() && rules.calls_max > 0);
  const CallMarkup markup = MarkupOf(form);
  CallGrammar grammar;
  std::string& ebnf = grammar.ebnf;
  ebnf = "root ::= ";
  if (!rules.must_call && !rules.content.empty()) {
    grammar.parts.emplace_back(ebnf.size(), rules.content_path);
    absl::StrAppend(&ebnf, rules.content, " | calls");
  } else if (!rules.must_call) {
    absl::StrAppend(&ebnf, FreeText(form), IsTextOrCalls(form) ? " | calls" : " (calls)?");
  } else {
    absl::StrAppend(&ebnf, "calls");
  }
  absl::StrAppend(&ebnf, "\ncalls ::= call");
  if (rules.calls_max > 1 && !markup.between.empty()) {
    absl::StrAppend(&ebnf, " (", EbnfString(markup.between), " call){0,", rules.calls_max - 1, "}");
  }
  // ChatGLM3's tokenizer writes a space before the first word.
  absl::StrAppend(&ebnf, "\ncall ::= ", form == ToolForm::kChatGlm3 ? "\" \"? " : "",
                  EbnfString(markup.begin), " (");
  for (const CallableFunction& function : functions) {
    const std::string head =
        std::string(markup.before_name).append(function.name).append(markup.behind_name);
    absl::StrAppend(&ebnf, &function == &functions.front() ? "" : " | ", EbnfString(head), " ");
    grammar.parts.emplace_back(ebnf.size(), function.path);
    absl::StrAppend(&ebnf, form == ToolForm::kQwenXml ? function.xml : function.json);
  }
  absl::StrAppend(&ebnf, ") ", EbnfString(markup.end), "\n");
  return grammar;
}

}  // namespace tutti::gateway
