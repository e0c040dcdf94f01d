// The backend "reference": interprets the program in double, on one thread, and rounds only where it stores. It refuses
// nothing.
#pragma once

#include "coda/backend.h"

namespace coda::cpu {

const Backend& reference_backend();

}  // namespace coda::cpu
