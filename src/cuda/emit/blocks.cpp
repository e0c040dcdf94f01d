#include "cuda/emit/blocks.h"

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

}  // namespace

std::string emit_attention(const AttentionSpec& spec) {
  const std::string lies = spec.pieces ? "Pieces" : "Strided";
  return emit_call({"attention.cuh", "AttentionParams", "kAttentionThreads",
                    concat("run_attention<coda::", element_name(spec.dtype), ", coda::", lies, ", ", spec.head, ", ",
                           spec.rows, ">"),
                    kAttentionParamsBytes});
}

std::string emit_gather(DType dtype) {
  return emit_call({"gather.cuh", "GatherParams", "kGatherThreads",
                    concat("run_gather<coda::", element_name(dtype), ">"), kGatherParamsBytes});
}

}  // namespace coda::cuda
