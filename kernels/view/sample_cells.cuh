// Sampling through the key points of anchors (sample_points.cuh) with f16 activations. A block
// has an anchor. Its samples that lie between the same four texels are a cell: their weights are
// added up first, so that the texels are read once. A warp takes some cells, a lane 8 channels of
// them.
#pragma once

#include "shared/pdl.cuh"
#include "view/sample_chunk.cuh"
#include "view/sample_points.cuh"

namespace view_sample {

constexpr uint32_t kCellThreads = 128;
constexpr uint32_t kCellWarps = kCellThreads / kLanes;
// Cells whose texels a warp reads at once.
constexpr uint32_t kCellBatch = 2;
// The samples that are made cells at a time, and pairs of them and groups.
constexpr uint32_t kPartSamples = 128;
constexpr uint32_t kPartWarps = kPartSamples / kLanes;
constexpr uint32_t kPartPairs = 1024;

// The exponential of a difference that is not positive.
__device__ inline float exponential_of(float difference) {
    return exp2_fast(difference * 1.44269504f);
}

// The sum of exponentials, relative to at least the largest. The least finite f32 stands for none:
// no difference of it is NaN.
struct Total {
    float largest = -3.402823466e38f, sum = 0;

    __device__ void add(float of_largest, float of_sum) {
        const float more = fmaxf(largest, of_largest);
        sum = sum * exponential_of(largest - more) + of_sum * exponential_of(of_largest - more);
        largest = more;
    }
};

// The four texels around samples.
struct Cell {
    uint32_t low, high;    // the address of the one at the top left
    uint32_t right, down;  // from there, bytes; `right` with the level in its upper half
};

struct Cells {
    Places places;
    // A part of the samples, and their weights by groups.
    float4 corners[kPartSamples];
    float sample_weights[kPartPairs + kPartSamples];
    // Cells of its warps, and their samples as bits; then all of them.
    Cell cells_of_warps[kPartSamples];
    uint32_t samples[kPartSamples];
    uint32_t num_cells[kPartWarps];
    Cell cells[kPartSamples];
    uint2 weights[kPartPairs];  // of cells and groups: of four texels, f16
    // Of some logits of a group, then of groups, with the inverse of the sum.
    float2 totals[kCellThreads], groups[kMaxGroups];
    float sums[kCellWarps][kMaxChannels];
};

template <typename M>
struct CellSampling {
    // Logits of all views that a thread adds up first; views and groups of which it reads logits at
    // once.
    static constexpr uint32_t kLogits = 4, kViews = 6, kGroupsAtOnce = 8;

    const PointsArgs<__half>& args;
    Cells& shared;
    const __half* logits;  // of the anchor
    uint32_t num_points, num_rows, num_logits, channel, group;
    float largest_scale;
    bool has_blocks;  // of channels

    __device__ CellSampling(const PointsArgs<__half>& args, Cells& shared)
        : args(args), shared(shared) {
        const Maps& maps = args.maps;
        logits = args.logits.data + static_cast<uint64_t>(blockIdx.x) * args.logit_stride;
        num_points = args.num_fixed + args.num_learned;
        num_rows = maps.num_levels * num_points;
        num_logits = num_rows * args.num_groups;
        // Lanes without channels read those of others.
        channel = min(lane_of() * row::kGroup, maps.num_channels - row::kGroup);
        group = channel / (maps.num_channels / args.num_groups);
        largest_scale = maps.levels[0].scale;
        has_blocks = maps.levels[0].block_stride != kBlock;
#pragma unroll
        for (uint32_t level = 1; level < kMaxLevels; ++level) {
            if (level < maps.num_levels)
                largest_scale = fmaxf(largest_scale, maps.levels[level].scale);
        }
    }

