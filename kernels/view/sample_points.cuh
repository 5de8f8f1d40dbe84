// Sampling of feature maps through the key points of anchors, weighted by softmaxes over views,
// levels and points (Sparse4D): crates/ops/src/view/sample/mod.rs. Here with f32 activations, in
// the order of the CPU; with f16: sample_cells.cuh. A block has an anchor; a warp takes the
// samples of a point that a view sees, level by level.
#pragma once

#include "view/sample.cuh"

namespace view_sample {

constexpr uint32_t kPointsThreads = 256;
constexpr uint32_t kPointsWarps = kPointsThreads / kLanes;
// The most key points of an anchor.
constexpr uint32_t kMaxPoints = 32;
// The most pairs of a view and a point.
constexpr uint32_t kMaxPlaces = 512;
constexpr uint32_t kMaxGroups = 32;

template <typename T>
struct PointsArgs {
    Slice<const float> anchors;      // 11 per query
    Slice<const float> fixed;        // 3 per fixed point: shares of the extents
    Slice<const float> learned;      // 3 per query and learned point: logits of the shares
    Slice<const T> logits;           // a row per query: [levels, points, groups]
    Slice<const float> view_logits;  // [views, levels, points, groups]
    Slice<T> output;                 // a row of channels per query
    Maps maps;
    uint32_t logit_stride;
    uint32_t output_stride;
    uint32_t num_queries;
    uint32_t num_fixed;
    uint32_t num_learned;
    uint32_t num_groups;
};

template <typename T>
__device__ float exponential_as(float value) {
    if constexpr (sizeof(T) == 4) return exponential(value);
    return __expf(value);
}

// A key point of an anchor.
template <typename T>
struct KeyPoint {
    float shares[3], anchor[8];  // of a learned point: logits of the shares
    bool is_learned;

    __device__ void load(const PointsArgs<T>& args, uint32_t query, uint32_t index) {
        is_learned = index >= args.num_fixed;
        const uint64_t of_query = static_cast<uint64_t>(query) * args.num_learned;
        const float* from = is_learned ? args.learned.data + (of_query + index - args.num_fixed) * 3
                                       : args.fixed.data + 3 * index;
        const float* of_anchor = args.anchors.data + static_cast<uint64_t>(query) * 11;
#pragma unroll
        for (uint32_t i = 0; i < 3; ++i) shares[i] = from[i];
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i) anchor[i] = of_anchor[i];
    }
    // In metres.
    __device__ void place(float (&point)[3]) const {
#pragma unroll
        for (uint32_t i = 0; i < 3; ++i) {
            const float share = is_learned ? refine::sigmoid_as<T>(shares[i]) - 0.5f : shares[i];
            point[i] = share * exponential_as<T>(anchor[3 + i]);
        }
        const float sine = anchor[6], cosine = anchor[7], x = point[0], y = point[1];
        point[0] = (cosine * x - sine * y) + anchor[0];
        point[1] = (sine * x + cosine * y) + anchor[1];
        point[2] = point[2] + anchor[2];
    }
};

// Values of all threads with the same `threadIdx.x % num_groups`, reduced in a fixed order.
template <typename Reduce>
__device__ float reduce_group(float value, uint32_t num_groups, uint32_t num_active, float* shared,
                              const Reduce& reduce) {
    uint32_t num_left = num_active;
    if (kLanes % num_groups == 0) {
        for (uint32_t step = kLanes / 2; step >= num_groups; step /= 2) {
            value = reduce(value, __shfl_xor_sync(kAllLanes, value, step));
        }
        if (lane_of() < num_groups) shared[warp_of() * num_groups + lane_of()] = value;
        num_left = kPointsWarps * num_groups;
    } else {
        shared[threadIdx.x] = value;
    }
    __syncthreads();
    const uint32_t group = threadIdx.x % num_groups;
    float all = shared[group];
#pragma unroll 1
    for (uint32_t i = group + num_groups; i < num_left; i += num_groups)
        all = reduce(all, shared[i]);
    __syncthreads();
    return all;
}

// The logits of all views, and the softmaxes over them: a thread has every `num_active`th
// logit of a view, all of one group.
struct Softmax {
    static constexpr uint32_t kBatch = 8;
    uint32_t num_groups, num_active, num_views, num_of_view;
    float* weights;  // [views, levels, points, groups]

    // Stores logits and returns the largest of this thread.
    __device__ float store_logits(const float* logits, const float* of_views) const {
        float most = -INFINITY;
        if (threadIdx.x >= num_active) return most;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < num_of_view; i += num_active) {
            const float logit = logits[i];
#pragma unroll 1
            for (uint32_t first = 0; first < num_views; first += kBatch) {
                float of_view[kBatch];
#pragma unroll
                for (uint32_t k = 0; k < kBatch; ++k) {
                    if (first + k < num_views) of_view[k] = of_views[(first + k) * num_of_view + i];
                }
#pragma unroll
                for (uint32_t k = 0; k < kBatch; ++k) {
                    if (first + k >= num_views) break;
                    const float sum = logit + of_view[k];
                    weights[(first + k) * num_of_view + i] = sum;
                    most = fmaxf(most, sum);
                }
            }
        }
        return most;
    }
    // Replaces logits by exponentials and returns the sum of this thread's.
    __device__ float exponentiate(float most) const {
        float total = 0;
        if (threadIdx.x >= num_active) return total;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < num_of_view; i += num_active) {
#pragma unroll 2
            for (uint32_t view = 0; view < num_views; ++view) {
                const float weight = exponential(weights[view * num_of_view + i] - most);
                weights[view * num_of_view + i] = weight;
                total += weight;
            }
        }
        return total;
    }
};

