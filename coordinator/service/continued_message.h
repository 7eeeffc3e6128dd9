// A prompt that ends with the text of its last message, which the model then continues.
//
// As HuggingFace's apply_chat_template does it with continue_final_message: a mark is put behind
// the message's text, and the rendered prompt is cut where the mark has come to stand.
//
// Pure functions.  Thread: any.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/segment.h"

namespace tutti::coordinator {

// Puts the mark behind the content of the last of `messages`.  REQUIRES: it has one
void MarkEnd(nlohmann::ordered_json* messages);

// Cuts off what stands from the mark on, and white space before it where the template trims.
// INVALID_ARGUMENT, naming `path`, when the mark is not found, or `content`, which is what stood
// before it, is not: the template has left them out or changed them.
absl::Status CutAtMark(const std::string& content, const std::string& path,
                       std::vector<text::Segment>* segments);

}  // namespace tutti::coordinator
