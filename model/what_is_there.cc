#include "model/what_is_there.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "text/text_file.h"

namespace tutti::model {
namespace {

namespace fs = std::filesystem;

// The names of files that weights may be in, in order.
std::vector<std::string> WeightFiles(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  size_t entries = 0;
  for (fs::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    if (++entries > kFolderEntriesMax) break;
    std::string name = entry->path().filename();
    if (absl::EndsWith(name, ".safetensors") || absl::EndsWith(name, ".pth")) {
      names.push_back(std::move(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool Exists(const std::string& dir, const char* name) { return text::IsThere(dir + "/" + name); }

}  // namespace

absl::Status DescribeNoCheckpoint(const std::string& dir) {
  for (const char* pickled : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!Exists(dir, pickled)) continue;
    return absl::UnimplementedError(absl::StrCat(
        dir, ": only pickled weights (", pickled,
        "). Reading a pickle can run any code, so it is not supported: convert it to safetensors "
        "where you trust it, with save_pretrained(..., safe_serialization=True)"));
  }
  if (Exists(dir, "adapter_config.json") || Exists(dir, "adapter_model.safetensors")) {
    return absl::UnimplementedError(absl::StrCat(
        dir,
        ": an adapter (adapter_config.json), which is no model by itself: merge it into the base "
        "model that it names, with merge_and_unload() of peft, and save that"));
  }
  const std::vector<std::string> files = WeightFiles(dir);
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat(
        dir,
        ": neither model.safetensors nor model.safetensors.index.json is there; fetch the "
        "weights too"));
  }
  const std::string shown =
      absl::StrCat(Quoted(files.front()), files.size() == 1 ? " is" : " and others are");
  if (absl::StartsWith(files.front(), "consolidated")) {
    return absl::UnimplementedError(absl::StrCat(
        dir, ": ", shown,
        " there, weights in their makers' own layout: fetch the files in HuggingFace's, "
        "model*.safetensors"));
  }
  if (files.size() > 1 || files.front().find("-of-") != std::string::npos) {
    return absl::NotFoundError(absl::StrCat(
        dir, ": ", shown,
        " there, but not the index that says what each has: fetch model.safetensors.index.json"));
  }
  return absl::NotFoundError(absl::StrCat(
      dir, ": ", shown,
      " there, model.safetensors is looked for: if it holds the whole model, give it that name"));
}

std::string DescribeOtherName(std::span<const TensorInfo> tensors, std::string_view name) {
  const std::string behind = absl::StrCat(".", std::string(name));
  for (const TensorInfo& tensor : tensors) {
    if (!absl::EndsWith(tensor.name, behind)) continue;
    const std::string prefix = tensor.name.substr(0, tensor.name.size() - name.size());
    return absl::StrCat("; it has ", Quoted(tensor.name), ": its names begin with ", Quoted(prefix),
                        ", as those of a part of a larger model or of a training's wrapper do; "
                        "save the model itself");
  }
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return "";
  const std::string_view shorter = name.substr(dot + 1);
  const bool has = std::any_of(tensors.begin(), tensors.end(),
                               [&](const TensorInfo& one) { return one.name == shorter; });
  if (!has) return "";
  return absl::StrCat("; it has ", Quoted(shorter), ": its names lack ",
                      Quoted(name.substr(0, dot + 1)),
                      ", as those of a model without its head do; save the model for causal "
                      "language modelling");
}

}  // namespace tutti::model
