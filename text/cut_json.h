// JSON whose end is missing: what a model had written of a call when it was cut.
//
// Thread: any.
#pragma once

#include <string_view>

#include "text/template_json.h"

namespace tutti::text {

// The object that `text` begins, with all of its members that can be read, the last one cut where
// the text is: a string or list ends there. Discarded: it begins none. Well-formed JSON of another
// kind is discarded too.
TemplateJson ReadCutObject(std::string_view text);

}  // namespace tutti::text
