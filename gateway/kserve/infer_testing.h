// Requests of KServe for tests, as clients write them: contents raw.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "inference/grpc_service.pb.h"

namespace tutti::gateway {

inline void AddInput(const std::string& name, const std::string& type, int64_t elements,
                     const std::string& raw, inference::ModelInferRequest* request) {
  auto* const input = request->add_inputs();
  input->set_name(name);
  input->set_datatype(type);
  input->add_shape(elements);
  request->add_raw_input_contents(raw);
}

inline void AddTexts(const std::string& name, const std::vector<std::string>& texts,
                     inference::ModelInferRequest* request) {
  std::string raw;
  for (const std::string& text : texts) {
    const auto length = static_cast<uint32_t>(text.size());
    raw.append(reinterpret_cast<const char*>(&length), sizeof(length));
    raw += text;
  }
  AddInput(name, "BYTES", static_cast<int64_t>(texts.size()), raw, request);
}

template <typename T>
void AddNumber(const std::string& name, const std::string& type, T value,
               inference::ModelInferRequest* request) {
  AddInput(name, type, 1, std::string(reinterpret_cast<const char*>(&value), sizeof(value)),
           request);
}

inline inference::ModelInferRequest Asking(const std::string& text) {
  inference::ModelInferRequest request;
  request.set_model_name("demo");
  request.set_id("7");
  AddTexts("text_input", {text}, &request);
  return request;
}

}  // namespace tutti::gateway
