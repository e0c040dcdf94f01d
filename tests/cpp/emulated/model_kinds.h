// The kinds of models that run on the emulated GPU.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "blocks/plain_llama.h"

namespace coda::testing_support {

inline auto model_kinds() {
  return ::testing::Values(PlainLlamaOptions{.dtype = DType::BF16, .head = 16},
                           PlainLlamaOptions{.tied_head = false, .bias = true, .dtype = DType::BF16, .head = 16},
                           PlainLlamaOptions{.qk_norm = true, .dtype = DType::BF16, .head = 32});
}

inline std::string kind_name(const ::testing::TestParamInfo<PlainLlamaOptions>& info) {
  return info.param.qk_norm ? "qwen3" : info.param.bias ? "biases" : "llama";
}

}  // namespace coda::testing_support
