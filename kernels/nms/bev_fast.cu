// One-pass suppression by IoU of footprints: crates/ops/src/nms/bev_fast/mod.rs.

#include "nms/bev_footprints.cuh"
#include "nms/nms.cuh"

namespace {

struct FastBevFootprints : BevFootprints {
    static constexpr bool kAnySuppresses = true;
    // In Rust: MIN_UNION_M2 in crates/ops/src/nms/bev_fast/mod.rs.
    static constexpr float kMinUnion = 0.01f;

    __device__ static bool suppresses_exactly(const NmsArgs<Candidate>& args,
                                              const NmsSettings& settings, const float4* better,
                                              const float4* own) {
        const Rectangle a = load(better);
        const Rectangle b = load(own);
        const uint32_t better_class = class_of(better);
        const uint32_t own_class = class_of(own);
        const uint32_t num_pairs = settings.num_forbidden + settings.num_unlimited;
        if (is_too_far(settings, a, b) &&
            !has_pair(args, settings.num_forbidden, num_pairs, better_class, own_class)) {
            return false;
        }
        if (has_pair(args, 0, settings.num_forbidden, better_class, own_class)) return false;
        const float threshold = threshold_of(args, settings, better_class, INFINITY);
        const float shared = intersection(a, b);
        const float whole = (a.area + b.area) - shared;
        const float iou = whole >= kMinUnion && whole < INFINITY ? __fdiv_rn(shared, whole) : 0.0f;
        return iou > threshold;
    }
};

}  // namespace

NMS_KERNELS(nms_bev_fast, FastBevFootprints)
NMS_PREPARE_KERNEL(nms_bev_fast, FastBevFootprints)

// One-pass suppression of the candidates that another suppression keeps, in its order,
// where they are. A rank is then a position, and every candidate of a lower rank suppresses
// or does not: no order, no iteration.
//
// A block compares its rows, one of every gridDim.x ranks, with the columns of lower ranks,
// one per thread. The block that takes the last ticket writes the survivors.
constexpr uint32_t kRankedThreads = 1024;
// The maximum number of rows of a block: a bit of a word each.
constexpr uint32_t kRankedRows = 32;

// The struct in Rust: crates/ops/src/nms/bev_fast/kernels.rs.
struct RankedArgs {
    NmsArgs<Candidate3d> nms;
    Slice<const Kept> ranked;
    Slice<const NmsCounts> ranked_counts;
};

namespace ranked {

using Policy = FastBevFootprints;
constexpr uint32_t kWarps = kRankedThreads / kLanes;
static_assert(kWarps == kLanes, "a lane per warp");

// The block's rows.
struct Rows {
    float4 proxies[kRankedRows];
    float4 geometry[kRankedRows][Policy::kGeometryVectors];
    uint64_t groups[kRankedRows];
    uint32_t suppressed;  // a bit per row

