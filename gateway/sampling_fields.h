// The fields of a request in JSON that say how its outputs are drawn: by the same names in OpenAI's
// API, in vLLM's additions to it, and in the tensors and parameters of KServe's.
//
// Pure.  Thread: any.
#pragma once

#include "gateway/field_reader.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

// Into the sampling, n, model, priority and what else such a request says beside its prompt.
void ReadSamplingFields(FieldReader* fields, v1::GenerateRequest* call);
// Refuses the fields that we do not serve, and those that nobody knows.
void RefuseUnserved(FieldReader* fields);

}  // namespace tutti::gateway
