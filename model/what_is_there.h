// What a folder or a checkpoint holds instead of the weights that were looked for, in words for
// whoever brought it.
//
// Thread: any; reads names of files.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/safetensors.h"

namespace tutti::model {

// Why there is no checkpoint in the folder: pickled weights (UNIMPLEMENTED), an adapter, a layout
// of its makers, shards without their index, one file of another name; or nothing of the kind
// (NOT_FOUND).
absl::Status DescribeNoCheckpoint(const std::string& dir);

// The prefix that the names of a checkpoint's tensors have before `name`, or lack of it, as "; ..."
// for the end of an error; empty: nothing is known of it.
std::string DescribeOtherName(std::span<const TensorInfo> tensors, std::string_view name);

}  // namespace tutti::model
