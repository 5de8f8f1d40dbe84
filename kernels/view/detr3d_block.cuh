// A block of a DETR3D decoder: crates/ops/src/view/detr3d_block/mod.rs. A cluster of two thread
// blocks has 8 or 16 queries, of which only the attention needs others: everything else of a
// decoder block stays in shared memory. The time is mostly that of reading all weights once per
// cluster.
//
// A step is a linear layer of 256 inputs and outputs. Each thread block has half of the outputs, of
// the heads and, when sampling, of the queries; it stores its results in the shared memory of both.
// Four buffers of rows are enough, since a thread block that has received a step knows that the
// other has read what the step depends on:
//
// | step | reads | stores |
// |---|---|---|
// | position encoder | C (encoded points) | D |
// | attention | device memory | A |
// | output of the attention | A | B |
// | sampling | B (normalized) | A |
// | output of the sampling | A; B and D (normalized) are added | C |
// | feed forward, first layer, two steps | C (normalized) | A and B, as one buffer |
// | feed forward, second layer, two steps | A and B; C is added | D |
// | first regression layer, classes | D (normalized) | A, B |
// | queries, keys, values of the next block | D | device memory |
// | second regression layer, classes | A, B (normalized) | C, D |
// | third, which moves the points; classes | C, D (normalized) | device memory |
#pragma once

#include "shared/cluster.cuh"
#include "view/detr3d_block_attention.cuh"
#include "view/sample.cuh"

namespace detr3d_block {

constexpr uint32_t kChannels = 256;
constexpr uint32_t kHeads = 8;
constexpr uint32_t kHidden = 512;
constexpr uint32_t kMaxClasses = 32;
static_assert(kChannels == kHeads * kHeadLen && kChannels == kStepInputs);

// A linear layer, packed: crates/ops/src/view/linear/layer.rs.
struct Layer {
    Slice<const uint8_t> weights;
    Slice<const float> bias;  // padded to 16; empty: none
};

// The layers of a block, and what its steps compute; queries, keys and values are those of the next
// block.
enum LayerOf : uint32_t {
    kEncoderLayer = 0,
    kOutputLayer = 1,
    kViewLayer = 2,
    kHiddenLayer = 3,
    kFeedForwardLayer = 4,
    kQueriesKeysLayer = 5,
    kValuesLayer = 6,
    kRegressionLayer = 7,
    kClassLayer = 10,
    kNumLayers = 13,
};
// Normalizations: factors and summands.
enum NormOf : uint32_t {
    kEncoderInputNorm = 0,
    kEncoderNorm = 1,
    kAttentionNorm = 2,
    kViewNorm = 3,
    kFeedForwardNorm = 4,
    kClassNorm = 5,
    kNumNorms = 7,
};

struct Args {
    Layer layers[kNumLayers];
    Slice<const float> norms[kNumNorms];
    Slice<const float> encoder;     // of each channel the weights of 3 coordinates and a bias
    Slice<const __half> attended;   // of the first block: rows after the attention; else empty
    Slice<const __half> content;    // normalized rows
    Slice<const __half> positions;  // added to the attention; empty: none
    Slice<const __half> queries;
    Slice<const __half> keys_values;  // tiles: detr3d_block_attention.cuh
    // Rows of 2 C: of the next queries and keys; empty in the last block.
    Slice<const __half> offsets;
    Slice<__half> next_content;
    Slice<__half> next_queries;
    Slice<__half> next_keys_values;
    Slice<__half> output;                // rows before the last normalization; empty: nowhere
    Slice<const float> points;           // 3 per query, in 0 to 1 of the range
    Slice<float> moved;                  // empty in the last block
    Slice<const __half> sample_weights;  // a row of channels per view and level: of the logits
    Slice<const float> sample_offsets;   // a row per query: what is added to the logits
    Slice<float> boxes;                  // rows of 11, of the last block; else empty
    Slice<float> logits;                 // rows of classes
    view_sample::Maps maps;
    float low[3], extent[3];  // of the range, in metres
    uint32_t num_queries;
    uint32_t num_classes;
    float score_scale;  // to the base 2
    float epsilon;
};

// Values of a row of a box.
constexpr uint32_t kBoxLen = 11;

enum Step : uint32_t {
    kEncode,
    kAttend,
    kView,
    kHide,
    kHideMore,
    kFeed,
    kFeedMore,
    kRegress,
    kQueries,
    kKeys,
    kValues,
    kClassify,
    kRegressMore,
    kClassifyMore,
    kMove,
    kScore,
    kNumSteps
};

// Values from a row in shared memory to the next.
constexpr uint32_t kPitch = kChannels + 8;
constexpr uint32_t kHiddenPitch = kHidden + 8;

// A thread block's shared memory.
template <uint32_t kRows>
struct Shared {
    __half d[kRows * kPitch];
    __half a[kRows * kPitch], b[kRows * kPitch];  // and as one buffer the hidden rows
    __half c[kRows * kPitch];
    float parts[4 * Product<kRows>::kPartLen];
    float2 of_parts[kWarps * kRows];
    float encoder[4 * kChannels];
    float norms[kNumNorms][2 * kChannels];
    uint64_t inbox[2];
};
static_assert(kHiddenPitch <= 2 * kPitch);
// For Rust.
constexpr uint32_t kBytes8 = 53264;
constexpr uint32_t kBytes16 = 88080;
static_assert(sizeof(Shared<8>) == kBytes8);
static_assert(sizeof(Shared<16>) == kBytes16);

// Four neighbouring values of a row.
__device__ inline float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }
__device__ inline float4 load4(const __half* from) {
    const uint2 words = *reinterpret_cast<const uint2*>(from);
    const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&words.x));
    const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&words.y));
    return make_float4(low.x, low.y, high.x, high.y);
}
__device__ inline float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Layer normalization of rows of which a lane has 8 neighbouring channels, and ReLU. Lanes merge
// means and squared deviations (Chan et al. 1979): half as many exchanges in a row as sums of
// values, then of deviations.
template <uint32_t kNum>
__device__ void normalize(float (&values)[kNum][row::kGroup], const float* (&norms)[kNum],
                          const bool (&has_relu)[kNum], float epsilon) {
    float mean[kNum], deviation[kNum] = {};
#pragma unroll
    for (uint32_t n = 0; n < kNum; ++n) {
        mean[n] = 0;
#pragma unroll
        for (uint32_t k = 0; k < row::kGroup; ++k) mean[n] += values[n][k];
        mean[n] *= 1.0f / row::kGroup;
#pragma unroll
        for (uint32_t k = 0; k < row::kGroup; ++k)
            deviation[n] = fmaf(values[n][k] - mean[n], values[n][k] - mean[n], deviation[n]);
    }
#pragma unroll
    for (uint32_t step = 1; step < kLanes; step *= 2) {
        // Half the values of each of two lanes' groups.
        const float half = 0.5f * row::kGroup * step;
#pragma unroll
        for (uint32_t n = 0; n < kNum; ++n) {
            const float other = __shfl_xor_sync(kAllLanes, mean[n], step),
                        difference = other - mean[n];
            deviation[n] = fmaf(half * difference, difference,
                                deviation[n] + __shfl_xor_sync(kAllLanes, deviation[n], step));
            mean[n] = 0.5f * (mean[n] + other);
        }
    }
#pragma unroll
    for (uint32_t n = 0; n < kNum; ++n) {
        const float scale = rsqrtf(deviation[n] * (1.0f / kChannels) + epsilon);
        float gamma[row::kGroup], beta[row::kGroup];
        row::load(norms[n] + lane_of() * row::kGroup, gamma);
        row::load(norms[n] + kChannels + lane_of() * row::kGroup, beta);
#pragma unroll
        for (uint32_t k = 0; k < row::kGroup; ++k) {
            values[n][k] = fmaf((values[n][k] - mean[n]) * scale, gamma[k], beta[k]);
            if (has_relu[n]) values[n][k] = row::relu(values[n][k]);
        }
    }
}

