#include "cuda/emit/blocks.h"

#include "core/check.h"
#include "cuda/emit/kernel.h"
#include "cuda/emit/program.h"
#include "cuda/emit/writer.h"

namespace coda::cuda {
namespace {

// A kernel that calls one function of a device file with its parameter.
struct Call {
  std::string file, params, threads, function;
  std::size_t bytes = 0;
};

std::string emit_call(const Call& call) {
  Writer out;
  out.margin(concat("#include \"", call.file, "\""));
  out.line();
  out.line("namespace coda {");
  out.line("using KernelParams = ", call.params, ";");
  out.line("static_assert(sizeof(KernelParams) == ", call.bytes, ", \"the host lays it out alike\");");
  out.line("}  // namespace coda");
  out.line();
  emit_entry(out, call.threads, "KernelParams", call.function);
  return out.take();
}

std::string function_of(const char* name, const AttentionSpec& spec) {
  return concat(name, "<coda::", element_name(spec.dtype), ", coda::", spec.pieces ? "Pieces" : "Strided", ", ",
                spec.head, ", ", spec.rows, ">");
}

}  // namespace

std::string emit_attention(const AttentionSpec& spec) {
  return emit_call({"attention.cuh", "AttentionParams", "kAttentionThreads", function_of("run_attention", spec),
                    kAttentionParamsBytes});
}

std::string emit_attention_backward(AttentionPass pass, const AttentionSpec& spec) {
  const auto function = [&] {
    switch (pass) {
      case AttentionPass::Means:
        return concat("run_attention_means<coda::", element_name(spec.dtype), ", ", spec.head, ">");
      case AttentionPass::ByQueries: return function_of("run_attention_by_queries", spec);
      case AttentionPass::ByKeys: return function_of("run_attention_by_keys", spec);
    }
    INVARIANT(false, "no such pass of attention's backward");
  };
  return emit_call({"attention_backward.cuh", "AttentionBackwardParams", "kAttentionThreads", function(),
                    kAttentionBackwardParamsBytes});
}

std::string emit_gather(DType dtype) {
  return emit_call({"gather.cuh", "GatherParams", "kGatherThreads",
                    concat("run_gather<coda::", element_name(dtype), ">"), kGatherParamsBytes});
}

std::string emit_add_rows(DType from, DType into) {
  return emit_call({"gather.cuh", "AddRowsParams", "kGatherThreads",
                    concat("run_add_rows<coda::", element_name(from), ", coda::", element_name(into), ">"),
                    kAddRowsParamsBytes});
}

}  // namespace coda::cuda
