// Sampling of feature maps through the key points of anchors, weighted by softmaxes over views,
// levels and points (Sparse4D): src/ops/view_sample/mod.rs. A block has an anchor; a warp takes
// the samples of a point that a view sees, level by level.
#pragma once

#include "view_sample.cuh"

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
static_assert(sizeof(PointsArgs<float>) == 280);

template <typename T>
__device__ float exponential_as(float value) {
    if constexpr (sizeof(T) == 4) return exponential(value);
    return __expf(value);
}

// A key point of an anchor, in metres.
template <typename T>
__device__ void key_point(const PointsArgs<T>& args, uint32_t query, uint32_t index, float (&point)[3]) {
    const float* anchor = args.anchors.data + static_cast<uint64_t>(query) * 11;
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
        float share;
        if (index < args.num_fixed) {
            share = args.fixed.data[3 * index + i];
        } else {
            const uint64_t at = (static_cast<uint64_t>(query) * args.num_learned + index - args.num_fixed) * 3 + i;
            share = refine::sigmoid_as<T>(args.learned.data[at]) - 0.5f;
        }
        point[i] = share * exponential_as<T>(anchor[3 + i]);
    }
    const float sine = anchor[6], cosine = anchor[7], x = point[0], y = point[1];
    point[0] = (cosine * x - sine * y) + anchor[0];
    point[1] = (sine * x + cosine * y) + anchor[1];
    point[2] = point[2] + anchor[2];
}

// Values of all threads with the same `threadIdx.x % num_groups`, reduced in a fixed order.
template <typename Reduce>
__device__ float reduce_group(float value, uint32_t num_groups, uint32_t num_active, float* shared, const Reduce& reduce) {
    shared[threadIdx.x] = value;
    __syncthreads();
    float all = shared[threadIdx.x % num_groups];
    for (uint32_t i = threadIdx.x % num_groups + num_groups; i < num_active; i += num_groups) all = reduce(all, shared[i]);
    __syncthreads();
    return all;
}

template <typename T, typename M>
__device__ void sample_points(const PointsArgs<T>& args, float* weights) {
    __shared__ float values[kPointsThreads];
    __shared__ __align__(16) float sums_of_warps[kPointsWarps][kMaxChannels];
    // What views see: the places in the order of views and points.
    __shared__ float2 places[kMaxPlaces];
    __shared__ uint16_t indices[kMaxPlaces];
    __shared__ uint32_t num_seen;
    const Maps& maps = args.maps;
    const uint32_t query = blockIdx.x;
    const uint32_t num_points = args.num_fixed + args.num_learned, num_levels = maps.num_levels;
    const uint32_t num_groups = args.num_groups, channels = maps.num_channels;

    // The last warp selects, the others begin with the weights.
    if (warp_of() == kPointsWarps - 1) {
        uint32_t num = 0;
        const uint32_t num_places = maps.num_views * num_points;
        for (uint32_t first = 0; first < num_places; first += kLanes) {
            const uint32_t own = first + lane_of();
            Place place = {0, 0, false};
            if (own < num_places) {
                float point[3];
                key_point(args, query, own % num_points, point);
                place = place_of(maps, own / num_points, point);
            }
            const uint32_t seen = __ballot_sync(kAllLanes, place.is_seen);
            if (place.is_seen) {
                const uint32_t to = num + num_lanes_before(seen);
                places[to] = make_float2(place.u, place.v);
                indices[to] = static_cast<uint16_t>(own);
            }
            num += __popc(seen);
        }
        if (lane_of() == 0) num_seen = num;
    }

    // Softmax of every group: a thread has a group's every `num_active / num_groups`th logit.
    const uint32_t num_of_view = num_levels * num_points * num_groups, num_all = maps.num_views * num_of_view;
    const uint32_t num_active = kPointsThreads / num_groups * num_groups;
    const T* logits = args.logits.data + static_cast<uint64_t>(query) * args.logit_stride;
    float most = -INFINITY;
    if (threadIdx.x < num_active) {
        for (uint32_t i = threadIdx.x; i < num_all; i += num_active) {
            const float logit = static_cast<float>(logits[i % num_of_view]) + args.view_logits.data[i];
            weights[i] = logit;
            most = fmaxf(most, logit);
        }
    }
    most = reduce_group(most, num_groups, num_active, values, [](float a, float b) { return fmaxf(a, b); });
    float total = 0;
    if (threadIdx.x < num_active) {
        for (uint32_t i = threadIdx.x; i < num_all; i += num_active) {
            const float weight = exponential_as<T>(weights[i] - most);
            weights[i] = weight;
            total += weight;
        }
    }
    total = reduce_group(total, num_groups, num_active, values, [](float a, float b) { return a + b; });
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
#pragma unroll 2
    for (uint32_t i = warp_of(); i < num_samples; i += kPointsWarps) {
        const uint32_t level = i / num_seen, place = i % num_seen;
        const uint32_t index = indices[place];
        const uint32_t view = index / num_points, point = index % num_points;
        Corners<M> corners;
        corners.load(maps, level, view, places[place].x, places[place].y, has_channels);
        const float weight = weights[((view * num_levels + level) * num_points + point) * num_groups + group] / group_total;
        corners.add_to(sums, weight * maps.levels[level].scale);
    }
    if (has_channels) row::store(sums, &sums_of_warps[warp_of()][c]);
    __syncthreads();
    for (uint32_t pair = 2 * threadIdx.x; pair < channels; pair += 2 * kPointsThreads) {
        float2 sum = {};
        for (uint32_t w = 0; w < kPointsWarps; ++w) {
            const float2 more = *reinterpret_cast<const float2*>(&sums_of_warps[w][pair]);
            sum.x += more.x, sum.y += more.y;
        }
        row::store2(sum, args.output.data + static_cast<uint64_t>(query) * args.output_stride + pair);
    }
}

}  // namespace view_sample
