// How many threads a call may use: the process-wide setting behind set_num_threads.
#pragma once

namespace coda {

/// Threads a call may use, at least 1: what was set, else CODA_NUM_THREADS, else every core the process may run on.
int thread_count();

/// 0 returns to the default. Errors: ValueError for a negative count.
void set_thread_count(int count);

}  // namespace coda
