#include "coordinator/service/served_numerics.h"

namespace tutti::coordinator {

void FillServedNumerics(const v1::GetStatusResponse& status, v1::GetModelResponse* model) {
  for (const v1::PipelineStatus& one : status.pipelines()) {
    if (one.state() != "serving") continue;
    if (model->numerics_class().empty()) model->set_numerics_class(one.numerics_class());
    if (!one.has_exact()) continue;
    model->set_exact(one.exact() && (!model->has_exact() || model->exact()));
  }
}

}  // namespace tutti::coordinator
