// `instructions` and `input` of POST /v1/responses: a text, or a list of messages, reasoning, calls
// of functions and what came of them.
//
// Pure.  Thread: any.
#pragma once

#include <vector>

#include "gateway/field_reader.h"
#include "gateway/service_error.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

// `places`: where each message stands.
void ReadResponsesInput(FieldReader* fields, v1::ChatMessages* chat,
                        std::vector<FieldNames::Place>* places);

}  // namespace tutti::gateway
