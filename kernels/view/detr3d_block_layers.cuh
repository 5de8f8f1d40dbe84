// The layers of a block and what is added to them: detr3d_block.cuh.
#pragma once

#include "view/detr3d_block.cuh"

namespace detr3d_block {

__host__ __device__ constexpr uint32_t layer_of(Step step) {
    switch (step) {
        case kEncode: return kEncoderLayer;
        case kAttend: return kOutputLayer;
        case kView: return kViewLayer;
        case kHide:
        case kHideMore: return kHiddenLayer;
        case kFeed:
        case kFeedMore: return kFeedForwardLayer;
        case kQueries:
        case kKeys: return kQueriesKeysLayer;
        case kValues: return kValuesLayer;
        case kRegress: return kRegressionLayer;
        case kRegressMore: return kRegressionLayer + 1;
        case kMove: return kRegressionLayer + 2;
        case kClassify: return kClassLayer;
        case kClassifyMore: return kClassLayer + 1;
        default: return kClassLayer + 2;
    }
}
// The layers of a thread block of a cluster. Of a step a thread has 4 columns of a row.
template <uint32_t kRows>
struct Layers {
    using P = Product<kRows>;
    static constexpr uint32_t kColumns = P::kColumns;
    // Threads of a row, and of all rows.
    static constexpr uint32_t kRowThreads = kColumns / 4;
    static constexpr uint32_t kStepThreads = kRows * kRowThreads;
    static_assert(kStepThreads <= kThreads && kRows <= kWarps);

    const Args& args;
    Shared<kRows>& shared;
    uint32_t rank;
    uint32_t first_row;
    cluster::Inbox inbox;
    // Of the next step.
    P product;
    float4 bias;
    float4 residual;

    __device__ Layers(const Args& args, Shared<kRows>& shared)
        : args(args),
          shared(shared),
          rank(cluster::rank()),
          first_row(blockIdx.x / kBlocks * kRows),
          inbox(shared.inbox) {}

    __device__ bool is_first() const { return args.attended.len != 0; }
    __device__ bool is_last() const { return args.boxes.len != 0; }
    __device__ static uint32_t my_row() { return threadIdx.x / kRowThreads; }
    __device__ static uint32_t my_column() { return threadIdx.x % kRowThreads * 4; }
    __device__ uint32_t my_query() const { return first_row + my_row(); }
    __device__ bool has_row() const { return my_row() < kRows && my_query() < args.num_queries; }

    // Stores four values of this thread at the same place of both thread blocks: neighbouring
    // threads store 8 values together, each in one of the blocks.
    __device__ void share(__half* to, float4 v) const {
        const uint2 mine = make_uint2(row::pack(v.x, v.y), row::pack(v.z, v.w));
        const uint2 other = make_uint2(__shfl_xor_sync(kAllLanes, mine.x, 1),
                                       __shfl_xor_sync(kAllLanes, mine.y, 1));
        const uint32_t is_odd = lane_of() % 2;
        const uint4 words = is_odd ? make_uint4(other.x, other.y, mine.x, mine.y)
                                   : make_uint4(mine.x, mine.y, other.x, other.y);
        inbox.send(static_cast<uint32_t>(__cvta_generic_to_shared(to - 4 * is_odd)), is_odd, words);
    }
    // Waits for the rows of a number of buffers, which both thread blocks store.
    __device__ void receive(uint32_t num_buffers) {
        inbox.receive(num_buffers * kRows * kChannels * sizeof(__half));
    }

    // The first column of this thread block in a step's layer.
    template <Step kStep>
    __device__ uint32_t first_column() const {
        if constexpr (kStep == kMove || kStep == kScore) return 0;
        return rank * kColumns + (kStep == kKeys || kStep == kHideMore ? kChannels : 0);
    }

