// The writer of each kind of answer.
//
// Pure.  Thread: any.
#pragma once

#include <memory>

#include "gateway/json_text.h"
#include "gateway/openai/answer.h"
#include "gateway/answer_writer.h"

namespace tutti::gateway {

// `response`: of /v1/responses, what the answer repeats of its request (responses_request.cc); else
// null.
std::unique_ptr<AnswerWriter> MakeAnswerWriter(bool stream, const AnswerShape& shape,
                                               const AnswerHead& head, EventOptions options,
                                               std::shared_ptr<const OrderedJson> response);

}  // namespace tutti::gateway
