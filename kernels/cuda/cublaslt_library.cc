#include "kernels/cuda/cublaslt_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "kernels/cuda/cublaslt_interface.h"
#include "kernels/cuda/limits.h"
#include "kernels/gpu_memory.h"

namespace tutti::kernels::cuda {
namespace {

using Types = CublasLtTypes;
using Functions = Types::Functions;

// cudaMalloc's, and that which the library assumes unless told otherwise.
constexpr uint64_t kAlignmentMax = 256;

absl::StatusOr<Functions> FindFunctions(void* handle, const std::string& path) {
  Functions f = {};
  std::string missing;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(handle, name));
    if (*function == nullptr && missing.empty()) missing = name;
  };
  find("cublasLtGetVersion", &f.get_version);
  find("cublasLtGetStatusString", &f.get_status_string);
  find("cublasLtCreate", &f.create);
  find("cublasLtDestroy", &f.destroy);
  find("cublasLtMatmulDescCreate", &f.operation_create);
  find("cublasLtMatmulDescDestroy", &f.operation_destroy);
  find("cublasLtMatmulDescSetAttribute", &f.operation_set);
  find("cublasLtMatrixLayoutCreate", &f.layout_create);
  find("cublasLtMatrixLayoutDestroy", &f.layout_destroy);
  find("cublasLtMatmulPreferenceCreate", &f.preference_create);
  find("cublasLtMatmulPreferenceDestroy", &f.preference_destroy);
  find("cublasLtMatmulPreferenceSetAttribute", &f.preference_set);
  find("cublasLtMatmulAlgoGetHeuristic", &f.get_heuristic);
  find("cublasLtMatmul", &f.multiply);
  if (missing.empty()) return f;
  return absl::FailedPreconditionError(
      absl::StrCat(path, " has no function ", missing, ": cuBLASLt ",
                   CublasLtVersionName(kCublasLtVersionMin), " or newer is needed"));
}

absl::Status Said(const Functions& lt, int result, const char* operation) {
  if (result == Types::kSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("cuBLASLt, ", operation, ": ", lt.get_status_string(result), " (", result, ")"));
}

// Something of the library's, destroyed with its owner.
class Described {
 public:
  explicit Described(int (*destroy)(void*)) : destroy_(destroy) {}
  Described(Described&& other) noexcept
      : destroy_(other.destroy_), value_(std::exchange(other.value_, nullptr)) {}
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  ~Described() {
    if (value_ != nullptr) destroy_(value_);
  }
  void** put() { return &value_; }
  void* get() const { return value_; }

 private:
  int (*const destroy_)(void*);
  void* value_ = nullptr;
};

// All that the choice of an algorithm depends on.
struct Shape {
  DType type;
  int64_t rows, out_features, width, out_stride;
  uint64_t alignments[3];  // of weight, in and out
  auto operator<=>(const Shape&) const = default;
};

uint64_t AlignmentOf(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return std::min(kAlignmentMax, uint64_t{1} << std::countr_zero(address | kAlignmentMax));
}

Shape ShapeOf(const LibraryProduct& p) {
  return {p.type,  p.rows,       p.out_features,
          p.width, p.out_stride, {AlignmentOf(p.weight), AlignmentOf(p.in), AlignmentOf(p.out)}};
}

// How a product of one shape is computed. Row-major [rows, cols] is column-major [cols, rows]: with
// the weight as A, transposed, and the rows as B, D = A^T B is [out_features, rows] in columns,
// which is `out`. Of the four combinations it is the one that every type of tensor core has.
struct Recipe {
  explicit Recipe(const Functions& lt)
      : operation(lt.operation_destroy),
        weight(lt.layout_destroy),
        in(lt.layout_destroy),
        out(lt.layout_destroy) {}
  Described operation, weight, in, out;
  bool found = false;
  Types::Algorithm algorithm = {};
};

class LibraryCublasLt : public CublasLt {
 public:
  LibraryCublasLt(const Functions& functions, int device_index, UseDevice use_device)
      : lt_(functions), device_index_(device_index), use_device_(use_device) {}
  ~LibraryCublasLt() override {
    recipes_.clear();
    if (handle_ != nullptr && UseOwnDevice().ok()) lt_.destroy(handle_);
  }

  absl::Status Start() {
    TUTTI_RETURN_IF_ERROR(UseOwnDevice());
    return Said(lt_, lt_.create(&handle_), "starting");
  }

  int64_t version() const override { return static_cast<int64_t>(lt_.get_version()); }

  absl::StatusOr<bool> Has(const LibraryProduct& product) override {
    TUTTI_ASSIGN_OR_RETURN(const Recipe* const recipe, RecipeFor(product));
    return recipe->found;
  }

  absl::Status Multiply(const LibraryProduct& product, void* work_space, Stream stream) override {
    TUTTI_ASSIGN_OR_RETURN(const Recipe* const recipe, RecipeFor(product));
    CHECK(recipe->found);
    const float one = 1, zero = 0;
    return Said(lt_,
                lt_.multiply(handle_, recipe->operation.get(), &one, product.weight,
                             recipe->weight.get(), product.in, recipe->in.get(), &zero, product.out,
                             recipe->out.get(), product.out, recipe->out.get(), &recipe->algorithm,
                             work_space, static_cast<size_t>(kGpuCublasWorkSpaceBytes), stream),
                "a product");
  }

 private:
  absl::Status UseOwnDevice() const {
    const int error = use_device_ == nullptr ? 0 : use_device_(device_index_);
    if (error == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("GPU ", device_index_, ": CUDA error ", error));
  }

