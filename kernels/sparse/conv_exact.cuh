// Sums in f32 in the order of the CPU, without matrix instructions.
//
// Only pairs of an output row and an input row are multiplied, as on the CPU: a block lists the
// rows that have a tap and divides the list among its lanes, so that a row without the tap costs
// nothing. The sums of a row stay in shared memory between taps and are in registers while a tap
// is added. Weights and features of a tap are copied to shared memory a stage ahead, some input
// channels at a time.
#pragma once

#include "sparse/conv_staged.cuh"

namespace sparse_conv {

constexpr uint32_t kF32Threads = 256;
constexpr uint32_t kF32Stages = 2;
// Input channels of a stage, for up to 32 output channels and for more.
constexpr uint32_t kF32NarrowDepth = 16;
constexpr uint32_t kF32Depth = 32;
// Values between the channels of two pairs: neighbouring pairs are in different banks.
constexpr uint32_t kF32Padding = 4;
// Sums in the registers of a block, for 16 output channels and for more.
constexpr uint32_t kF32NarrowSums = 4096;
constexpr uint32_t kF32Sums = 16384;
// Blocks per multiprocessor for 16 output channels; one for more.
constexpr uint32_t kF32NarrowBlocks = 2;
// Words per row whose pairs are listed at once, and their taps at most.
constexpr uint32_t kF32Batch = 3;
constexpr uint32_t kF32BatchTaps = 9;
// Consecutive rows of a block. The rows after them are those of the other blocks, so that all
// blocks have about equally many pairs.
constexpr uint32_t kF32Consecutive = 4;

// How the lanes of a block share the pairs of a tap: each has `kParts` times 4 output channels
// of up to `kMaxRows` pairs.
template <uint32_t kChannels>
struct ExactTile {
    static constexpr uint32_t kParts = 2;
    static constexpr uint32_t kColumns = kChannels < 32 * kParts ? kChannels / 4 / kParts : 8;
    static constexpr uint32_t kColumnWarps = kChannels / 4 / kParts / kColumns;
    static constexpr uint32_t kWarpRows = kLanes / kColumns;
    static constexpr uint32_t kBlockRows = kF32Threads / kLanes / kColumnWarps * kWarpRows;
    static constexpr uint32_t kMaxPairs = (kChannels == 16 ? kF32NarrowSums : kF32Sums) / kChannels;
    static constexpr uint32_t kMaxRows = kMaxPairs / kBlockRows;
    static constexpr uint32_t kDepth = kChannels <= 32 ? kF32NarrowDepth : kF32Depth;
    static constexpr uint32_t kPitch = kDepth + kF32Padding;
    static constexpr uint32_t kWeightsLen = kDepth * kChannels;
};

// What a block has in shared memory. A slot is a row of the block.
template <uint32_t kChannels>
struct ExactShared {
    uint32_t max_rows;
    uint32_t stage_len;
    float* stages;        // each: weights, then features by pair
    float* sums;          // by slot and channel
    uint32_t* words;      // of the table, by group and slot
    uint16_t* slots;      // by tap, those that have it
    uint32_t* num_pairs;  // by tap

    __device__ ExactShared(uint4* shared, uint32_t* num_pairs, uint32_t max_rows)
        : max_rows(max_rows), num_pairs(num_pairs) {
        using Tile = ExactTile<kChannels>;
        const uint32_t max_pairs = max_rows < Tile::kMaxPairs ? max_rows : Tile::kMaxPairs;
        stage_len = Tile::kWeightsLen + max_pairs * Tile::kPitch;
        stages = reinterpret_cast<float*>(shared);
        sums = stages + kF32Stages * stage_len;
        words = reinterpret_cast<uint32_t*>(sums + max_rows * kChannels);
        slots = reinterpret_cast<uint16_t*>(words + kF32Batch * max_rows);
    }
};

// The rows that a block sums at once.
struct ExactRows {
    uint32_t first;  // of the block's groups of consecutive rows
    uint32_t num_slots;
    uint32_t num_rows;  // of all blocks

