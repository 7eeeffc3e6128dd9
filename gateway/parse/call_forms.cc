#include "gateway/parse/call_forms.h"

#include "gateway/parse/chatglm_calls.h"
#include "gateway/parse/hermes_calls.h"
#include "gateway/parse/llama_calls.h"
#include "gateway/parse/xml_calls.h"

namespace tutti::gateway {

std::unique_ptr<CallParser> MakeCallParser(ToolForm form, const Functions* functions) {
  switch (form) {
    case ToolForm::kHermes:
      return std::make_unique<HermesCalls>(functions);
    case ToolForm::kQwenXml:
      return std::make_unique<XmlCalls>(functions);
    case ToolForm::kLlama3:
      return std::make_unique<LlamaCalls>(functions);
    case ToolForm::kChatGlm3:
      return std::make_unique<ChatGlmCalls>(functions);
    case ToolForm::kNone:
      break;
  }
  return nullptr;
}

}  // namespace tutti::gateway