// Where a query looks: the lanes up to the number of views have a view each.
template <uint32_t kLevels>
struct Look {
    uint32_t first_level;
    view_sample::Place place;
    float offsets[kLevels];  // of the logits
};

// A query's features in some levels of a view, and the weights of their logits.
template <typename M, uint32_t kLevels>
struct Gather {
    view_sample::Corners<M> corners[kLevels];
    row::Raw<__half> weights[kLevels];

    __device__ void load(const Args& args, const Look<kLevels>& look, uint32_t view) {
        const float u = __shfl_sync(kAllLanes, look.place.u, view),
                    v = __shfl_sync(kAllLanes, look.place.v, view);
#pragma unroll
        for (uint32_t l = 0; l < kLevels; ++l) {
            const uint32_t level = look.first_level + l;
            if (level >= args.maps.num_levels) continue;
            corners[l].load(args.maps, level, view, u, v, true);
            weights[l].load(args.sample_weights.data +
                            (view * args.maps.num_levels + level) * kChannels +
                            lane_of() * row::kGroup);
        }
    }
    __device__ void add_to(float (&sums)[row::kGroup], const Args& args, const Look<kLevels>& look,
                           uint32_t view, const float (&content)[row::kGroup]) const {
        float logits[kLevels];
#pragma unroll
        for (uint32_t l = 0; l < kLevels; ++l) {
            float w[row::kGroup];
            weights[l].unpack(w);
            logits[l] = 0;
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k)
                logits[l] = fmaf(content[k], w[k], logits[l]);
        }
#pragma unroll
        for (uint32_t l = 0; l < kLevels; ++l) {
            logits[l] =
                row::sum_of_lanes(logits[l]) + __shfl_sync(kAllLanes, look.offsets[l], view);
        }
#pragma unroll
        for (uint32_t l = 0; l < kLevels; ++l) {
            const uint32_t level = look.first_level + l;
            if (level >= args.maps.num_levels) continue;
            corners[l].add_to(
                sums, refine::sigmoid_as<__half>(logits[l]) * args.maps.levels[level].scale);
        }
    }
};

}  // namespace detr3d_block
