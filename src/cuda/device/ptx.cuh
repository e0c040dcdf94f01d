// Thin wrappers over the PTX of sm_90a, one instruction each; no policy. Self-contained: no toolkit headers.
#pragma once

namespace coda {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

// A CUtensorMap as the driver encodes it.
struct alignas(64) TensorMap {
  char opaque[128];
};

// --- threads ---------------------------------------------------------------------------------------------------
__device__ __forceinline__ u32 lane_id() { return threadIdx.x % 32; }

// The same value in all lanes, and known to be by the compiler.
__device__ __forceinline__ u32 uniform(u32 value) { return __shfl_sync(0xffffffffu, value, 0); }

// The same value, as of here. Where a product of no depth leaves zeros, a choice between accumulators is else made in
// the product's loop, before they are there, and ptxas lets no product run on.
__device__ __forceinline__ float settled(float value) {
  asm volatile("" : "+f"(value));
  return value;
}

__device__ __forceinline__ u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

template <int Registers>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

template <int Registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

// Barrier `id` of the block among `threads` threads.
__device__ __forceinline__ void bar_sync(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void bar_arrive(u32 id, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// --- clusters --------------------------------------------------------------------------------------------------
__device__ __forceinline__ u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}

// The same for threads that may have diverged.
__device__ __forceinline__ void cluster_sync_diverged() {
  asm volatile("barrier.cluster.arrive;\n\tbarrier.cluster.wait;" ::: "memory");
}

// Address in block `rank`'s shared memory that corresponds to ours.
__device__ __forceinline__ u32 peer_address(u32 address, u32 rank) {
  u32 remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

__device__ __forceinline__ float4 shared_load(u32 address) {
  float4 value;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

__device__ __forceinline__ void peer_store(u32 address, float4 value) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(value.x), "f"(value.y),
               "f"(value.z), "f"(value.w)
               : "memory");
}

// --- mbarriers -------------------------------------------------------------------------------------------------
__device__ __forceinline__ void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ __forceinline__ void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Without .release.cluster: that qualifier fences the whole cluster at every arrival, which doubles a k-block's time.
// What the arrival orders is the end of WGMMA reads, and those the preceding wait_group has completed.
__device__ __forceinline__ void mbarrier_arrive_peer(u32 barrier, u32 rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(peer_address(barrier, rank)) : "memory");
}

// Publishes this thread's writes to the cluster with the arrival.
__device__ __forceinline__ void mbarrier_arrive_peer_release(u32 barrier, u32 rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer_address(barrier, rank))
               : "memory");
}

// Spins until the phase of that parity has completed.
__device__ __forceinline__ void mbarrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n\t.reg .pred done;\n"
      "again:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
      "@done bra ready;\n\tbra again;\n"
      "ready:\n\t}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// As mbarrier_wait, acquiring what the other blocks of the cluster did before they arrived.
__device__ __forceinline__ void mbarrier_wait_cluster(u32 barrier, u32 parity) {
  asm volatile(
      "{\n\t.reg .pred done;\n"
      "again:\n\t"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n\t"
      "@done bra ready;\n\tbra again;\n"
      "ready:\n\t}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// --- bulk tensor copies ----------------------------------------------------------------------------------------
__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void tma_load(u32 to, const TensorMap* map, u32 barrier, i32 inner, i32 outer) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          to),
      "l"(map), "r"(barrier), "r"(inner), "r"(outer)
      : "memory");
}

// Brings the box into L2 alone.
__device__ __forceinline__ void tma_prefetch(const TensorMap* map, i32 inner, i32 outer) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(map), "r"(inner), "r"(outer)
               : "memory");
}

// The box lands at the same place in every block of `blocks` (a bit each) and completes on each one's barrier.
__device__ __forceinline__ void tma_load_multicast(u32 to, const TensorMap* map, u32 barrier, i32 inner, i32 outer,
                                                   u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(inner), "r"(outer), "h"(blocks)
      : "memory");
}

__device__ __forceinline__ void tma_store(const TensorMap* map, u32 from, i32 inner, i32 outer) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(inner), "r"(outer)
               : "memory");
}

// Adds fp32 elements to memory instead of overwriting them.
__device__ __forceinline__ void tma_add_f32(const TensorMap* map, u32 from, i32 inner, i32 outer) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(from), "r"(inner), "r"(outer)
               : "memory");
}

__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until at most `Pending` committed stores still read their shared memory.
template <int Pending>
__device__ __forceinline__ void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

__device__ __forceinline__ void tma_store_wait_all() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Orders this thread's accesses to shared memory before those of the copy engine and the tensor cores that follow: its
// writes become visible to them, and its reads are done before they overwrite.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- matrices in shared memory ---------------------------------------------------------------------------------
__device__ __forceinline__ void store_matrix(u32 to, const u32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

__device__ __forceinline__ void shared_load(u32 from, float& first, float& second) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(first), "=f"(second) : "r"(from) : "memory");
}

__device__ __forceinline__ float shared_load_one(u32 from) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
  return value;
}

__device__ __forceinline__ void shared_store(u32 to, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(value) : "memory");
}

__device__ __forceinline__ void shared_store(u32 to, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}

__device__ __forceinline__ void shared_store(u32 to, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(first), "f"(second) : "memory");
}

// A counter that one thread raises and others look at now and then: atomic, and without order to other accesses.
__device__ __forceinline__ void shared_count_up(u32 counter) {
  asm volatile("red.relaxed.cta.shared::cta.add.u32 [%0], 1;" ::"r"(counter) : "memory");
}

__device__ __forceinline__ u32 shared_count(u32 counter) {
  u32 value;
  asm volatile("atom.relaxed.cta.shared::cta.or.b32 %0, [%1], 0;" : "=r"(value) : "r"(counter) : "memory");
  return value;
}

__device__ __forceinline__ void sleep_for(u32 nanoseconds) { asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds)); }

__device__ __forceinline__ void load_matrix(u32 from, u32 (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}

// --- warpgroup matrix products ---------------------------------------------------------------------------------
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// --- arithmetic ------------------------------------------------------------------------------------------------
// The hardware's NaN-keeping minimum and maximum: one instruction each.
__device__ __forceinline__ float min_keeping_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

__device__ __forceinline__ float max_keeping_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// The hardware's approximations: 2^a and 1/a to 2 units in the last place, denormals as 0; sin and cos of radians in ±π
// to 5e-7.
__device__ __forceinline__ float exp2_approx(float a) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
}
__device__ __forceinline__ float reciprocal_approx(float a) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
}
__device__ __forceinline__ float sin_approx(float a) {
  float result;
  asm("sin.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
}
__device__ __forceinline__ float cos_approx(float a) {
  float result;
  asm("cos.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
  return result;
}

// --- packed conversions ----------------------------------------------------------------------------------------
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ u32 pack_f16(float low, float high) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ float low_bf16(u32 packed) { return __uint_as_float(packed << 16); }
__device__ __forceinline__ float high_bf16(u32 packed) { return __uint_as_float(packed & 0xffff0000u); }

__device__ __forceinline__ float low_f16(u32 packed) {
  float value;
  asm("{\n\t.reg .b16 low, high;\n\tmov.b32 {low, high}, %1;\n\tcvt.f32.f16 %0, low;\n\t}" : "=f"(value) : "r"(packed));
  return value;
}

__device__ __forceinline__ float high_f16(u32 packed) {
  float value;
  asm("{\n\t.reg .b16 low, high;\n\tmov.b32 {low, high}, %1;\n\tcvt.f32.f16 %0, high;\n\t}"
      : "=f"(value)
      : "r"(packed));
  return value;
}

}  // namespace coda
