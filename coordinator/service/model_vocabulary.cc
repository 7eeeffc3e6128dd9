#include "coordinator/service/model_vocabulary.h"

#include <algorithm>
#include <string_view>

#include "coordinator/service/limits.h"

namespace tutti::coordinator {

std::shared_ptr<const v1::Vocabulary> VocabularyOf(const text::Tokenizer& tokenizer,
                                                   std::span<const TokenId> end_ids, int64_t size) {
  const auto vocabulary = std::make_shared<v1::Vocabulary>();
  const int64_t tokens = std::min<int64_t>(size, tokenizer.vocab_size());
  for (TokenId id = 0; id < tokens; ++id) {
    const std::string_view text = tokenizer.TokenText(id).value_or("");
    if (tokenizer.IsSpecial(id)) vocabulary->add_special_ids(id);
    vocabulary->mutable_text()->append(text);
    vocabulary->add_lengths(static_cast<uint32_t>(text.size()));
  }
  vocabulary->mutable_end_ids()->Add(end_ids.begin(), end_ids.end());
  if (static_cast<int64_t>(vocabulary->ByteSizeLong()) > kVocabularyBytesMax) return nullptr;
  return vocabulary;
}

}  // namespace tutti::coordinator
