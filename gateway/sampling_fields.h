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
// The way in which the text of a prompt that the client has rendered becomes ids, under the names
// of transformers' tokenizers: "add_special_tokens", true where it is not said, and
// "split_special_tokens". What is usual is left unsaid.
template <typename Request>
void ReadTextReading(FieldReader* fields, Request* request) {
  if (!fields->Bool("add_special_tokens").value_or(true)) {
    request->mutable_text_reading()->set_omit_special_tokens(true);
  }
  if (fields->Bool("split_special_tokens").value_or(false)) {
    request->mutable_text_reading()->set_split_special_tokens(true);
  }
}
// Refuses the fields that we do not serve, and those that nobody knows.
void RefuseUnserved(FieldReader* fields);

}  // namespace tutti::gateway
