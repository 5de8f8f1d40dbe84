// Sampling of feature maps where points are seen: crates/ops/src/view/sample/mod.rs. A warp has a
// point in a level of a view: its lanes have 8 channels each and read 16 bytes (f16) of each texel.
// Points that a view does not see are skipped before anything of it is read.
#pragma once

#include "view/linear.cuh"

namespace view_sample {

constexpr uint32_t kMaxLevels = 4;
constexpr uint32_t kMaxViews = 16;
constexpr uint32_t kMaxChannels = 256;
// Channels that are side by side where they are not all.
constexpr uint32_t kBlock = 32;

// A level of the maps, channels last or in blocks of channels (NC/32HW32). Strides are in values;
// from texel to texel and from row to row they may skip some.
struct Level {
    Slice<const uint8_t> texels;
    uint32_t width;
    uint32_t height;
    float scale;  // of int8 texels
    uint32_t view_stride;
    uint32_t row_stride;
    uint32_t column_stride;
    uint32_t block_stride;  // kBlock where all channels of a texel are side by side
    uint32_t reserved;

    // Where a channel is, from its texel.
    __device__ uint32_t offset_of(uint32_t channel) const {
        return channel / kBlock * block_stride + channel % kBlock;
    }
};

struct Maps {
    Level levels[kMaxLevels];
    Slice<const float> projections;  // 12 per view: (u z, v z, z) of (x, y, z, 1)
    uint32_t num_views;
    uint32_t num_levels;
    uint32_t num_channels;
    float min_depth;
};

// Where a view sees a point, in fractions of its image.
struct Place {
    float u, v;
    bool is_seen;
};

// `matrix` has 12 values: in memory, or loaded.
template <typename Matrix>
__device__ Place place_of(const Matrix& matrix, float min_depth, const float (&point)[3]) {
    float a[3];
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
        a[i] = ((matrix[4 * i] * point[0] + matrix[4 * i + 1] * point[1]) +
                matrix[4 * i + 2] * point[2]) +
               matrix[4 * i + 3];
    }
    const float depth = fmaxf(a[2], min_depth);
    const float u = a[0] / depth, v = a[1] / depth;
    return {u, v, a[2] > min_depth && 0.0f < u && u < 1.0f && 0.0f < v && v < 1.0f};
}
__device__ inline Place place_of(const Maps& maps, uint32_t view, const float (&point)[3]) {
    return place_of(maps.projections.data + view * 12, maps.min_depth, point);
}

// The four texels around a place in a level, of this lane's channels, and their weights.
template <typename M>
struct Corners {
    row::Raw<M> texels[4];
    float weights[4];

    __device__ void load(const Maps& maps, uint32_t level, uint32_t view, float u, float v,
                         bool has_channels) {
        const Level& of = maps.levels[level];
        const float x = u * static_cast<float>(of.width) - 0.5f,
                    y = v * static_cast<float>(of.height) - 0.5f;
        const float left = floorf(x), top = floorf(y);
        const float wx = x - left, wy = y - top;
        const int x0 = static_cast<int>(left), y0 = static_cast<int>(top);
        const M* base = reinterpret_cast<const M*>(of.texels.data) +
                        static_cast<uint64_t>(view) * of.view_stride +
                        of.offset_of(lane_of() * row::kGroup);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int cx = x0 + i % 2, cy = y0 + i / 2;
            const bool exists = cx >= 0 && cy >= 0 && cx < static_cast<int>(of.width) &&
                                cy < static_cast<int>(of.height);
            weights[i] =
                exists ? (i / 2 == 0 ? 1.0f - wy : wy) * (i % 2 == 0 ? 1.0f - wx : wx) : 0.0f;
            texels[i].clear();
            if (exists && has_channels) {
                texels[i].load(base + (cy * of.row_stride + cx * of.column_stride));
            }
        }
    }
    __device__ void add_to(float (&sums)[row::kGroup], float weight) const {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            const float w = weights[i] * weight;
            float v[row::kGroup];
            texels[i].unpack(v);
#pragma unroll
            for (uint32_t c = 0; c < row::kGroup; ++c) sums[c] = fmaf(v[c], w, sums[c]);
        }
    }
};

// A query that looks through its reference point, weighted by sigmoids (DETR3D).
template <typename T>
struct ReferenceArgs {
    Slice<const T> rows;         // content before the norm
    Slice<const float> norm;     // gamma, beta
    Slice<T> content;            // the rows, normalized
    Slice<const float> points;   // 3 per query, in 0 to 1 of the range
    Slice<const T> weights;      // a row of channels per view and level: of the logits
    Slice<const float> offsets;  // a row per query: what is added to the logits
    Slice<T> output;
    Maps maps;
    float low[3], extent[3];  // of the range, in metres
    uint32_t num_queries;
    float epsilon;
};