    // Logarithms of the sums over views of the exponentials of their logits, of every `stride`-th.
    // With them a group's total takes one exponential for all views.
    template <uint32_t kNum, uint32_t kViewsAtOnce>
    __device__ void sum_views(uint32_t first, uint32_t stride, float (&logs)[kNum]) const {
        const uint32_t num_views = args.maps.num_views;
        Total totals[kNum];
#pragma unroll 1
        for (uint32_t view = 0; view < num_views; view += kViewsAtOnce) {
            float values[kNum][kViewsAtOnce];
#pragma unroll
            for (uint32_t v = 0; v < kViewsAtOnce; ++v) {
                const float* of_view = args.view_logits.data + (view + v) * num_logits + first;
#pragma unroll
                for (uint32_t k = 0; k < kNum; ++k) {
                    values[k][v] = -INFINITY;
                    if (view + v < num_views && first + k * stride < num_logits)
                        values[k][v] = __ldg(of_view + k * stride);
                }
            }
#pragma unroll
            for (uint32_t k = 0; k < kNum; ++k) {
                float largest = totals[k].largest, sum = 0;
#pragma unroll
                for (uint32_t v = 0; v < kViewsAtOnce; ++v) largest = fmaxf(largest, values[k][v]);
#pragma unroll
                for (uint32_t v = 0; v < kViewsAtOnce; ++v)
                    sum += exponential_of(values[k][v] - largest);
                totals[k].sum = totals[k].sum * exponential_of(totals[k].largest - largest) + sum;
                totals[k].largest = largest;
            }
        }
#pragma unroll
        for (uint32_t k = 0; k < kNum; ++k) {
            logs[k] = first + k * stride < num_logits ? totals[k].largest + __logf(totals[k].sum)
                                                      : -INFINITY;
        }
    }
    // Stores the totals of logits of a group; returns how many a group has.
    __device__ uint32_t store_totals(const float (&logs)[kLogits]) const {
        const uint32_t num_groups = args.num_groups;
        // All logits of a thread are of one group.
        const bool divides = kLanes % num_groups == 0;
        const uint32_t stride = kCellThreads / num_groups * num_groups;
        Total total;
        if (divides) {
            float values[kLogits];
#pragma unroll
            for (uint32_t k = 0; k < kLogits; ++k) {
                const uint32_t at = threadIdx.x + k * kCellThreads;
                values[k] = at < num_logits ? __half2float(logits[at]) + logs[k] : -INFINITY;
                total.largest = fmaxf(total.largest, values[k]);
            }
#pragma unroll
            for (uint32_t k = 0; k < kLogits; ++k)
                total.sum += exponential_of(values[k] - total.largest);
        }
        if (threadIdx.x < stride) {
#pragma unroll 1
            for (uint32_t at = threadIdx.x + (divides ? kLogits * kCellThreads : 0);
                 at < num_logits; at += stride) {
                float log[1];
                sum_views<1, 1>(at, stride, log);
                total.add(__half2float(logits[at]) + log[0], 1.0f);
            }
        }
        __syncwarp();
        if (!divides) {
            shared.totals[threadIdx.x] = make_float2(total.largest, total.sum);
            return kCellThreads / num_groups;
        }
#pragma unroll 1
        for (uint32_t step = kLanes / 2; step >= num_groups; step /= 2) {
            const float largest = __shfl_xor_sync(kAllLanes, total.largest, step);
            total.add(largest, __shfl_xor_sync(kAllLanes, total.sum, step));
        }
        if (lane_of() < num_groups)
            shared.totals[warp_of() * num_groups + lane_of()] =
                make_float2(total.largest, total.sum);
        return kCellWarps;
    }
    __device__ void merge_totals(uint32_t num_of_group) const {
        if (threadIdx.x >= args.num_groups) return;
        Total total;
#pragma unroll 1
        for (uint32_t i = 0; i < num_of_group; ++i) {
            const float2 more = shared.totals[i * args.num_groups + threadIdx.x];
            total.add(more.x, more.y);
        }
        shared.groups[threadIdx.x] = make_float2(total.largest, 1.0f / total.sum);
    }

