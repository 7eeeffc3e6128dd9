// A client's conversation, checked, in the form chat templates take it.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "base/status.h"
#include "text/template_json.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {

// The messages as HuggingFace's apply_chat_template takes them: a list of objects with "role" and
// "content", and where they are given "tool_calls" (of {"type": "function", "function": {"name",
// "arguments"}}, the arguments an object), "tool_call_id", "name", "reasoning_content", "metadata".
//
// INVALID_ARGUMENT names the field below `path`: an unknown role, a field that the role does not
// have, arguments that are no JSON object, more than door/limits.h allows.
absl::StatusOr<text::TemplateJson> ChatMessagesJson(const v1::ChatMessages& chat,
                                                    const std::string& path);

// The template's further variables, add_generation_prompt among them. INVALID_ARGUMENT as above.
absl::StatusOr<text::TemplateJson> TemplateKwargsJson(const v1::ChatMessages& chat,
                                                      const std::string& path);

}  // namespace tutti::coordinator
