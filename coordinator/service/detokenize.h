// Ids to text, as the method Detokenize has it.
#pragma once

#include "base/status.h"
#include "coordinator/service/served_model.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {

// INVALID_ARGUMENT: more than kDetokenizeIdsMax ids, more than kPromptBytesMax bytes of text, or an
// id that the vocabulary does not have, with its index. FAILED_PRECONDITION: a model without a
// tokenizer.  Thread: any.
absl::Status Detokenize(const v1::DetokenizeRequest& request, const ServedModel& model,
                        v1::DetokenizeResponse* response);

}  // namespace tutti::coordinator