    // Lists the places that views see, in the order of views and points; returns their number.
    // Totals beside it.
    __device__ uint32_t find_places(const float (&logs)[kLogits]) const {
        const uint32_t num_places = args.maps.num_views * num_points;
        uint32_t num_seen = 0, num_totals = 0;
#pragma unroll 1
        for (uint32_t first = 0; first < num_places; first += kCellThreads) {
            const uint32_t index = first + threadIdx.x, view = index / num_points,
                           of_view = index % num_points;
            Place place = {0, 0, false};
            if (first + warp_of() * kLanes < num_places) {
                // Everything is loaded before anything is computed.
                KeyPoint<__half> key_point;
                float projection[12], point[3];
                key_point.load(args, blockIdx.x, of_view);
                const float* of_camera =
                    args.maps.projections.data + min(view, args.maps.num_views - 1) * 12;
#pragma unroll
                for (uint32_t i = 0; i < 12; ++i) projection[i] = of_camera[i];
                key_point.place(point);
                place = place_of(projection, args.maps.min_depth, point);
            }
            const bool is_seen = index < num_places && place.is_seen;
            const uint32_t seen = __ballot_sync(kAllLanes, is_seen);
            uint32_t* nums = shared.places.num_of_warps + first / kLanes;
            if (lane_of() == 0) nums[warp_of()] = __popc(seen);
            if (first == 0) num_totals = store_totals(logs);
            __syncthreads();
            if (first == 0) merge_totals(num_totals);
            uint32_t to = num_seen + num_lanes_before(seen);
#pragma unroll
            for (uint32_t w = 0; w < kCellWarps; ++w) {
                const uint32_t num = nums[w];
                if (w < warp_of()) to += num;
                num_seen += num;
            }
            if (is_seen) {
                shared.places.at[to] = make_float2(place.u, place.v);
                shared.places.views[to] = static_cast<uint16_t>(view);
                shared.places.points[to] = static_cast<uint16_t>(of_view);
            }
        }
        return num_seen;
    }