    __device__ uint32_t operator[](uint32_t slot) const {
        const uint32_t group = first + slot / kF32Consecutive;
        return (group * gridDim.x + blockIdx.x) * kF32Consecutive + slot % kF32Consecutive;
    }
};

// Lists the pairs of some words of the table by tap.
template <uint32_t kChannels>
__device__ void list_pairs(const Args& args, const ExactRows& rows, uint32_t first_group,
                           const ExactShared<kChannels>& shared) {
    const uint32_t left = args.num_groups - first_group;
    const uint32_t num_groups = left < kF32Batch ? left : kF32Batch;
    for (uint32_t slot = threadIdx.x; slot < rows.num_slots; slot += kF32Threads) {
        const uint32_t row = rows[slot];
#pragma unroll
        for (uint32_t i = 0; i < kF32Batch; ++i) {
            uint32_t word = 0;
            if (i < num_groups && row < rows.num_rows) {
                word =
                    __ldg(&args.words[static_cast<uint64_t>(first_group + i) * args.stride + row]);
            }
            shared.words[i * shared.max_rows + slot] = word;
        }
    }
    __syncthreads();
    for (uint32_t tap = warp_of(); tap < kF32BatchTaps; tap += kF32Threads / kLanes) {
        const uint32_t group = tap / args.width;
        const uint32_t bit = 1u << tap % args.width;
        uint32_t num = 0;
        if (group < num_groups) {
#pragma unroll 4
            for (uint32_t first = 0; first < rows.num_slots; first += kLanes) {
                const uint32_t slot = first + lane_of();
                const uint32_t word =
                    slot < rows.num_slots ? shared.words[group * shared.max_rows + slot] : 0;
                const bool has_tap = (word & bit) != 0;
                const uint32_t votes = __ballot_sync(kAllLanes, has_tap);
                if (has_tap)
                    shared.slots[tap * shared.max_rows + num + num_lanes_before(votes)] = slot;
                num += __popc(votes);
            }
        }
        if (lane_of() == 0) shared.num_pairs[tap] = num;
    }
    __syncthreads();
}

// The pairs of a tap that are added at once; the shares of a tap are of about equal size.
template <uint32_t kChannels>
struct ExactShare {
    const uint32_t* num_pairs;
    uint32_t tap = 0;
    uint32_t begin = 0, end = 0;  // pairs of the tap

    __device__ explicit ExactShare(const uint32_t* num_pairs) : num_pairs(num_pairs) { find_tap(); }
    __device__ bool is_end() const { return tap == kF32BatchTaps; }
    __device__ void next() {
        const uint32_t left = num_pairs[tap] - end;
        if (left == 0) return ++tap, find_tap();
        begin = end;
        end += left < each ? left : each;
    }

private:
    uint32_t each = 0;

    __device__ void find_tap() {
        constexpr uint32_t kMax = ExactTile<kChannels>::kMaxPairs;
        while (tap < kF32BatchTaps && num_pairs[tap] == 0) ++tap;
        if (is_end()) return;
        const uint32_t num = num_pairs[tap];
        const uint32_t num_shares = (num + kMax - 1) / kMax;
        each = (num + num_shares - 1) / num_shares;
        begin = 0, end = each;
    }
};

// Copies the weights and the features of shares, a stage at a time.
template <uint32_t kChannels>
struct ExactCopier {
    using Tile = ExactTile<kChannels>;
    const Args& args;
    const ExactShared<kChannels>& shared;
    const float* weights;  // of the first tap
    uint32_t num_inputs;
    ExactShare<kChannels> share;
    uint32_t first = 0, stage = 0;

