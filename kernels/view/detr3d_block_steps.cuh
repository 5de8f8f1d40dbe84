// The steps of a block in their order: detr3d_block.cuh.
#pragma once

#include "shared/pdl.cuh"
#include "view/detr3d_block_layers.cuh"

namespace detr3d_block {

// A thread block of a cluster.
template <typename M, uint32_t kRows>
struct Block : Layers<kRows> {
    using Base = Layers<kRows>;
    using Base::args, Base::shared, Base::rank, Base::first_row, Base::inbox, Base::product;
    using Base::kColumns, Base::kStepThreads, Base::is_first, Base::is_last, Base::my_row,
        Base::my_column;
    using Base::normalize_row, Base::normalize_rows, Base::receive, Base::share;
    // Queries of this thread block when sampling, warps of a query, levels of a warp.
    static constexpr uint32_t kOwnQueries = kRows / kBlocks;
    static constexpr uint32_t kQueryWarps = kWarps / kOwnQueries;
    static constexpr uint32_t kLevels = view_sample::kMaxLevels / kQueryWarps;

    using Base::Base;

    // A name in a template of a base is not known to be a template.
    template <Step kStep>
    __device__ void prepare() {
        Base::template prepare<kStep>();
    }
    template <Step kStep, typename LoadNext>
    __device__ void run(const __half* input, uint32_t pitch, LoadNext load_next) {
        Base::template run<kStep>(input, pitch, load_next);
    }

    // A coordinate of the point of this warp's row: lane % 3.
    __device__ float my_coordinate() const {
        const uint32_t query = first_row + warp_of() % kRows;
        return args.points.data[3 * (query < args.num_queries ? query : 0) + lane_of() % 3];
    }
    // The first layer of the position encoder, normalized.
    __device__ void encode(float coordinate) const {
        const uint32_t r = warp_of();
        if (r >= kRows) return;
        coordinate = refine::inverse_sigmoid<__half>(coordinate);
        const float* weights = shared.encoder + lane_of() * row::kGroup;
        float rows[1][row::kGroup], w[row::kGroup];
        auto& values = rows[0];
        row::load(weights + 3 * kChannels, values);
#pragma unroll
        for (uint32_t i = 0; i < 3; ++i) {
            const float x = __shfl_sync(kAllLanes, coordinate, i);
            row::load(weights + i * kChannels, w);
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) values[k] = fmaf(x, w[k], values[k]);
        }
        const float* norms[] = {shared.norms[kEncoderInputNorm]};
        normalize(rows, norms, {true}, args.epsilon);
        row::store(values, shared.c + r * kPitch + lane_of() * row::kGroup);
    }

    __device__ void attend_queries() {
        const Attention attention = {args.queries, args.keys_values, args.num_queries,
                                     args.score_scale};
        const float4 v = attend<kRows>(attention, kHeads, rank * (kHeads / kBlocks), first_row,
                                       shared.parts, shared.of_parts);
        prepare<kAttend>();
        if (threadIdx.x < kStepThreads)
            share(shared.a + my_row() * kPitch + rank * kColumns + my_column(), v);
    }

    // Reads the first block's rows, which are the same in all frames.
    __device__ void read_attended() const {
        const uint32_t r = warp_of();
        if (r >= kRows) return;
        float v[row::kGroup] = {};
        if (first_row + r < args.num_queries)
            row::load(args.attended.data + (first_row + r) * kChannels + lane_of() * row::kGroup,
                      v);
        row::store(v, shared.b + r * kPitch + lane_of() * row::kGroup);
    }

    // Where this warp's query looks.
    __device__ Look<kLevels> look() const {
        Look<kLevels> look = {warp_of() % kQueryWarps * kLevels, {0, 0, false}, {}};
        const uint32_t query = first_row + rank * kOwnQueries + warp_of() / kQueryWarps;
        const view_sample::Maps& maps = args.maps;
        if (query >= args.num_queries || lane_of() >= maps.num_views) return look;
        float point[3];
#pragma unroll
        for (uint32_t i = 0; i < 3; ++i)
            point[i] = fmaf(args.points.data[3 * query + i], args.extent[i], args.low[i]);
#pragma unroll
        for (uint32_t l = 0; l < kLevels; ++l) {
            const uint32_t level = look.first_level + l;
            if (level < maps.num_levels)
                look.offsets[l] =
                    args.sample_offsets
                        .data[(query * maps.num_views + lane_of()) * maps.num_levels + level];
        }
        look.place = view_sample::place_of(maps, lane_of(), point);
        return look;
    }

    // Receives rows after the attention, and encoded points; normalizes them, samples, shares the
    // sums.
    __device__ void sample(const Look<kLevels>& look) {
        uint32_t seen = __ballot_sync(kAllLanes, look.place.is_seen);
        Gather<M, kLevels> gather;
        const auto load_next = [&] {
            if (seen != 0) gather.load(args, look, __ffs(seen) - 1);
        };
        load_next();
        receive(1);
        if constexpr (kRows == kWarps) {
            normalize_row({shared.b, shared.d}, warp_of(), {kAttentionNorm, kEncoderNorm},
                          {false, true});
        } else {
            static_assert(2 * kRows == kWarps);
            const bool is_attended = warp_of() < kRows;
            normalize_row({is_attended ? shared.b : shared.d}, warp_of() % kRows,
                          {is_attended ? kAttentionNorm : kEncoderNorm}, {!is_attended});
        }
        __syncthreads();
        float content[row::kGroup], sums[row::kGroup] = {};
        row::load(shared.b + (rank * kOwnQueries + warp_of() / kQueryWarps) * kPitch +
                      lane_of() * row::kGroup,
                  content);
#pragma unroll 1
        while (seen != 0) {
            gather.add_to(sums, args, look, __ffs(seen) - 1, content);
            seen &= seen - 1;
            load_next();
        }
        row::store(sums, shared.parts + warp_of() * kChannels + lane_of() * row::kGroup);
        prepare<kView>();
        __syncthreads();
        const uint32_t query = threadIdx.x / (kChannels / 4),
                       column = threadIdx.x % (kChannels / 4) * 4;
        if (query >= kOwnQueries) return;
        const float* of_warps = shared.parts + query * kQueryWarps * kChannels + column;
        float4 sum = load4(of_warps);
#pragma unroll
        for (uint32_t i = 1; i < kQueryWarps; ++i) sum = sum + load4(of_warps + i * kChannels);
        share(shared.a + (rank * kOwnQueries + query) * kPitch + column, sum);
    }