  absl::StatusOr<const Recipe*> RecipeFor(const LibraryProduct& product) {
    TUTTI_RETURN_IF_ERROR(UseOwnDevice());
    const Shape shape = ShapeOf(product);
    if (const auto known = recipes_.find(shape); known != recipes_.end()) return &known->second;
    TUTTI_ASSIGN_OR_RETURN(Recipe recipe, MakeRecipe(shape));
    if (static_cast<int64_t>(recipes_.size()) >= kCublasRecipesMax) recipes_.clear();
    return &recipes_.emplace(shape, std::move(recipe)).first->second;
  }

  absl::StatusOr<Recipe> MakeRecipe(const Shape& shape) const {
    Recipe recipe(lt_);
    TUTTI_RETURN_IF_ERROR(
        Said(lt_, lt_.operation_create(recipe.operation.put(), Types::kCompute32, Types::kFloat32),
             "describing a product"));
    for (const auto& [attribute, value] : {std::pair(Types::kTransposeA, Types::kTransposed),
                                           std::pair(Types::kTransposeB, Types::kPlain)}) {
      TUTTI_RETURN_IF_ERROR(
          Said(lt_, lt_.operation_set(recipe.operation.get(), attribute, &value, sizeof(value)),
               "describing a product"));
    }
    const int type = shape.type == DType::kBF16 ? Types::kBfloat16 : Types::kFloat16;
    TUTTI_RETURN_IF_ERROR(
        Describe(&recipe.weight, type, shape.width, shape.out_features, shape.width));
    TUTTI_RETURN_IF_ERROR(Describe(&recipe.in, type, shape.width, shape.rows, shape.width));
    TUTTI_RETURN_IF_ERROR(
        Describe(&recipe.out, Types::kFloat32, shape.out_features, shape.rows, shape.out_stride));
    TUTTI_RETURN_IF_ERROR(Choose(shape, &recipe));
    return recipe;
  }

  absl::Status Describe(Described* layout, int type, int64_t rows, int64_t cols,
                        int64_t leading) const {
    return Said(lt_,
                lt_.layout_create(layout->put(), type, static_cast<uint64_t>(rows),
                                  static_cast<uint64_t>(cols), leading),
                "describing a matrix");
  }

  absl::Status Choose(const Shape& shape, Recipe* recipe) const {
    Described preference(lt_.preference_destroy);
    TUTTI_RETURN_IF_ERROR(Said(lt_, lt_.preference_create(preference.put()), "a preference"));
    const auto prefer = [&](int attribute, const auto& value) {
      return Said(lt_, lt_.preference_set(preference.get(), attribute, &value, sizeof(value)),
                  "a preference");
    };
    TUTTI_RETURN_IF_ERROR(
        prefer(Types::kWorkSpaceMax, static_cast<uint64_t>(kGpuCublasWorkSpaceBytes)));
    const uint64_t alignments[] = {shape.alignments[0], shape.alignments[1], shape.alignments[2],
                                   shape.alignments[2]};  // C is D
    for (int i = 0; i < 4; ++i) {
      TUTTI_RETURN_IF_ERROR(prefer(Types::kAlignmentOfA + i, static_cast<uint32_t>(alignments[i])));
    }
    Types::HeuristicResult best = {};
    int count = 0;
    const int asked =
        lt_.get_heuristic(handle_, recipe->operation.get(), recipe->weight.get(), recipe->in.get(),
                          recipe->out.get(), recipe->out.get(), preference.get(), 1, &best, &count);
    if (asked == Types::kNotSupported) return absl::OkStatus();
    TUTTI_RETURN_IF_ERROR(Said(lt_, asked, "choosing an algorithm"));
    recipe->found = count > 0 && best.state == Types::kSuccess &&
                    best.work_space <= static_cast<size_t>(kGpuCublasWorkSpaceBytes);
    recipe->algorithm = best.algorithm;
    return absl::OkStatus();
  }

  const Functions lt_;
  const int device_index_;
  const UseDevice use_device_;
  Types::Handle handle_ = nullptr;
  std::map<Shape, Recipe> recipes_;
};

// The names under which NVIDIA installs it, the newest first.
const std::vector<std::string>& KnownNames() {
  static const auto* const names =
      new std::vector<std::string>{"libcublasLt.so.13", "libcublasLt.so.12"};
  return *names;
}

}  // namespace

std::string CublasLtVersionName(int64_t version) {
  return absl::StrCat(version / 10'000, ".", version / 100 % 100, ".", version % 100);
}

std::string CublasLtLibraryPath() {
  const char* const set = std::getenv("TUTTI_CUBLASLT_LIBRARY");
  return set != nullptr ? set : "";
}

absl::StatusOr<std::shared_ptr<CublasLt>> OpenCublasLtLibrary(const std::string& path,
                                                              int device_index,
                                                              UseDevice use_device) {
  const std::vector<std::string> paths =
      path.empty() ? KnownNames() : std::vector<std::string>{path};
  std::vector<std::string> errors;
  for (const std::string& one : paths) {
    // Never closed: it has state of the driver's.
    void* const handle = dlopen(one.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      errors.emplace_back(dlerror());
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(const Functions functions, FindFunctions(handle, one));
    auto library = std::make_shared<LibraryCublasLt>(functions, device_index, use_device);
    if (library->version() < kCublasLtVersionMin) {
      return absl::FailedPreconditionError(
          absl::StrCat(one, " is cuBLASLt ", CublasLtVersionName(library->version()), "; ",
                       CublasLtVersionName(kCublasLtVersionMin), " or newer is needed"));
    }
    TUTTI_RETURN_IF_ERROR(library->Start());
    return library;
  }
  return absl::UnavailableError(
      absl::StrCat("cuBLASLt cannot be opened: ", absl::StrJoin(errors, "; "),
                   "; TUTTI_CUBLASLT_LIBRARY may name the file"));
}

}  // namespace tutti::kernels::cuda