// The places that views see, in the order of views and points.
struct Places {
    float2 at[kMaxPlaces];
    uint16_t views[kMaxPlaces], points[kMaxPlaces];
    uint32_t num_of_warps[kMaxPlaces / kLanes];
};

template <typename M>
__device__ void sample_points(const PointsArgs<float>& args, float* weights) {
    constexpr uint32_t kOwnPlaces = kMaxPlaces / kPointsThreads;
    __shared__ float values[kPointsThreads];
    __shared__ __align__(16) float sums_of_warps[kPointsWarps][kMaxChannels];
    __shared__ Places places;
    linear::prefetch(args);
    pdl::wait();
    const Maps& maps = args.maps;
    const uint32_t query = blockIdx.x;
    const uint32_t num_points = args.num_fixed + args.num_learned, num_levels = maps.num_levels;
    const uint32_t num_groups = args.num_groups, channels = maps.num_channels;

    // A thread has some pairs of a view and a point.
    const uint32_t num_places = maps.num_views * num_points;
    Place own[kOwnPlaces];
    uint32_t seen[kOwnPlaces];
#pragma unroll
    for (uint32_t i = 0; i < kOwnPlaces; ++i) {
        const uint32_t index = i * kPointsThreads + threadIdx.x;
        own[i] = {0, 0, false};
        if (index < num_places) {
            KeyPoint<float> key_point;
            float point[3];
            key_point.load(args, query, index % num_points);
            key_point.place(point);
            own[i] = place_of(maps, index / num_points, point);
        }
        seen[i] = __ballot_sync(kAllLanes, own[i].is_seen);
        if (lane_of() == 0) places.num_of_warps[i * kPointsWarps + warp_of()] = __popc(seen[i]);
    }

    const Softmax softmax = {num_groups, kPointsThreads / num_groups * num_groups, maps.num_views,
                             num_levels * num_points * num_groups, weights};
    float most = softmax.store_logits(
        args.logits.data + static_cast<uint64_t>(query) * args.logit_stride, args.view_logits.data);
    most = reduce_group(most, num_groups, softmax.num_active, values,
                        [](float a, float b) { return fmaxf(a, b); });
    uint32_t num_seen = 0;
#pragma unroll
    for (uint32_t i = 0; i < kMaxPlaces / kLanes; ++i) {
        if (i % kPointsWarps == warp_of() && own[i / kPointsWarps].is_seen) {
            const uint32_t to = num_seen + num_lanes_before(seen[i / kPointsWarps]),
                           index = i * kLanes + lane_of();
            places.at[to] = make_float2(own[i / kPointsWarps].u, own[i / kPointsWarps].v);
            places.views[to] = static_cast<uint16_t>(index / num_points);
            places.points[to] = static_cast<uint16_t>(index % num_points);
        }
        num_seen += places.num_of_warps[i];
    }
    float total = softmax.exponentiate(most);
    total = reduce_group(total, num_groups, softmax.num_active, values,
                         [](float a, float b) { return a + b; });
    // The sums of the groups, for all threads.
    if (threadIdx.x < num_groups) values[threadIdx.x] = total;
    __syncthreads();

    const uint32_t c = lane_of() * row::kGroup;
    const bool has_channels = c < channels;
    const uint32_t group = has_channels ? c / (channels / num_groups) : 0;
    const float group_total = values[group];
    float sums[row::kGroup] = {};
    const uint32_t num_samples = num_seen * num_levels;
    // Neighbouring samples are of a level and a view: they share texels.
    uint32_t level = 0, place = warp_of();
#pragma unroll 2
    for (uint32_t i = warp_of(); i < num_samples; i += kPointsWarps, place += kPointsWarps) {
        while (place >= num_seen) place -= num_seen, ++level;
        const uint32_t view = places.views[place];
        Corners<M> corners;
        corners.load(maps, level, view, places.at[place].x, places.at[place].y, has_channels);
        const float weight =
            weights[((view * num_levels + level) * num_points + places.points[place]) * num_groups +
                    group] /
            group_total;
        corners.add_to(sums, weight * maps.levels[level].scale);
    }
    if (has_channels) row::store(sums, &sums_of_warps[warp_of()][c]);
    __syncthreads();
#pragma unroll 1
    for (uint32_t pair = 2 * threadIdx.x; pair < channels; pair += 2 * kPointsThreads) {
        float2 sum = {};
        for (uint32_t w = 0; w < kPointsWarps; ++w) {
            const float2 more = *reinterpret_cast<const float2*>(&sums_of_warps[w][pair]);
            sum.x += more.x, sum.y += more.y;
        }
        row::store2(sum,
                    args.output.data + static_cast<uint64_t>(query) * args.output_stride + pair);
    }
}

}  // namespace view_sample
