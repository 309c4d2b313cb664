// Which kernel computes a product. Every choice gives the same bits (gemm_sm90.cuh): this is about
// time only.
#pragma once

#include "backends/cuda/gemm/gemm_desc.h"

namespace glint::cuda {

GemmConfig select_sm90(const GemmDesc& desc, int num_sms);

}  // namespace glint::cuda