    __device__ __forceinline__ void copy_next() {
        if (!share.is_end()) {
            const uint32_t left = num_inputs - first;
            const uint32_t num_channels = left < Tile::kDepth ? left : Tile::kDepth;
            float* to = shared.stages + stage * shared.stage_len;
            copy_weights(to, num_channels);
            copy_features(to + Tile::kWeightsLen, num_channels);
            first += Tile::kDepth;
            if (first >= num_inputs) first = 0, share.next();
            stage = (stage + 1) % kF32Stages;
        }
        commit_copies();
    }

private:
    __device__ __forceinline__ void copy_weights(float* to, uint32_t num_channels) const {
        constexpr uint32_t kQuads = kChannels / 4;
        const uint32_t first_row = share.tap * num_inputs + first;
        const float* from = weights + static_cast<uint64_t>(first_row) * args.num_outputs;
#pragma unroll
        for (uint32_t i = threadIdx.x; i < Tile::kWeightsLen / 4; i += kF32Threads) {
            if (i >= num_channels * kQuads) break;
            copy_async(
                reinterpret_cast<uint4*>(to) + i,
                reinterpret_cast<const uint4*>(from + i / kQuads * args.num_outputs) + i % kQuads);
        }
    }
    __device__ __forceinline__ void copy_features(float* to, uint32_t num_channels) const {
        constexpr uint32_t kQuads = Tile::kDepth / 4;
        const uint32_t quad = threadIdx.x % kQuads;
        if (quad * 4 >= num_channels) return;
        const uint16_t* slots = shared.slots + share.tap * shared.max_rows;
        const uint32_t* words = shared.words + share.tap / args.width * shared.max_rows;
        const uint8_t* from = args.features.data + kZeroBytes + first * 4 + quad * 16;
        const uint32_t at = share.tap % args.width;
#pragma unroll 4
        for (uint32_t i = share.begin + threadIdx.x / kQuads; i < share.end;
             i += kF32Threads / kQuads) {
            // Features have less than 2^32 bytes.
            const uint32_t byte = input_row(words[slots[i]], at) * args.row_bytes;
            copy_async(reinterpret_cast<uint4*>(to + (i - share.begin) * Tile::kPitch) + quad,
                       reinterpret_cast<const uint4*>(from + byte));
        }
    }
};

__device__ __forceinline__ float of_quad(const float4& v, uint32_t at) {
    return at == 0 ? v.x : at == 1 ? v.y : at == 2 ? v.z : v.w;
}

// A lane's sums of a share.
template <uint32_t kChannels>
struct ExactLane {
    using Tile = ExactTile<kChannels>;
    using Step = float4[Tile::kMaxRows];

    const ExactShared<kChannels>& shared;
    uint32_t row;                     // this lane's first pair
    uint32_t channels[Tile::kParts];  // the first of 4
    float sums[Tile::kMaxRows][Tile::kParts][4];
    Step even, odd;

    __device__ explicit ExactLane(const ExactShared<kChannels>& shared) : shared(shared) {
        const uint32_t row_of_warp = lane_of() / Tile::kColumns;
        row = warp_of() / Tile::kColumnWarps * Tile::kWarpRows + row_of_warp;
        // Where eight lanes have several pairs, the parts of neighbouring pairs are swapped: their
        // sums are in different banks.
        const uint32_t swapped = Tile::kColumns < 8 ? row_of_warp % 2 : 0;
#pragma unroll
        for (uint32_t part = 0; part < Tile::kParts; ++part) {
            channels[part] = warp_of() % Tile::kColumnWarps * (Tile::kColumns * Tile::kParts * 4) +
                             (part ^ swapped) * (Tile::kColumns * 4) +
                             lane_of() % Tile::kColumns * 4;
        }
    }