    __device__ void store(const NmsArgs<Candidate3d>& args, const NmsSettings& settings,
                          uint32_t row, const Candidate3d& candidate) {
        proxies[row] = Policy::proxy(args, settings, candidate);
        groups[row] = group_of(args, settings, candidate.rank.class_index);
        Policy::prepare(candidate, geometry[row]);
    }
};

// The candidate of a rank; whether it can be kept and suppress.
__device__ bool load(const RankedArgs& args, const NmsSettings& settings, uint32_t rank,
                     Candidate3d& candidate) {
    if (rank >= args.ranked.len) return false;
    const uint32_t index = args.ranked[rank].index;
    if (index >= args.nms.candidates.len) return false;
    candidate = args.nms.candidates[index];
    return is_eligible<Policy>(settings, candidate);
}

// The rows that a column suppresses, a bit each.
__device__ uint32_t suppressed_by(const NmsArgs<Candidate3d>& args, const NmsSettings& settings,
                                  const Rows& rows, const Candidate3d& column, uint32_t rank,
                                  uint32_t num_rows) {
    const float4 proxy = Policy::proxy(args, settings, column);
    uint32_t near = 0;
#pragma unroll 4
    for (uint32_t row = 0; row < num_rows; ++row) {
        const bool is_above = rank < candidate_of_row(row);
        if (is_above && Policy::may_suppress(settings, proxy, rows.proxies[row], 0.0f)) {
            near |= 1u << row;
        }
    }
    if (near == 0) return 0;
    float4 geometry[Policy::kGeometryVectors];
    Policy::prepare(column, geometry);
    const uint64_t group = group_of(args, settings, column.rank.class_index);
    uint32_t suppressed = 0;
    for (; near != 0; near &= near - 1) {
        const uint32_t row = __ffs(near) - 1;
        if ((settings.class_mode == 1 || group == rows.groups[row]) &&
            Policy::suppresses_exactly(args, settings, geometry, rows.geometry[row])) {
            suppressed |= 1u << row;
        }
    }
    return suppressed;
}

// By the last block: the survivors in order.
__device__ void write_survivors(const RankedArgs& args, const NmsSettings& settings, uint32_t n) {
    __shared__ uint32_t num_of_warp[kWarps];
    const uint32_t lane = lane_of();
    uint32_t num_kept = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < n; first += kRankedThreads) {
        const uint32_t rank = first + threadIdx.x;
        const bool is_kept = rank < n && args.nms.scratch.states[rank] != 0;
        const uint32_t votes = __ballot_sync(kAllLanes, is_kept);
        if (lane == 0) num_of_warp[warp_of()] = __popc(votes);
        __syncthreads();
        const uint32_t of_lane = num_of_warp[lane];
        const uint32_t before = __reduce_add_sync(kAllLanes, lane < warp_of() ? of_lane : 0);
        const uint32_t position = num_kept + before + num_lanes_before(votes);
        if (is_kept && position < settings.max_num) {
            args.nms.output.write(position, args.ranked[rank]);
        }
        num_kept += __reduce_add_sync(kAllLanes, of_lane);
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    uint32_t* ticket = args.nms.scratch.ticket.data;
    args.nms.output.write_counts({min(num_kept, settings.max_num), ticket[1]});
    ticket[0] = 0;
    ticket[1] = 0;
}

}  // namespace ranked

extern "C" __global__ void __launch_bounds__(kRankedThreads)
    nms_bev_fast_ranked(const __grid_constant__ RankedArgs args) {
    using namespace ranked;
    __shared__ Rows rows;
    __shared__ bool is_last;
    const uint32_t num_ranked = args.ranked_counts[0].num_kept;
    const NmsSettings settings = args.nms.parameters.settings[0];
    // Loads start before the number of candidates is known; values past it are ignored.
    Candidate3d column;
    bool is_present = load(args, settings, threadIdx.x, column);
    const uint32_t capacity = static_cast<uint32_t>(min(args.ranked.len, args.nms.candidates.len));
    const uint32_t n = min(num_ranked, capacity);
    const uint32_t num_blocks = max(min(n, gridDim.x), 1u);
    if (blockIdx.x >= num_blocks) return;
    const uint32_t num_rows = n == 0 ? 0 : (n - 1 - blockIdx.x) / gridDim.x + 1;
    if (warp_of() == kWarps - 1) {
        Candidate3d row;
        bool is_row = lane_of() < num_rows;
        if (is_row) is_row = load(args, settings, candidate_of_row(lane_of()), row);
        if (is_row) {
            rows.store(args.nms, settings, lane_of(), row);
            check_class<Policy>(args.nms, settings, row);
        }
        // Rows that are not eligible are not kept.
        const uint32_t eligible = __ballot_sync(kAllLanes, is_row);
        if (lane_of() == 0) rows.suppressed = ~eligible;
    }
    __syncthreads();
    // The last row has the highest rank.
    const uint32_t num_columns = num_rows == 0 ? 0 : candidate_of_row(num_rows - 1);
#pragma unroll 1
    for (uint32_t first = 0; first < num_columns; first += kRankedThreads) {
        const uint32_t rank = first + threadIdx.x;
        if (first != 0) is_present = load(args, settings, rank, column);
        uint32_t suppressed = 0;
        if (is_present && rank < num_columns) {
            suppressed = suppressed_by(args.nms, settings, rows, column, rank, num_rows);
        }
        suppressed = __reduce_or_sync(kAllLanes, suppressed);
        if (lane_of() == 0 && suppressed != 0) atomicOr(&rows.suppressed, suppressed);
    }
    __syncthreads();
    if (threadIdx.x < num_rows) {
        args.nms.scratch.states[candidate_of_row(threadIdx.x)] =
            (rows.suppressed >> threadIdx.x & 1) == 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) is_last = take_ticket(&args.nms.scratch.ticket[0]) == num_blocks - 1;
    __syncthreads();
    if (is_last) write_survivors(args, settings, n);
}
