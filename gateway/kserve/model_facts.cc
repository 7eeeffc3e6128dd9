#include "gateway/kserve/model_facts.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace tutti::gateway {
namespace {

struct TensorFacts {
  std::string_view name;
  inference::DataType type;
  int64_t size = 1;  // -1: any
};

constexpr char kPlatform[] = "tutti";

// `text_input` comes first and is the one that a request must have.
constexpr TensorFacts kInputs[] = {
    {"text_input", inference::TYPE_STRING},
    {"stream", inference::TYPE_BOOL},
    {"sampling_parameters", inference::TYPE_STRING},
    {"exclude_input_in_output", inference::TYPE_BOOL},
    {"return_finish_reason", inference::TYPE_BOOL},
    {"return_cumulative_logprob", inference::TYPE_BOOL},
    {"return_logprobs", inference::TYPE_BOOL},
    {"return_num_input_tokens", inference::TYPE_BOOL},
    {"return_num_output_tokens", inference::TYPE_BOOL},
    {"max_tokens", inference::TYPE_INT32},
    {"min_tokens", inference::TYPE_INT32},
    {"min_length", inference::TYPE_INT32},
    {"num_return_sequences", inference::TYPE_INT32},
    {"bad_words", inference::TYPE_STRING, -1},
    {"stop_words", inference::TYPE_STRING, -1},
    {"end_id", inference::TYPE_INT32},
    {"pad_id", inference::TYPE_INT32},
    {"top_k", inference::TYPE_INT32},
    {"top_p", inference::TYPE_FP32},
    {"temperature", inference::TYPE_FP32},
    {"length_penalty", inference::TYPE_FP32},
    {"repetition_penalty", inference::TYPE_FP32},
    {"presence_penalty", inference::TYPE_FP32},
    {"frequency_penalty", inference::TYPE_FP32},
    {"seed", inference::TYPE_UINT64},
    {"random_seed", inference::TYPE_UINT64},
    {"beam_width", inference::TYPE_INT32},
    {"guided_decoding_guide_type", inference::TYPE_STRING},
    {"guided_decoding_guide", inference::TYPE_STRING},
};
// Taken to be refused by name, or where they ask for nothing.
constexpr std::string_view kRefusedInputs[] = {
    "image",
    "embedding_request",
    "decoder_text_input",
    "prompt_embedding_table",
    "prompt_vocab_size",
    "prompt_table_extra_id",
    "embedding_bias_words",
    "embedding_bias_weights",
    "lora_task_id",
    "lora_weights",
    "lora_config",
    "return_log_probs",
    "return_context_logits",
    "return_generation_logits",
    "return_perf_metrics",
};
constexpr TensorFacts kOutputs[] = {
    {"text_output", inference::TYPE_STRING, -1},
    {"finish_reason", inference::TYPE_STRING, -1},
    {"cumulative_logprob", inference::TYPE_FP32, -1},
    {"logprobs", inference::TYPE_STRING, -1},
    {"num_input_tokens", inference::TYPE_UINT32},
    {"num_output_tokens", inference::TYPE_UINT32, -1},
};

template <typename Tensors>
bool Has(const Tensors& tensors, std::string_view name) {
  return std::any_of(std::begin(tensors), std::end(tensors),
                     [name](const TensorFacts& tensor) { return tensor.name == name; });
}

// The name as requests and answers name it.
const char* NameOf(inference::DataType type) {
  switch (type) {
    case inference::TYPE_STRING:
      return "BYTES";
    case inference::TYPE_BOOL:
      return "BOOL";
    case inference::TYPE_FP32:
      return "FP32";
    case inference::TYPE_INT32:
      return "INT32";
    case inference::TYPE_UINT32:
      return "UINT32";
    default:
      return "UINT64";
  }
}

void Fill(const TensorFacts& facts, inference::ModelMetadataResponse::TensorMetadata* tensor) {
  tensor->set_name(std::string(facts.name));
  tensor->set_datatype(NameOf(facts.type));
  tensor->add_shape(facts.size);
}

template <typename Tensor>
void Fill(const TensorFacts& facts, Tensor* tensor) {
  tensor->set_name(std::string(facts.name));
  tensor->set_data_type(facts.type);
  tensor->add_dims(facts.size);
}

}  // namespace

bool IsInputTensor(std::string_view name) {
  return Has(kInputs, name) || std::find(std::begin(kRefusedInputs), std::end(kRefusedInputs),
                                         name) != std::end(kRefusedInputs);
}

bool IsOutputTensor(std::string_view name) { return Has(kOutputs, name); }

absl::Status CheckVersion(const std::string& version) {
  if (version.empty() || version == kModelVersion) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("version: the model has version ", kModelVersion, " only"));
}

absl::Status CheckModel(const std::string& name, const std::string& version,
                        const std::string& served) {
  if (name != served) {
    return absl::NotFoundError(
        absl::StrCat("name: no model of that name is served here, only '", served, "'"));
  }
  return CheckVersion(version);
}

inference::ServerMetadataResponse DescribeServer(std::string_view version) {
  inference::ServerMetadataResponse response;
  response.set_name(kPlatform);
  response.set_version(std::string(version));
  for (const char* extension : {"model_configuration", "statistics", "model_repository"}) {
    response.add_extensions(extension);
  }
  return response;
}

inference::ModelMetadataResponse DescribeModel(const std::string& name) {
  inference::ModelMetadataResponse response;
  response.set_name(name);
  response.add_versions(kModelVersion);
  response.set_platform(kPlatform);
  for (const TensorFacts& facts : kInputs) Fill(facts, response.add_inputs());
  for (const TensorFacts& facts : kOutputs) Fill(facts, response.add_outputs());
  return response;
}

inference::ModelConfigResponse ConfigOfModel(const std::string& name) {
  inference::ModelConfigResponse response;
  inference::ModelConfig* const config = response.mutable_config();
  config->set_name(name);
  config->set_platform(kPlatform);
  config->set_backend(kPlatform);
  config->mutable_model_transaction_policy()->set_decoupled(true);
  for (const TensorFacts& facts : kInputs) {
    inference::ModelInput* const input = config->add_input();
    Fill(facts, input);
    input->set_optional(&facts != &kInputs[0]);
  }
  for (const TensorFacts& facts : kOutputs) Fill(facts, config->add_output());
  return response;
}

inference::RepositoryIndexResponse IndexOfModels(const std::string& name, bool is_ready) {
  inference::RepositoryIndexResponse response;
  inference::RepositoryIndexResponse::ModelIndex* const model = response.add_models();
  model->set_name(name);
  model->set_version(kModelVersion);
  model->set_state(is_ready ? "READY" : "UNAVAILABLE");
  return response;
}

}  // namespace tutti::gateway
