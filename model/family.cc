#include "model/family.h"

#include "absl/strings/str_cat.h"

namespace tutti::model {
namespace {

const ModelFamily* const kFamilies[] = {&kQwen3Family, &kQwen3MoeFamily, &kQwen2Family,
                                        &kQwen1Family, &kChatGlm3Family, &kLlamaFamily};

}  // namespace

const ModelFamily* FindFamily(std::string_view architecture) {
  for (const ModelFamily* family : kFamilies) {
    if (family->architecture == architecture) return family;
  }
  return nullptr;
}

std::string SupportedArchitectures() {
  std::string names;
  for (const ModelFamily* family : kFamilies) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(family->architecture));
  }
  return names;
}

}  // namespace tutti::model