    // Loads a step's weights, and what it adds.
    template <Step kStep>
    __device__ void prepare() {
        constexpr bool is_second = kStep == kFeed || kStep == kFeedMore;
        const Layer& layer = args.layers[layer_of(kStep)];
        const uint32_t first = first_column<kStep>();
        Columns columns = {layer.weights.data, is_second ? kHidden : kChannels,
                           kStep == kFeedMore ? kStepInputs : 0, first / linear::kWarpColumns,
                           P::kGroups};
        if constexpr (kStep == kMove) columns.num_groups = 1;
        if constexpr (kStep == kScore)
            columns.num_groups =
                (args.num_classes + linear::kWarpColumns - 1) / linear::kWarpColumns;
        if constexpr (kStep == kValues) {
            // A thread has a column of 8 rows.
            bias.x = layer.bias.data[first + threadIdx.x % kColumns];
        } else if constexpr (kStep != kFeedMore) {
            bias = make_float4(0, 0, 0, 0);
            if (first + my_column() < layer.bias.len)
                bias = load4(layer.bias.data + first + my_column());
        }
        if constexpr (kStep == kAttend || kStep == kQueries || kStep == kKeys) {
            constexpr uint32_t kStride = kStep == kAttend ? kChannels : 2 * kChannels;
            const __half* rows = kStep == kAttend ? args.content.data : args.offsets.data;
            residual = make_float4(0, 0, 0, 0);
            if (has_row()) residual = load4(rows + my_query() * kStride + first + my_column());
        }
        product.load(P::place_of(columns));
    }

    // The warps' sums of a step. Steps with nothing but a receive between them have different
    // places, so that the second stores nothing that a thread of the first may still read.
    template <Step kStep>
    __device__ float* parts() const {
        static_assert(2 * P::kParts * P::kPartLen <= sizeof(shared.parts) / sizeof(float));
        return shared.parts + (kStep == kFeed || kStep == kMove ? P::kParts * P::kPartLen : 0);
    }

    // Multiplies rows; `load_next` prepares the next step.
    template <Step kStep, typename LoadNext>
    __device__ void run(const __half* input, uint32_t pitch, LoadNext load_next) {
        const float4 of_step = bias, rows = residual;
        product.multiply(input, pitch, parts<kStep>(), load_next);
        __syncthreads();
        finish<kStep>(of_step, rows);
    }

    __device__ float4 sum_of(const float* parts) const {
        const float* part = parts + my_row() * P::kSumPitch + my_column();
        float4 v = load4(part);
#pragma unroll
        for (uint32_t p = 1; p < P::kParts; ++p) v = v + load4(part + p * P::kPartLen);
        return v;
    }

    // Adds the parts of the sums, and what else a step adds, and stores the result.
    template <Step kStep>
    __device__ void finish(float4 of_step, float4 rows) {
        if constexpr (kStep == kValues) return store_values(of_step.x);
        if (threadIdx.x >= kStepThreads) return;
        const uint32_t column = first_column<kStep>() + my_column(),
                       place = my_row() * kPitch + column;
        float4 v = sum_of(parts<kStep>()) + of_step;
        const auto relu = [&] {
            v = make_float4(row::relu(v.x), row::relu(v.y), row::relu(v.z), row::relu(v.w));
        };
        if constexpr (kStep == kEncode || kStep == kClassifyMore) {
            share(shared.d + place, v);
        } else if constexpr (kStep == kAttend) {
            v = v + rows;
            if (args.positions.len != 0 && has_row())
                v = v + load4(args.positions.data + my_query() * kChannels + column);
            share(shared.b + place, v);
        } else if constexpr (kStep == kView) {
            share(shared.c + place, v + load4(shared.b + place) + load4(shared.d + place));
        } else if constexpr (kStep == kHide || kStep == kHideMore) {
            relu();
            share(shared.a + my_row() * kHiddenPitch + column, v);
        } else if constexpr (kStep == kFeed) {
            // The second half of the inputs follows.
            bias = v;
        } else if constexpr (kStep == kFeedMore) {
            v = v + load4(shared.c + place);
            if (args.output.len != 0 && has_row())
                row::store4(v, args.output.data + my_query() * kChannels + column);
            share(shared.d + place, v);
        } else if constexpr (kStep == kRegress || kStep == kRegressMore) {
            relu();
            share((kStep == kRegress ? shared.a : shared.c) + place, v);
        } else if constexpr (kStep == kClassify) {
            share(shared.b + place, v);
        } else if constexpr (kStep == kQueries) {
            if (has_row())
                row::store4(v + rows, args.next_queries.data + my_query() * kChannels + column);
        } else if constexpr (kStep == kKeys) {
            const uint32_t channel = column - kChannels;
            __half* to = next_tile(my_query(), channel / kHeadLen) +
                         row_of_key(my_query() % kTileKeys) * kHeadLen;
            if (has_row()) row::store4(v + rows, to + channel % kHeadLen);
        } else if constexpr (kStep == kMove) {
            move(v);
        } else {
            const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) {
                if (has_row() && column + i < args.num_classes)
                    args.logits.data[my_query() * args.num_classes + column + i] = values[i];
            }
        }
    }