    // Calls `work` for this lane's pairs with the sums in shared memory.
    template <typename Work>
    __device__ __forceinline__ void for_sums(const ExactShare<kChannels>& share,
                                             const Work& work) const {
        const uint16_t* slots = shared.slots + share.tap * shared.max_rows;
#pragma unroll
        for (uint32_t i = 0; i < Tile::kMaxRows; ++i) {
            const uint32_t at = share.begin + row + i * Tile::kBlockRows;
            if (at >= share.end) continue;
            float* of_slot = shared.sums + slots[at] * kChannels;
#pragma unroll
            for (uint32_t part = 0; part < Tile::kParts; ++part) {
                work(i, part, reinterpret_cast<float4*>(of_slot + channels[part]));
            }
        }
    }
    __device__ __forceinline__ void load_sums(const ExactShare<kChannels>& share) {
        for_sums(share, [&](uint32_t i, uint32_t part, const float4* from) {
            const float4 v = *from;
            float* sum = sums[i][part];
            sum[0] = v.x, sum[1] = v.y, sum[2] = v.z, sum[3] = v.w;
        });
    }
    __device__ __forceinline__ void store_sums(const ExactShare<kChannels>& share) const {
        for_sums(share, [&](uint32_t i, uint32_t part, float4* to) {
            const float* sum = sums[i][part];
            *to = make_float4(sum[0], sum[1], sum[2], sum[3]);
        });
    }

    template <uint32_t kRows>
    __device__ __forceinline__ void load(Step& step, const float* features) {
#pragma unroll
        for (uint32_t i = 0; i < kRows; ++i) {
            step[i] =
                *reinterpret_cast<const float4*>(features + i * (Tile::kBlockRows * Tile::kPitch));
        }
    }
    template <uint32_t kRows>
    __device__ __forceinline__ void multiply(const Step& step, const float* weights) {
#pragma unroll
        for (uint32_t c = 0; c < 4; ++c) {
            float4 w[Tile::kParts];
#pragma unroll
            for (uint32_t part = 0; part < Tile::kParts; ++part) {
                w[part] =
                    *reinterpret_cast<const float4*>(weights + c * kChannels + channels[part]);
            }
            // By weight, then by row: the compiler then keeps more factors from one multiply-add to
            // the next (docs/decisions/0006-kernel-lessons.md).
#pragma unroll
            for (uint32_t to = 0; to < Tile::kParts * 4; ++to) {
#pragma unroll
                for (uint32_t i = 0; i < kRows; ++i) {
                    float& sum = sums[i][to / 4][to % 4];
                    sum = fmaf(of_quad(step[i], c), of_quad(w[to / 4], to % 4), sum);
                }
            }
        }
    }
    // Adds the products of a stage. The last load reads the padding of a pair.
    template <uint32_t kRows>
    __device__ __forceinline__ void add(const float* weights, uint32_t num_channels) {
        const float* features = weights + Tile::kWeightsLen + row * Tile::kPitch;
        load<kRows>(even, features);
#pragma unroll 1
        for (uint32_t channel = 0; channel < num_channels; channel += 8) {
            load<kRows>(odd, features + channel + 4);
            multiply<kRows>(even, weights + channel * kChannels);
            load<kRows>(even, features + channel + 8);
            multiply<kRows>(odd, weights + (channel + 4) * kChannels);
        }
    }
    // Calls `add` with the number of rows as a constant: absent rows cost nothing.
    template <uint32_t kRows = Tile::kMaxRows>
    __device__ __forceinline__ void add_rows(uint32_t num_rows, const float* weights,
                                             uint32_t num_channels) {
        if constexpr (kRows > 1) {
            if (num_rows < kRows) return add_rows<kRows - 1>(num_rows, weights, num_channels);
        }
        add<kRows>(weights, num_channels);
    }
};

// Adds the products of the listed pairs to the sums.
template <uint32_t kChannels>
__device__ void add_pairs(const Args& args, uint32_t first_tap,
                          const ExactShared<kChannels>& shared) {
    using Tile = ExactTile<kChannels>;
    const uint32_t num_inputs = (args.num_inputs + 7) / 8 * 8;
    const uint64_t first_weight = static_cast<uint64_t>(first_tap) * num_inputs * args.num_outputs;
    const float* weights =
        reinterpret_cast<const float*>(args.weights.data) + first_weight + blockIdx.y * kChannels;
    ExactShare<kChannels> share(shared.num_pairs);
    ExactCopier<kChannels> copier{args, shared, weights, num_inputs, share};
    ExactLane<kChannels> lane(shared);
    copier.copy_next();
    for (uint32_t stage = 0; !share.is_end(); share.next()) {
        // Rows of the warp's first lanes, which have the most.
        const uint32_t begin = share.begin + warp_of() / Tile::kColumnWarps * Tile::kWarpRows;
        const uint32_t num_rows =
            begin < share.end ? (share.end - begin + Tile::kBlockRows - 1) / Tile::kBlockRows : 0;
        for (uint32_t first = 0; first < num_inputs; first += Tile::kDepth) {
            wait_for_copies<0>();
            __syncthreads();
            copier.copy_next();
            if (first == 0) lane.load_sums(share);
            const uint32_t left = num_inputs - first;
            const uint32_t num_channels = left < Tile::kDepth ? left : Tile::kDepth;
            const float* weights_and_features = shared.stages + stage * shared.stage_len;
            if (num_rows != 0) lane.add_rows(num_rows, weights_and_features, num_channels);
            stage = (stage + 1) % kF32Stages;
        }
        lane.store_sums(share);
    }
}

// Writes the rows of a block from their sums.
template <uint32_t kChannels>
__device__ void write_rows(const Args& args, const ExactRows& rows, const float4* sums) {
    constexpr uint32_t kQuads = kChannels / 4;
    constexpr uint32_t kRowsAtOnce = 4;
    constexpr uint32_t kStep = kF32Threads / kQuads;
    const uint32_t quad = threadIdx.x % kQuads;
    for (uint32_t first = threadIdx.x / kQuads; first < rows.num_slots;
         first += kStep * kRowsAtOnce) {
        uint32_t row[kRowsAtOnce];
        float values[kRowsAtOnce][4];
#pragma unroll
        for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
            const uint32_t slot = first + i * kStep;
            const bool has_slot = slot < rows.num_slots;
            row[i] = has_slot ? rows[slot] : rows.num_rows;
            const float4 v = sums[(has_slot ? slot : 0) * kQuads + quad];
            values[i][0] = v.x, values[i][1] = v.y, values[i][2] = v.z, values[i][3] = v.w;
        }
        epilogue<float>(args, {0, rows.num_rows}, row, blockIdx.y * kChannels + quad * 4, values);
    }
}

