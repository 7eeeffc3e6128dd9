// Chat templates of families whose directories have none, or none that gives the right ids.
#pragma once

#include <string_view>

namespace tutti::text {

// How the original Qwen joins a conversation (make_context in its qwen_generation_utils.py): ChatML
// with every part tokenized by itself, nothing behind the last <|im_end|>, and a system message
// always. Its functions are called through prompts of the client's own (ReAct); messages with the
// role "tool" are refused.
extern const std::string_view kQwenChatTemplate;

// The prompt format of ChatGLM3 (PROMPT_en.md of its repository, build_chat_input of its
// tokenization_chatglm.py): <|role|>metadata, a line end, and the content, the two tokenized apart.
// Tools are written below the system message, calls as it was trained to make them, with the
// function's name as metadata; results have the role <|observation|>. The template that
// tokenizer_config.json publishes spells roles as text and puts a space that is none.
extern const std::string_view kChatGlmTemplate;

}  // namespace tutti::text
