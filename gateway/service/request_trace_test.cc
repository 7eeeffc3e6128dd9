#include "gateway/service/request_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/files_testing.h"
#include "metrics/limits.h"

namespace tutti::gateway {
namespace {

// The span of a call for a request with these names.
nlohmann::json SpanOf(const std::string& model, const std::string& name) {
  const TempDir dir;
  {
    auto writer = metrics::SpanWriter::Start("tutti-gateway", {.file = dir.File("spans")});
    EXPECT_TRUE(writer.ok()) << writer.status();
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/chat/completions";
    RequestTrace trace(writer->get(), request, /*calls=*/1);
    v1::GenerateRequest call;
    call.set_request_id(name);
    EXPECT_FALSE(trace.BeginCall(call, "chat", model).empty());
    trace.EndCall(0, absl::OkStatus());
  }
  const auto json = nlohmann::json::parse(ReadWholeFile(dir.File("spans")), nullptr,
                                          /*allow_exceptions=*/false);
  EXPECT_FALSE(json.is_discarded()) << "no JSON, perhaps no UTF-8";
  return json.is_discarded() ? json : json["resourceSpans"][0]["scopeSpans"][0]["spans"][1];
}

std::string Attribute(const nlohmann::json& span, const std::string& name) {
  for (const auto& attribute : span["attributes"]) {
    if (attribute["key"] == name) return attribute["value"]["stringValue"];
  }
  return "not there";
}

TEST(RequestTrace, TextsOfCallersAreCut) {
  const std::string most(metrics::kSpanTextBytesMax, 'm');
  for (const std::string& text : {most, most + "m", most + std::string(1 << 20, 'm')}) {
    const auto span = SpanOf(text, text);
    EXPECT_EQ(span["name"], "chat " + most);
    EXPECT_EQ(Attribute(span, "gen_ai.request.model"), most);
    EXPECT_EQ(Attribute(span, "gen_ai.response.id"), most);
  }
  EXPECT_EQ(Attribute(SpanOf("short", "name"), "gen_ai.request.model"), "short");
}

// A collector refuses a batch for one text that is no UTF-8.
TEST(RequestTrace, ALetterThatIsCutLeavesText) {
  std::string text(metrics::kSpanTextBytesMax - 1, 'm');
  text += "ü";
  const auto span = SpanOf(text, text);
  ASSERT_FALSE(span.is_discarded());
  EXPECT_EQ(Attribute(span, "gen_ai.request.model"), text.substr(0, text.size() - 2));
}

}  // namespace
}  // namespace tutti::gateway
