// The numerics that GetModel tells of: those of the pipelines that serve now.
#pragma once

#include "tutti/v1/cluster.pb.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {

// Sets numerics_class and exact; neither where no pipeline serves: one that waits for workers or
// loads knows its class, too, and answers nobody.  Thread: any.
void FillServedNumerics(const v1::GetStatusResponse& status, v1::GetModelResponse* model);

}  // namespace tutti::coordinator
