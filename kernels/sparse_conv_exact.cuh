// Sums in f32 in the order of the CPU, without matrix instructions. The weights pass through
// a ring in shared memory, some input channels of a tap at a time.
#pragma once

#include "sparse_conv_staged.cuh"

namespace sparse_conv {

constexpr uint32_t kF32Threads = 256;
// Input channels of the weights that a stage of the ring has.
constexpr uint32_t kF32StageChannels = 32;
constexpr uint32_t kF32Stages = 3;

// What a warp adds up. A lane has some channels, by fours, of up to `kMaxRows` rows. Loaded
// values reach the registers at a quarter of the rate at which they can be multiplied, so that
// a lane multiplies each about four times or more.
template <uint32_t kChannels>
struct ExactTile {
    static constexpr uint32_t kColumns = kChannels <= 32 ? 4 : 8;
    static constexpr uint32_t kParts = kChannels / kColumns / 4;
    static constexpr uint32_t kRowLanes = kLanes / kColumns;
    static constexpr uint32_t kMaxRows = kChannels == 128 ? 6 : 8;
    // Of 8 rows, as `Taps` has them.
    static constexpr uint32_t kGroups = kRowLanes;
    // Input channels that are loaded at once.
    static constexpr uint32_t kStep = kChannels == 32 || kChannels == 64 ? 8 : 4;
};

// A lane's sums and what it multiplies next.
template <uint32_t kChannels>
struct ExactLane {
    using Tile = ExactTile<kChannels>;
    using Step = float[Tile::kMaxRows][Tile::kStep];

    float sums[Tile::kMaxRows][Tile::kParts][4] = {};
    const uint8_t* features;
    const Offsets<Tile::kGroups> (*offsets)[8];
    uint32_t num_bytes;  // of a row
    uint32_t taps = 0, byte = 0;
    uint32_t of_tap[Tile::kMaxRows] = {};
    Step even = {}, odd = {};

    template <uint32_t kRows>
    __device__ __forceinline__ void find_rows() {
#pragma unroll
        for (uint32_t i = 0; i < kRows; ++i) {
            const uint32_t slot = lane_of() / Tile::kColumns + i * Tile::kRowLanes;
            const auto* of_rows = reinterpret_cast<const uint32_t*>(offsets[__ffs(taps) - 1]);
            of_tap[i] = of_rows[slot % 8 * Tile::kGroups + slot / 8];
        }
    }
    template <uint32_t kRows>
    __device__ __forceinline__ void load(Step& step, uint32_t at) {
#pragma unroll
        for (uint32_t i = 0; i < kRows; ++i) {
#pragma unroll
            for (uint32_t c = 0; c < Tile::kStep; c += 4) {
                const float4 v = __ldg(reinterpret_cast<const float4*>(features + of_tap[i] + at + c * 4));
                step[i][c] = v.x, step[i][c + 1] = v.y, step[i][c + 2] = v.z, step[i][c + 3] = v.w;
            }
        }
    }
    template <uint32_t kRows>
    __device__ __forceinline__ void multiply(const Step& step, const float* weights) {
#pragma unroll
        for (uint32_t c = 0; c < Tile::kStep; ++c) {
#pragma unroll
            for (uint32_t part = 0; part < Tile::kParts; ++part) {
                const float4 w = *reinterpret_cast<const float4*>(weights + c * kChannels + part * (Tile::kColumns * 4));
#pragma unroll
                for (uint32_t i = 0; i < kRows; ++i) {
                    float* sum = sums[i][part];
                    sum[0] = fmaf(step[i][c], w.x, sum[0]);
                    sum[1] = fmaf(step[i][c], w.y, sum[1]);
                    sum[2] = fmaf(step[i][c], w.z, sum[2]);
                    sum[3] = fmaf(step[i][c], w.w, sum[3]);
                }
            }
        }
    }

