// Merging of the sites of several levels on a plane: crates/ops/src/sparse/merge/mod.rs.
//
// A warp per site of the plane. Its lanes look up cells along the first axis of a level, then
// add the rows that there are, in the order of the contract: level by level, by rising first
// axis. A lane has every 32nd channel. Padding channels are zero and stay so.

#include "sparse/conv.cuh"
#include "sparse/site_index.cuh"

namespace sparse_merge {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kMaxSources = 3;
constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
// Channels of a lane that are summed at once.
constexpr uint32_t kSums = 4;

// The structs in Rust: crates/ops/src/sparse/merge/kernels.rs.
struct Source {
    Slice<const uint8_t> features;  // zeros, then rows
    SiteIndex sites;
    SiteGrid grid;
    uint32_t scale;  // cells of the plane that a cell is wide
    uint32_t capacity;
};

struct Args {
    Source sources[kMaxSources];
    Slice<const uint32_t> sites;   // of the plane
    Slice<const uint32_t> counts;  // of the plane
    Slice<uint8_t> output;         // zeros, then rows
    SiteGrid grid;
    uint32_t num_sources;
    uint32_t row_len;   // channels, padded
    uint32_t capacity;  // of the plane
    uint32_t reserved;
};

// Adds the rows of a level above a cell, from a first channel on.
template <typename E>
__device__ void add(const Source& source, const SiteCell& cell, uint32_t row_len, uint32_t first,
                    float (&sums)[kSums]) {
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t c1 = cell.cell[1] / source.scale;
    const uint32_t c2 = cell.cell[2] / source.scale;
    const uint32_t* shape = source.grid.shape;
    const bool is_above = c1 * source.scale == cell.cell[1] && c2 * source.scale == cell.cell[2];
    if (!is_above || cell.batch >= source.grid.batch_size || c1 >= shape[1] || c2 >= shape[2]) {
        return;
    }
    const auto* rows =
        reinterpret_cast<const E*>(source.features.data + sparse_conv::kZeroBytes) + first;
    for (uint32_t start = 0; start < shape[0]; start += kLanes) {
        const uint32_t c0 = start + lane;
        uint32_t row = kNoRow;
        if (c0 < shape[0]) {
            row = row_of(source.sites, line_of(source.grid, cell.batch, c0, c1) + c2);
        }
        uint32_t found = __ballot_sync(kAllLanes, row != kNoRow);
        while (found != 0) {
            const uint32_t next = __shfl_sync(kAllLanes, row, __ffs(found) - 1);
            found &= found - 1;
#pragma unroll
            for (uint32_t i = 0; i < kSums; ++i) {
                const uint32_t channel = i * kLanes + lane;
                if (first + channel >= row_len) continue;
                const E value = rows[static_cast<uint64_t>(next) * row_len + channel];
                sums[i] = __fadd_rn(sums[i], sparse_conv::loaded(value));
            }
        }
    }
}

template <typename E>
__device__ void merge(const Args& args) {
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t row = (blockIdx.x * kThreads + threadIdx.x) / kLanes;
    if (row >= args.capacity || row >= args.counts[0]) return;
    const SiteCell cell = cell_of(args.grid, args.sites[row]);
    auto* to = reinterpret_cast<E*>(args.output.data + sparse_conv::kZeroBytes) +
               static_cast<uint64_t>(row) * args.row_len;
    for (uint32_t first = 0; first < args.row_len; first += kSums * kLanes) {
        float sums[kSums] = {};
        for (uint32_t i = 0; i < args.num_sources; ++i) {
            add<E>(args.sources[i], cell, args.row_len, first, sums);
        }
#pragma unroll
        for (uint32_t i = 0; i < kSums; ++i) {
            const uint32_t channel = first + i * kLanes + lane;
            if (channel < args.row_len) sparse_conv::store(sums[i], &to[channel]);
        }
    }
}

}  // namespace sparse_merge

// sparse_merge_f32, sparse_merge_f16, sparse_merge_bf16.
#define SPARSE_MERGE(T, suffix)                                                  \
    extern "C" __global__ void __launch_bounds__(sparse_merge::kThreads)         \
        sparse_merge_##suffix(const __grid_constant__ sparse_merge::Args args) { \
        sparse_merge::merge<T>(args);                                            \
    }

SPARSE_MERGE(float, f32)
SPARSE_MERGE(__half, f16)
SPARSE_MERGE(__nv_bfloat16, bf16)