    // The keys of a head among which a query is.
    __device__ __half* next_tile(uint32_t query, uint32_t head) const {
        return args.next_keys_values.data + (query / kTileKeys * kHeads + head) * kHeadTileLen;
    }

    // Stores the values: a column of 8 rows a thread.
    __device__ void store_values(float bias) const {
        const uint32_t column = threadIdx.x % kColumns, first = threadIdx.x / kColumns * 8;
        if (first >= kRows) return;
        float v[row::kGroup];
#pragma unroll
        for (uint32_t r = 0; r < row::kGroup; ++r) {
            const float* part = shared.parts + (first + r) * P::kSumPitch + column;
            v[r] = part[0];
#pragma unroll
            for (uint32_t p = 1; p < P::kParts; ++p) v[r] += part[p * P::kPartLen];
            v[r] += bias;
        }
        const uint32_t channel = first_column<kValues>() + column, query = first_row + first;
        row::store(v, next_tile(query, channel / kHeadLen) + kHeadKeysLen +
                          channel % kHeadLen * kTileKeys + query % kTileKeys);
    }

    // Moves the point of a row; of the last block, stores the box.
    __device__ void move(float4 v) const {
        if (!has_row() || my_column() >= kBoxLen) return;
        const uint32_t query = my_query();
        float values[4] = {v.x, v.y, v.z, v.w};
        if (my_column() == 0) {
#pragma unroll
            for (uint32_t i = 0; i < 3; ++i) {
                values[i] = refine::sigmoid_as<__half>(
                    values[i] + refine::inverse_sigmoid<__half>(args.points.data[3 * query + i]));
                if (!is_last()) args.moved.data[3 * query + i] = values[i];
                values[i] = fmaf(values[i], args.extent[i], args.low[i]);
            }
        }
        if (!is_last()) return;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            // The last value of a box is no output of the layer.
            if (my_column() + i + 1 < kBoxLen)
                args.boxes.data[query * kBoxLen + my_column() + i] = values[i];
        }
    }

    // Normalizes a row of each of some buffers, by a warp.
    template <uint32_t kNum>
    __device__ void normalize_row(__half* const (&buffers)[kNum], uint32_t r,
                                  const uint32_t (&norms)[kNum],
                                  const bool (&has_relu)[kNum]) const {
        const uint32_t place = r * kPitch + lane_of() * row::kGroup;
        float values[kNum][row::kGroup];
        const float* of_rows[kNum];
#pragma unroll
        for (uint32_t n = 0; n < kNum; ++n) {
            row::load(buffers[n] + place, values[n]);
            of_rows[n] = shared.norms[norms[n]];
        }
        normalize(values, of_rows, has_relu, args.epsilon);
#pragma unroll
        for (uint32_t n = 0; n < kNum; ++n) row::store(values[n], buffers[n] + place);
    }
    // Normalizes the rows of a buffer, then synchronizes.
    __device__ void normalize_rows(__half* rows, uint32_t norm, bool has_relu) const {
        if (warp_of() < kRows) normalize_row({rows}, warp_of(), {norm}, {has_relu});
        __syncthreads();
    }
};

}  // namespace detr3d_block