    // Begins a batch: the first step of the first tap is loaded.
    template <uint32_t kRows>
    __device__ __forceinline__ void begin() {
        find_rows<kRows>();
        load<kRows>(even, 0);
    }
    // Adds the products of some input channels of the lowest tap.
    template <uint32_t kRows>
    __device__ __forceinline__ void add(const float* weights, uint32_t num_channels) {
        constexpr uint32_t kStepBytes = Tile::kStep * 4;
#pragma unroll 1
        for (uint32_t channel = 0; channel < num_channels; channel += 2 * Tile::kStep) {
            load<kRows>(odd, byte + kStepBytes);
            multiply<kRows>(even, weights + channel * kChannels);
            byte += 2 * kStepBytes;
            if (byte == num_bytes) {
                byte = 0;
                taps &= taps - 1;
                if (taps != 0) find_rows<kRows>();
            }
            if (taps != 0) load<kRows>(even, byte);
            multiply<kRows>(odd, weights + (channel + Tile::kStep) * kChannels);
        }
    }
};

// Calls `work` with the number of rows as a constant: all at once would cost as much as the most.
template <uint32_t kRows, typename Work>
__device__ __forceinline__ void with_rows(uint32_t num_rows, const Work& work) {
    if constexpr (kRows > 1) {
        if (num_rows < kRows) return with_rows<kRows - 1>(num_rows, work);
    }
    work.template operator()<kRows>();
}

template <uint32_t kChannels>
struct ExactBegin {
    ExactLane<kChannels>& lane;
    template <uint32_t kRows>
    __device__ __forceinline__ void operator()() const {
        lane.template begin<kRows>();
    }
};
template <uint32_t kChannels>
struct ExactAdd {
    ExactLane<kChannels>& lane;
    const float* weights;
    uint32_t num_channels;
    template <uint32_t kRows>
    __device__ __forceinline__ void operator()() const {
        lane.template add<kRows>(weights, num_channels);
    }
};

template <uint32_t kChannels>
__device__ void exact(const Args& args) {
    using Tile = ExactTile<kChannels>;
    constexpr uint32_t kWarps = kF32Threads / kLanes;
    constexpr uint32_t kStageLen = kF32StageChannels * kChannels;
    constexpr uint32_t kMultiple = 2 * Tile::kStep;
    extern __shared__ uint4 shared[];
    __shared__ uint32_t block_taps;
    auto* stages = reinterpret_cast<float*>(shared);
    auto* offsets = reinterpret_cast<Offsets<Tile::kGroups>(*)[8]>(stages + kF32Stages * kStageLen) + warp_of() * kBatchTaps;
    const uint32_t num_inputs = (args.num_inputs + kMultiple - 1) / kMultiple * kMultiple;
    const auto* packed = reinterpret_cast<const float*>(args.weights.data) + blockIdx.y * kChannels;
    const uint32_t lane_channel = lane_of() % Tile::kColumns * 4;
    // Units of as many rows as a warp adds up side by side.
    const uint32_t num_rows = num_rows_of(args);
    const Range units(0, (num_rows + Tile::kRowLanes - 1) / Tile::kRowLanes, blockIdx.x, gridDim.x);
    const uint32_t num_units = units.end - units.begin;
    const uint32_t num_passes = (num_units + kWarps * Tile::kMaxRows - 1) / (kWarps * Tile::kMaxRows);
    for (uint32_t pass = 0; pass < num_passes; ++pass) {
        const Range of_pass(units.begin, num_units, pass, num_passes);
        const Range of_warp(of_pass.begin, of_pass.end - of_pass.begin, warp_of(), kWarps);
        const uint32_t end = of_warp.end * Tile::kRowLanes;
        const Rows rows = {of_warp.begin * Tile::kRowLanes, end < num_rows ? end : num_rows};
        const uint32_t rows_of_lane = of_warp.end - of_warp.begin;
        ExactLane<kChannels> lane;
        lane.features = args.features.data;
        lane.offsets = offsets;
        lane.num_bytes = num_inputs * 4;
        for (uint32_t group = 0; group < args.num_groups; group += kBatch) {
            // No warp is still at the last batch.
            __syncthreads();
            if (threadIdx.x == 0) block_taps = 0;
            __syncthreads();
            const Taps<Tile::kGroups> taps(args, rows, group, offsets);
            if (lane_of() == 0) atomicOr(&block_taps, taps.any);
            __syncthreads();

            uint32_t ahead = block_taps, first_ahead = 0, stage_ahead = 0;
            const auto copy_next = [&] {
                if (ahead != 0) {
                    const uint32_t left = num_inputs - first_ahead;
                    const uint32_t num_quads = (left < kF32StageChannels ? left : kF32StageChannels) * (kChannels / 4);
                    const uint32_t first_row = (group * args.width + __ffs(ahead) - 1) * num_inputs + first_ahead;
                    auto* to = reinterpret_cast<uint4*>(stages + stage_ahead * kStageLen);
#pragma unroll
                    for (uint32_t first = 0; first < kStageLen / 4; first += kF32Threads) {
                        const uint32_t i = first + threadIdx.x;
                        const float* from = packed + static_cast<uint64_t>(first_row + i / (kChannels / 4)) * args.num_outputs +
                                            i % (kChannels / 4) * 4;
                        if (i < num_quads) copy_async(to + i, reinterpret_cast<const uint4*>(from));
                    }
                    first_ahead += kF32StageChannels;
                    if (first_ahead >= num_inputs) first_ahead = 0, ahead &= ahead - 1;
                    if (++stage_ahead == kF32Stages) stage_ahead = 0;
                }
                commit_copies();
            };
#pragma unroll
            for (uint32_t i = 0; i < kF32Stages - 1; ++i) copy_next();

            lane.taps = taps.any;
            if (taps.any != 0) with_rows<Tile::kMaxRows>(rows_of_lane, ExactBegin<kChannels>{lane});
            uint32_t stage = 0;
            for (uint32_t rest = block_taps; rest != 0; rest &= rest - 1) {
                const bool has_tap = (rest & -rest & taps.any) != 0;
                for (uint32_t first = 0; first < num_inputs; first += kF32StageChannels) {
                    wait_for_copies<kF32Stages - 2>();
                    __syncthreads();
                    copy_next();
                    const float* weights = stages + stage * kStageLen + lane_channel;
                    if (++stage == kF32Stages) stage = 0;
                    if (!has_tap) continue;
                    const uint32_t left = num_inputs - first;
                    const uint32_t num_channels = left < kF32StageChannels ? left : kF32StageChannels;
                    with_rows<Tile::kMaxRows>(rows_of_lane, ExactAdd<kChannels>{lane, weights, num_channels});
                }
            }
        }
        uint32_t row[Tile::kMaxRows];
#pragma unroll
        for (uint32_t i = 0; i < Tile::kMaxRows; ++i) row[i] = rows.first + lane_of() / Tile::kColumns + i * Tile::kRowLanes;
#pragma unroll
        for (uint32_t part = 0; part < Tile::kParts; ++part) {
            const uint32_t channel = blockIdx.y * kChannels + lane_channel + part * (Tile::kColumns * 4);
            float of_rows[Tile::kMaxRows][4];
#pragma unroll
            for (uint32_t i = 0; i < Tile::kMaxRows; ++i) {
#pragma unroll
                for (uint32_t c = 0; c < 4; ++c) of_rows[i][c] = lane.sums[i][part][c];
            }
            finish<float>(args, rows, row, channel, of_rows);
        }
    }
}

}  // namespace sparse_conv