template <uint32_t kChannels>
__device__ void exact(const Args& args) {
    extern __shared__ uint4 dynamic_shared[];
    __shared__ uint32_t num_pairs[kF32BatchTaps];
    const ExactShared<kChannels> shared(dynamic_shared, num_pairs, args.max_rows);
    auto* sums = reinterpret_cast<float4*>(shared.sums);
    const uint32_t num_rows = num_rows_of(args);
    const uint32_t num_groups = (num_rows + kF32Consecutive - 1) / kF32Consecutive;
    const uint32_t own = (num_groups + gridDim.x - 1 - blockIdx.x) / gridDim.x;
    const uint32_t num_passes = (own * kF32Consecutive + args.max_rows - 1) / args.max_rows;
    for (uint32_t pass = 0; pass < num_passes; ++pass) {
        const Range groups(0, own, pass, num_passes);
        const uint32_t num_slots = (groups.end - groups.begin) * kF32Consecutive;
        const ExactRows rows = {groups.begin, num_slots, num_rows};
        for (uint32_t i = threadIdx.x; i < num_slots * kChannels / 4; i += kF32Threads)
            sums[i] = {};
        for (uint32_t group = 0; group < args.num_groups; group += kF32Batch) {
            list_pairs(args, rows, group, shared);
            add_pairs(args, group * args.width, shared);
            __syncthreads();
        }
        write_rows<kChannels>(args, rows, sums);
        __syncthreads();
    }
}

}  // namespace sparse_conv
