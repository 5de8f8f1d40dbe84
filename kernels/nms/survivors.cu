// The candidates that a suppression keeps, and their footprints where the next suppression
// compares footprints: crates/ops/src/nms/survivors/mod.rs.

#include "nms/bev_footprints.cuh"

namespace survivors {

constexpr uint32_t kThreads = 256;

// The struct in Rust: crates/ops/src/nms/survivors/kernels.rs.
struct Args {
    Slice<const Candidate3d> candidates;
    Slice<const uint32_t> places;  // by candidate
    Slice<const Kept> kept;
    Slice<const NmsCounts> nms_counts;
    Slice<Candidate3d> survivors;
    Slice<uint32_t> survivor_places;
    Slice<uint32_t> num;
    Slice<float4> footprints;  // as `NmsScratch::geometry`; empty: none
};

}  // namespace survivors

extern "C" __global__ void __launch_bounds__(survivors::kThreads)
    survivors_3d(const __grid_constant__ survivors::Args args) {
    const uint64_t own = static_cast<uint64_t>(blockIdx.x) * survivors::kThreads + threadIdx.x;
    const uint64_t capacity = min(args.survivors.len, min(args.kept.len, args.survivor_places.len));
    const uint64_t num = min(static_cast<uint64_t>(args.nms_counts[0].num_kept), capacity);
    if (own == 0) args.num[0] = static_cast<uint32_t>(num);
    if (own >= num) return;
    const uint32_t index = args.kept[own].index;
    if (index < args.candidates.len) {
        const Candidate3d candidate = args.candidates[index];
        args.survivors[own] = candidate;
        if (args.footprints.len != 0) {
            float4 footprint[BevFootprints::kGeometryVectors];
            BevFootprints::prepare(candidate, footprint);
#pragma unroll
            for (uint32_t v = 0; v < BevFootprints::kGeometryVectors; ++v) {
                args.footprints[v * args.survivors.len + own] = footprint[v];
            }
        }
    }
    args.survivor_places[own] = index < args.places.len ? args.places[index] : kNone;
}
