// `instructions` and `input` of POST /v1/responses: a text, or a list of messages, reasoning, calls
// of functions and what came of them.
//
// Pure.  Thread: any.
#pragma once

#include "gateway/field_reader.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

void ReadResponsesInput(FieldReader* fields, v1::ChatMessages* chat);

}  // namespace tutti::gateway