    // Where the weights of a sample begin; the pitch avoids conflicts of banks.
    __device__ uint32_t weights_of(uint32_t sample) const { return sample * (args.num_groups + 1); }
    // Writes the weights of this thread's sample.
    __device__ void write_weights(const __half* of_row, const float* of_view) const {
        const uint32_t num_groups = args.num_groups, to = weights_of(threadIdx.x);
#pragma unroll 1
        for (uint32_t first = 0; first < num_groups; first += kGroupsAtOnce) {
            float values[kGroupsAtOnce];
#pragma unroll
            for (uint32_t k = 0; k < kGroupsAtOnce; ++k) {
                if (first + k < num_groups)
                    values[k] = __half2float(of_row[first + k]) + __ldg(of_view + first + k);
            }
#pragma unroll
            for (uint32_t k = 0; k < kGroupsAtOnce; ++k) {
                if (first + k >= num_groups) break;
                const float2 total = shared.groups[first + k];
                shared.sample_weights[to + first + k] =
                    exponential_of(values[k] - total.x) * total.y;
            }
        }
    }
    // Writes a sample of this thread, and the cells of its warp.
    __device__ void write_cells(uint32_t first, uint32_t num, uint32_t num_seen) const {
        const bool has_sample = threadIdx.x < num;
        const uint32_t with_samples = __ballot_sync(kAllLanes, has_sample);
        bool is_first = false;
        Cell cell;
        uint32_t samples = 0;
        if (has_sample) {
            // Neighbouring samples are of a level and a view: they share cells.
            uint32_t level = 0, place = first + threadIdx.x;
            while (place >= num_seen) place -= num_seen, ++level;
            const Level& of = args.maps.levels[level];
            const int width = static_cast<int>(of.width), height = static_cast<int>(of.height);
            const uint32_t view = shared.places.views[place], point = shared.places.points[place];
            const float2 at = shared.places.at[place];
            const float x = at.x * static_cast<float>(of.width) - 0.5f,
                        y = at.y * static_cast<float>(of.height) - 0.5f;
            const float left = floorf(x), top = floorf(y);
            const int x0 = static_cast<int>(left), y0 = static_cast<int>(top);
            // Texels outside of the map have weights of 0, and the addresses of their neighbours.
            const int from_x = min(max(x0, 0), width - 1), from_y = min(max(y0, 0), height - 1);
            const uint32_t right = x0 >= 0 && x0 + 1 < width, down = y0 >= 0 && y0 + 1 < height;
            const float wx = x - left, wy = y - top, scale = __fdividef(of.scale, largest_scale);
            const float of_left = x0 < 0 ? 0.0f : 1.0f - wx, of_right = x0 + 1 < width ? wx : 0.0f;
            const float of_top = (y0 < 0 ? 0.0f : 1.0f - wy) * scale,
                        of_bottom = (y0 + 1 < height ? wy : 0.0f) * scale;
            shared.corners[threadIdx.x] = make_float4(of_top * of_left, of_top * of_right,
                                                      of_bottom * of_left, of_bottom * of_right);
            const uint32_t row = level * num_points + point;
            write_weights(logits + row * args.num_groups,
                          args.view_logits.data + (view * num_rows + row) * args.num_groups);
            const uint64_t texel = static_cast<uint64_t>(view) * of.view_stride +
                                   (from_y * of.row_stride + from_x * of.column_stride);
            const uint64_t address = reinterpret_cast<uint64_t>(of.texels.data) + texel * sizeof(M);
            const uint32_t to_right = right * of.column_stride * static_cast<uint32_t>(sizeof(M));
            cell = {static_cast<uint32_t>(address), static_cast<uint32_t>(address >> 32),
                    level << 16 | to_right,
                    down * of.row_stride * static_cast<uint32_t>(sizeof(M))};
            // Samples of larger maps have cells of their own.
            constexpr uint32_t kMost = 8000;
            const bool has_key = of.width < kMost && of.height < kMost;
            const uint32_t key = (level * kMaxViews + view) << 26 |
                                 static_cast<uint32_t>(y0 + 1) << 13 |
                                 static_cast<uint32_t>(x0 + 1);
            samples = __match_any_sync(with_samples, has_key ? key : 0xffffffffu - lane_of());
            is_first = lane_of() == __ffs(samples) - 1;
        }
        const uint32_t firsts = __ballot_sync(kAllLanes, is_first);
        if (is_first) {
            const uint32_t to = warp_of() * kLanes + num_lanes_before(firsts);
            shared.cells_of_warps[to] = cell;
            shared.samples[to] = samples;
        }
        if (lane_of() == 0 && warp_of() < kPartWarps) shared.num_cells[warp_of()] = __popc(firsts);
    }
    // Writes the cells of all warps and their weights, a group a thread; returns their number. To
    // the end of a batch, others with weights of 0 follow.
    __device__ uint32_t merge_cells() const {
        uint32_t num_cells = 0;
#pragma unroll
        for (uint32_t w = 0; w < kPartWarps; ++w) num_cells += shared.num_cells[w];
        const uint32_t num_groups = args.num_groups, step = kCellThreads / num_groups,
                       of_thread = threadIdx.x % num_groups;
        if (threadIdx.x >= step * num_groups) return num_cells;
#pragma unroll 1
        for (uint32_t c = threadIdx.x / num_groups;
             c < (num_cells + kCellBatch - 1) / kCellBatch * kCellBatch; c += step) {
            uint32_t from = c, end = 0;
#pragma unroll
            for (uint32_t w = 0; w < kPartWarps - 1; ++w) {
                end += shared.num_cells[w];
                if (c >= end) from += kLanes - shared.num_cells[w];
            }
            uint32_t samples = 0;
            if (c < num_cells) samples = shared.samples[from];
            const uint32_t first_sample = from / kLanes * kLanes;
            float4 sum = {};
#pragma unroll 1
            for (; samples != 0; samples &= samples - 1) {
                const uint32_t sample = first_sample + __ffs(samples) - 1;
                const float weight = shared.sample_weights[weights_of(sample) + of_thread];
                const float4 corner = shared.corners[sample];
                sum.x = fmaf(weight, corner.x, sum.x), sum.y = fmaf(weight, corner.y, sum.y);
                sum.z = fmaf(weight, corner.z, sum.z), sum.w = fmaf(weight, corner.w, sum.w);
            }
            const uint2 weights = make_uint2(row::pack(sum.x, sum.y), row::pack(sum.z, sum.w));
            shared.weights[c * num_groups + of_thread] = weights;
            if (of_thread == 0) shared.cells[c] = shared.cells_of_warps[c < num_cells ? from : 0];
        }
        return num_cells;
    }