// A block has a query, each warp a level.
constexpr uint32_t kReferenceThreads = 128;

template <typename T, typename M>
__device__ void sample_references(const ReferenceArgs<T>& args, uint32_t query) {
    __shared__ __align__(16) float of_levels[kMaxLevels][kMaxChannels];
    linear::prefetch(args);
    pdl::wait();
    const uint32_t channels = args.maps.num_channels;
    const uint32_t num_levels = args.maps.num_levels;
    const uint32_t level = warp_of();
    const uint32_t c = lane_of() * row::kGroup;
    const bool has_channels = c < channels;

    // The lanes up to the number of views have a view each, and the weight of the level in it.
    float content[1][1][row::kGroup] = {}, point[3], mean[1], scale[1], offset = 0;
    if (has_channels)
        row::load(args.rows.data + static_cast<uint64_t>(query) * channels + c, content[0][0]);
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i)
        point[i] = fmaf(args.points[3 * query + i], args.extent[i], args.low[i]);
    Place place = {0, 0, false};
    if (lane_of() < args.maps.num_views) {
        place = place_of(args.maps, lane_of(), point);
        if (level < num_levels) {
            offset = args.offsets[(static_cast<uint64_t>(query) * args.maps.num_views + lane_of()) *
                                      num_levels +
                                  level];
        }
    }
    row::moments<1, 1>(content, channels, args.epsilon, mean, scale);
    if (has_channels) {
        float gamma[row::kGroup], beta[row::kGroup];
        row::load(args.norm.data + c, gamma);
        row::load(args.norm.data + channels + c, beta);
#pragma unroll
        for (uint32_t k = 0; k < row::kGroup; ++k) {
            content[0][0][k] = fmaf((content[0][0][k] - mean[0]) * scale[0], gamma[k], beta[k]);
        }
        if (level == 0)
            row::store(content[0][0],
                       args.content.data + static_cast<uint64_t>(query) * channels + c);
    }

    if (level < num_levels) {
        float sums[row::kGroup] = {};
        const float of_texels = args.maps.levels[level].scale;
#pragma unroll 1
        for (uint32_t seen = __ballot_sync(kAllLanes, place.is_seen); seen != 0; seen &= seen - 1) {
            const uint32_t view = __ffs(seen) - 1;
            Corners<M> corners;
            corners.load(args.maps, level, view, __shfl_sync(kAllLanes, place.u, view),
                         __shfl_sync(kAllLanes, place.v, view), has_channels);
            float logit = 0;
            if (has_channels) {
                float w[row::kGroup];
                row::load(args.weights.data +
                              static_cast<uint64_t>(view * num_levels + level) * channels + c,
                          w);
#pragma unroll
                for (uint32_t k = 0; k < row::kGroup; ++k)
                    logit = fmaf(content[0][0][k], w[k], logit);
            }
            logit = row::sum_of_lanes(logit) + __shfl_sync(kAllLanes, offset, view);
            corners.add_to(sums, refine::sigmoid_as<T>(logit) * of_texels);
        }
        if (has_channels) row::store(sums, &of_levels[level][c]);
    }
    __syncthreads();
    // Two channels a thread.
    const uint32_t pair = 2 * threadIdx.x;
    if (pair >= channels) return;
    float2 sum = *reinterpret_cast<const float2*>(&of_levels[0][pair]);
    for (uint32_t l = 1; l < num_levels; ++l) {
        const float2 more = *reinterpret_cast<const float2*>(&of_levels[l][pair]);
        sum.x += more.x, sum.y += more.y;
    }
    row::store2(sum, args.output.data + static_cast<uint64_t>(query) * channels + pair);
}

// Sampling, and beside it the linear layers that need nothing of it (the position encoder).
template <typename T>
struct ReferenceAndLinearArgs {
    ReferenceArgs<T> sample;
    linear::Args<T> linear;
    uint32_t num_row_blocks;  // of the linear layers
    uint32_t reserved;
};

template <typename T, typename M>
__device__ void sample_references_and_linear(const ReferenceAndLinearArgs<T>& args,
                                             uint8_t* shared) {
    pdl::trigger_of<T>();
    // The linear layers take longer: they come first.
    const uint32_t num_linear =
        args.num_row_blocks * args.linear.end_blocks[args.linear.num_jobs - 1];
    if (blockIdx.x >= num_linear)
        return sample_references<T, M>(args.sample, blockIdx.x - num_linear);
    linear::compute_block<T, 1, true>(args.linear, blockIdx.x % args.num_row_blocks,
                                      blockIdx.x / args.num_row_blocks, shared);
}

}  // namespace view_sample
