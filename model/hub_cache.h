// A model as people name it with --model: a folder, or its name on the Hugging Face hub, whose
// tools keep what they fetched in a cache. Nothing is ever fetched here.
//
// Thread: any; reads the environment, names of files, and the cache's references.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "base/status.h"

namespace tutti::model {

// The texts of the two flags, of all programs that have them.
inline constexpr absl::string_view kModelHelp =
    "Folder of a HuggingFace checkpoint, or the name of one that the hub's tools have fetched, "
    "such "
    "as Qwen/Qwen3-0.6B";
inline constexpr absl::string_view kRevisionHelp =
    "Branch, tag or commit of a --model that is named as on the hub; unset: main";
inline constexpr absl::string_view kDraftModelHelp =
    "A smaller checkpoint of the same vocabulary, whose tokens are guesses of the model's: the "
    "first worker of the last stage holds it besides. Coordinator and workers need the same";

// The folder of the checkpoint `given`. A folder that is there goes before the hub's cache
// (HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub).
// `revision`: of the cache alone, "" for its main. INVALID_ARGUMENT begins with `flag`, which gave
// it, or "--revision"; where the cache lacks the model it ends with the command that fetches it.
absl::StatusOr<std::string> FindModel(const std::string& given, const std::string& revision,
                                      absl::string_view flag = "--model");

// The name that the checkpoint of `folder` is served under unless another is given: as on the hub
// for a folder of its cache, or else the folder's own.
std::string NameOfModel(const std::string& folder);

}  // namespace tutti::model
