// The fields of a request in JSON that say what the text of its answer may be: OpenAI's
// `response_format` (in `/v1/responses` `text.format`) and vLLM's `structured_outputs`.
//
// What a schema, an expression or a grammar may be is the service's business.
//
// Pure.  Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "gateway/field_paths.h"
#include "gateway/field_reader.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

// Both fields, into the call's grammar; `body`: the text of the object that is read, whose order of
// members is that of answers, or empty. Returns the path of the one that has the schema, the
// expression, the texts or the rules; empty: any text will do.
std::string ReadGrammarFields(FieldReader* fields, std::string_view body,
                              v1::GenerateRequest* call);

// The format of that name, whose text is `written`, or empty. `flat`: name and schema stand in it
// beside the type, as in `text.format`.
std::string ReadFormat(FieldReader* fields, std::string_view name, std::string_view written,
                       bool flat, v1::GenerateRequest* call);

// The text of a schema as vLLM reads it (closed_schema.h); one that is none as it is.
std::string ClosedSchemaText(const std::string& schema);

// Whether texts by it are JSON.
bool IsJson(const v1::Grammar& grammar);

// The service's paths in a request's grammar, for a protocol in which `path` stands for the source.
void AddGrammarPaths(const std::string& path, FieldPaths* paths);
// A path of the service's in a request's grammar, in which `path` stands for the source.
std::string GrammarPath(std::string_view ours, std::string_view path);

}  // namespace tutti::gateway
