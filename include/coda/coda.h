// Everything public.
#pragma once

#include "coda/activations.h"
#include "coda/backend.h"
#include "coda/blocks.h"
#include "coda/build.h"
#include "coda/dtype.h"
#include "coda/epilogues.h"
#include "coda/error.h"
#include "coda/gemm.h"
#include "coda/model.h"
#include "coda/ops.h"
#include "coda/problem.h"
#include "coda/program.h"
#include "coda/safetensors.h"
#include "coda/tensor.h"