    // Adds the cells of this warp.
    __device__ void add_cells(uint32_t num_cells, float (&sums)[2][4]) const {
        const uint32_t same = same_column();
#pragma unroll 1
        for (uint32_t first = warp_of() * kCellBatch; first < num_cells;
             first += kCellWarps * kCellBatch) {
            Chunk<M> chunks[kCellBatch][4];
#pragma unroll
            for (uint32_t i = 0; i < kCellBatch; ++i) {
                const Cell cell = shared.cells[first + i];
                const uint32_t right = cell.right & 0xffffu;
                uint32_t offset = channel;
                if (has_blocks) offset = args.maps.levels[cell.right >> 16].offset_of(channel);
                const uint64_t address =
                    (static_cast<uint64_t>(cell.high) << 32 | cell.low) + offset * sizeof(M);
                chunks[i][0].load(address);
                chunks[i][1].load(address + right);
                chunks[i][2].load(address + cell.down);
                chunks[i][3].load(address + cell.down + right);
            }
#pragma unroll
            for (uint32_t i = 0; i < kCellBatch; ++i) {
                const uint2 weights = shared.weights[(first + i) * args.num_groups + group];
#pragma unroll
                for (uint32_t k = 0; k < 2; ++k) {
                    const uint32_t both = k == 0 ? weights.x : weights.y;
                    const uint32_t of_one = __byte_perm(both, 0, 0x1010),
                                   of_two = __byte_perm(both, 0, 0x3232);
                    add_weighted(chunks[i][2 * k].values(), of_one, chunks[i][2 * k + 1].values(),
                                 of_two, same, sums);
                }
            }
        }
    }

    // Stores the sums of all warps.
    __device__ void store(const float (&sums)[2][4]) const {
        if (lane_of() * row::kGroup < args.maps.num_channels) {
            const float scaled[row::kGroup] = {
                sums[0][0] * largest_scale, sums[0][1] * largest_scale, sums[0][2] * largest_scale,
                sums[0][3] * largest_scale, sums[1][0] * largest_scale, sums[1][1] * largest_scale,
                sums[1][2] * largest_scale, sums[1][3] * largest_scale};
            row::store(scaled, &shared.sums[warp_of()][channel]);
        }
        __syncthreads();
#pragma unroll 1
        for (uint32_t pair = 2 * threadIdx.x; pair < args.maps.num_channels;
             pair += 2 * kCellThreads) {
            float2 sum = {};
#pragma unroll
            for (uint32_t w = 0; w < kCellWarps; ++w) {
                const float2 more = *reinterpret_cast<const float2*>(&shared.sums[w][pair]);
                sum.x += more.x, sum.y += more.y;
            }
            row::store2(sum, args.output.data +
                                 static_cast<uint64_t>(blockIdx.x) * args.output_stride + pair);
        }
    }
};

template <typename M>
__device__ void sample_cells(const PointsArgs<__half>& args) {
    using Of = CellSampling<M>;
    __shared__ __align__(16) Cells shared;
    const Of of(args, shared);
    // Launches that may still run do not write the logits of views: those change only with the
    // cameras.
    float logs[Of::kLogits];
    of.template sum_views<Of::kLogits, Of::kViews>(threadIdx.x, kCellThreads, logs);
    pdl::wait();
    const uint32_t num_seen = of.find_places(logs), num_samples = num_seen * args.maps.num_levels;
    const uint32_t part = args.num_groups * kPartSamples <= kPartPairs ? kPartSamples : kLanes;
    float sums[2][4] = {};
#pragma unroll 1
    for (uint32_t first = 0; first < num_samples; first += part) {
        __syncthreads();
        of.write_cells(first, min(num_samples - first, part), num_seen);
        __syncthreads();
        const uint32_t num_cells = of.merge_cells();
        __syncthreads();
        of.add_cells(num_cells, sums);
    }
    // Blocks of the next launch that begin earlier leave multiprocessors with unequal numbers of
    // them.
    pdl::trigger();
    of.store(sums);
}

}  // namespace view_sample
