// Tensors that meet the end of memory anywhere: their request ends, and the process goes on.
//
// A program of its own: it has its own operator new.
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "gateway/kserve/tensors.h"
#include "tests/costs/own_memory.h"

namespace tutti::tests {
namespace {

// The request with each type of its contents, as lists and raw.
inference::ModelInferRequest Tensors(bool raw) {
  inference::ModelInferRequest request;
  const std::string text = "a text that is allocated by itself";
  for (const char* type : {"BYTES", "INT32", "FP64", "BOOL"}) {
    auto* const input = request.add_inputs();
    input->set_name(type);
    input->set_datatype(type);
    input->add_shape(3);
    std::string* const bytes = raw ? request.add_raw_input_contents() : nullptr;
    for (int i = 0; i < 3; ++i) {
      if (input->datatype() == "BYTES") {
        if (raw) bytes->append({static_cast<char>(text.size()), 0, 0, 0}).append(text);
        if (!raw) input->mutable_contents()->add_bytes_contents(text);
      } else if (input->datatype() == "INT32") {
        if (raw) bytes->append(4, '\1');
        if (!raw) input->mutable_contents()->add_int_contents(i);
      } else if (input->datatype() == "FP64") {
        if (raw) bytes->append(8, '\1');
        if (!raw) input->mutable_contents()->add_fp64_contents(i);
      } else {
        if (raw) bytes->append(1, '\1');
        if (!raw) input->mutable_contents()->add_bool_contents(true);
      }
    }
  }
  return request;
}

TEST(TensorMemory, TensorsEndWhereThereIsNone) {
  for (const bool raw : {false, true}) {
    const inference::ModelInferRequest request = Tensors(raw);
    int64_t most = 0;
    for (bool read = false; !read; ++most) {
      try {
        OwnMemory::Allow(most);
        auto tensors = gateway::ReadTensors(request);
        OwnMemory::Allow(0);  // none for its end
        read = tensors.ok();
        { const auto ended = std::move(tensors); }
        OwnMemory::Allow(INT64_MAX);
        ASSERT_TRUE(read);
      } catch (const std::bad_alloc&) {
        OwnMemory::Allow(INT64_MAX);
      }
    }
    EXPECT_GT(most, 20);
  }
}

}  // namespace
}  // namespace tutti::tests