    // Begins to copy the normalizations to shared memory.
    __device__ void copy_norms() const {
#pragma unroll
        for (uint32_t n = 0; n < kNumNorms; ++n) {
            if (threadIdx.x < kChannels / 2 && args.norms[n].len != 0) {
                linear::copy_async(&shared.norms[n][threadIdx.x * 4],
                                   args.norms[n].data + threadIdx.x * 4);
            }
        }
    }

    __device__ void run() {
        if (threadIdx.x == 0) inbox.init();
        cluster::arrive();
        prepare<kEncode>();
        copy_norms();
        // The position encoder's weights of a channel: a row for each coordinate and the biases.
        float4 encoder = make_float4(0, 0, 0, 0);
        if (threadIdx.x < kChannels) encoder = load4(args.encoder.data + threadIdx.x * 4);
        // What follows depends on the launch before. All is loaded before any of it is used.
        pdl::trigger();
        pdl::wait();
        const float coordinate = my_coordinate();
        const Look<kLevels> look = this->look();
        if (threadIdx.x < kChannels) {
            float* to = shared.encoder + threadIdx.x;
            to[0] = encoder.x, to[kChannels] = encoder.y, to[2 * kChannels] = encoder.z,
            to[3 * kChannels] = encoder.w;
        }
        linear::wait_for_copies();
        __syncthreads();
        encode(coordinate);
        // The barriers of the other thread block exist.
        cluster::wait();
        __syncthreads();
        run<kEncode>(shared.c, kPitch, [] {});
        if (is_first()) {
            read_attended();
        } else {
            __syncthreads();
            attend_queries();
            receive(2);
            __syncthreads();
            run<kAttend>(shared.a, kPitch, [] {});
        }
        sample(look);
        receive(1);
        __syncthreads();
        run<kView>(shared.a, kPitch, [&] { prepare<kHide>(); });
        receive(1);
        normalize_rows(shared.c, kViewNorm, false);
        run<kHide>(shared.c, kPitch, [&] { prepare<kHideMore>(); });
        __syncthreads();
        run<kHideMore>(shared.c, kPitch, [&] { prepare<kFeed>(); });
        receive(2);
        run<kFeed>(shared.a, kHiddenPitch, [&] { prepare<kFeedMore>(); });
        __syncthreads();
        run<kFeedMore>(shared.a + kStepInputs, kHiddenPitch, [&] { prepare<kRegress>(); });
        receive(1);
        normalize_rows(shared.d, kFeedForwardNorm, false);
        if (is_last())
            finish_last_block();
        else
            finish_block();
    }

    // Moves the points; content, queries, keys and values of the next block.
    __device__ void finish_block() {
        const uint32_t r = warp_of();
        if (r / kOwnQueries == rank && r < kRows && first_row + r < args.num_queries) {
            const auto* from = reinterpret_cast<const uint4*>(shared.d + r * kPitch);
            reinterpret_cast<uint4*>(args.next_content.data +
                                     (first_row + r) * kChannels)[lane_of()] = from[lane_of()];
        }
        run<kRegress>(shared.d, kPitch, [&] { prepare<kQueries>(); });
        __syncthreads();
        run<kQueries>(shared.d, kPitch, [&] { prepare<kKeys>(); });
        __syncthreads();
        run<kKeys>(shared.d, kPitch, [&] { prepare<kValues>(); });
        __syncthreads();
        run<kValues>(shared.d, kPitch, [&] { prepare<kRegressMore>(); });
        receive(1);
        __syncthreads();
        run<kRegressMore>(shared.a, kPitch, [&] { prepare<kMove>(); });
        receive(1);
        if (rank == 0) run<kMove>(shared.c, kPitch, [] {});
    }

    // Boxes and classes.
    __device__ void finish_last_block() {
        run<kRegress>(shared.d, kPitch, [&] { prepare<kClassify>(); });
        __syncthreads();
        run<kClassify>(shared.d, kPitch, [&] { prepare<kRegressMore>(); });
        receive(2);
        normalize_rows(shared.b, kClassNorm, true);
        run<kRegressMore>(shared.a, kPitch, [&] { prepare<kClassifyMore>(); });
        __syncthreads();
        run<kClassifyMore>(shared.b, kPitch, [&] { prepare<kScore>(); });
        receive(2);
        normalize_rows(shared.d, kClassNorm + 1, true);
        if (rank == kBlocks - 1)
            run<kScore>(shared.d, kPitch, [&] { prepare<kMove>(); });
        else
            prepare<kMove>();
        __syncthreads();
        if (rank == 0) run<kMove>(shared.c, kPitch, [] {});
    }
};

}  // namespace detr3d_block
