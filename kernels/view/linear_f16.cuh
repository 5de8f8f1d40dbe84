// Linear layers in f16 for few rows, by matrix instructions of warpgroups: warp-specialized, with
// all stages of the mainloop in shared memory at once. A block has 64 rows and 64 or 128 columns.
// The producer warp loads the weights by bulk copies (TMA without a tensor map) while the launch
// before still runs; two consumer warpgroups copy the rows by cp.async and have half of the columns
// each. Rows arrive by chunks of 64 inputs, swizzled by 128 bytes; weights by 256 inputs.
//
// A layer normalization of the first part is taken through the layer: with gamma in the weights and
// beta in the bias, a row needs scale (x W) - mean scale (column sums of W) + bias. Four more warps
// compute mean and scale of the rows in shared memory, while products run: E[x^2] - mean^2, which
// loses digits where a mean is far from zero, against the deviation.
//
// Split-K: two blocks of a cluster can divide the inputs; each then reduces and stores half of the
// columns. Back-to-back GEMM: a block of 128 columns can compute the same columns of a second
// layer, whose inputs are the first part of its own.
//
// Limits: inputs a multiple of 16 and at most 1024 of a block, parts multiples of 8; a normalized
// part a multiple of 64, not with divided inputs; those a multiple of 128. ReLU between
// normalization and layer, residuals and encoded or moved points are for linear.cuh.
#pragma once

#include "view/linear_f16_inputs.cuh"

namespace linear_f16 {

#if HAS_WARPGROUPS
// Adds the products of 64 rows and 16 inputs with 32 or 64 columns.
#define SUMS_8(i)                                                                              \
    "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), \
        "+f"(sums[i + 5]), "+f"(sums[i + 6]), "+f"(sums[i + 7])
__device__ inline void multiply(float (&sums)[16], uint64_t rows, uint64_t weights) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16"
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, 1, 1, 1, 0, 0;"
        : SUMS_8(0), SUMS_8(8)
        : "l"(rows), "l"(weights));
}
__device__ inline void multiply(float (&sums)[32], uint64_t rows, uint64_t weights) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
        "%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, 0, 0;"
        : SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24)
        : "l"(rows), "l"(weights));
}
#undef SUMS_8

// Exchanges words between four lanes: each has one word of each of four, and gets those of its
// number.
__device__ inline uint4 exchange(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    const bool is_odd = lane_of() % 2 != 0, is_upper = lane_of() % 4 / 2 != 0;
    const uint32_t ab = __shfl_xor_sync(kAllLanes, is_odd ? a : b, 1),
                   cd = __shfl_xor_sync(kAllLanes, is_odd ? c : d, 1);
    (is_odd ? a : b) = ab, (is_odd ? c : d) = cd;
    const uint32_t ac = __shfl_xor_sync(kAllLanes, is_upper ? a : c, 2),
                   bd = __shfl_xor_sync(kAllLanes, is_upper ? b : d, 2);
    (is_upper ? a : c) = ac, (is_upper ? b : d) = bd;
    return make_uint4(a, b, c, d);
}

// The compiler would divide it into words.
__device__ inline void store_quad(__half* to, uint4 v) {
    asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

// A warpgroup has `kGroups` times 8 columns.
template <uint32_t kGroups, uint32_t kSplitK>
struct Block : Inputs<kGroups, kSplitK> {
    using Base = Inputs<kGroups, kSplitK>;
    using Base::Base, Base::kColumns, Base::group, Base::job, Base::layout, Base::num_chunks,
        Base::norm_chunks, Base::num_inputs;
    using Base::first_column, Base::first_row, Base::rank, Base::row_barriers, Base::rows,
        Base::weight_barriers, Base::weights;
    // Groups of columns that a warpgroup of this block stores.
    static constexpr uint32_t kOwn = kGroups / kSplitK;
    static_assert(kOwn * kSplitK == kGroups && kOwn % 2 == 0);
    using Sums = float[4 * kGroups];

    // Adds the products of a chunk; `layer`: 1 for the second.
    __device__ void multiply_chunk(Sums& sums, uint32_t chunk, uint32_t layer = 0) const {
        constexpr uint64_t kSwizzled = 1ull << 62;
        const uint64_t a =
            warpgroup::matrix_descriptor(rows + chunk * kTileBytes, 16, 8 * 128) | kSwizzled;
        const uint32_t weights_at =
            weights + group * kGroups * num_inputs * 16 + chunk * kChunkInputs * 16;
        const uint64_t b = warpgroup::matrix_descriptor(weights_at, 128, num_inputs * 16);
        barrier::wait_parity(row_barriers + chunk * 8, 0);
        if (chunk % kWeightChunks == 0)
            barrier::wait_parity(weight_barriers + chunk / kWeightChunks * 8, layer);
        // Rows were copied by other threads.
        warpgroup::fence_proxy_async();
        warpgroup::wgmma_fence();
        const uint32_t left = num_inputs - chunk * kChunkInputs;
        if (left >= kChunkInputs) {
#pragma unroll
            for (uint32_t i = 0; i < kChunkInputs / 16; ++i) multiply(sums, a + 2 * i, b + 16 * i);
        } else {
#pragma unroll 1
            for (uint32_t i = 0; i < left / 16; ++i) multiply(sums, a + 2 * i, b + 16 * i);
        }
        warpgroup::wgmma_commit_group();
    }

    // The compiler reads and writes the accumulators here, not while products are pending.
    __device__ static void fence_accumulators(Sums& sums) {
#pragma unroll
        for (uint32_t k = 0; k < 4 * kGroups; ++k) asm volatile("" : "+f"(sums[k])::"memory");
    }

    // The producer warp.
    __device__ void run_producer() const {
        if constexpr (kSplitK != 1) cluster::arrive();
        this->load_weights();
        if constexpr (kSplitK != 1) cluster::wait();
    }

    // The consumer warpgroups: mainloop and epilogue.
    __device__ void run_consumer() {
        if constexpr (kSplitK != 1) cluster::arrive();
        this->copy_constants();
        pdl::wait();
        this->copy_rows();
        Sums of_norm = {}, sums = {};
        // Zero from here on, not from the first product on.
        fence_accumulators(of_norm), fence_accumulators(sums);
        uint32_t chunk = 0;
#pragma unroll 1
        for (; chunk < norm_chunks; ++chunk) multiply_chunk(of_norm, chunk);
        if constexpr (Base::kFusesSecondLayer) {
            if (this->has_second()) {
#pragma unroll 1
                for (; chunk <= kWeightChunks; ++chunk) multiply_chunk(sums, chunk);
                // The first chunks are multiplied: the weights of the second layer can replace
                // theirs.
                warpgroup::wgmma_wait_group<1>();
                if (lane_of() == 0) barrier::arrive(this->empty_barrier);
            }
        }
#pragma unroll 1
        for (; chunk < num_chunks; ++chunk) multiply_chunk(sums, chunk);
        warpgroup::wgmma_wait_group<0>();
        fence_accumulators(of_norm);
        fence_accumulators(sums);
        if constexpr (kSplitK != 1) {
            float own[4 * kOwn];
            reduce_split_k(own, sums);
            epilogue(own, rank * kOwn, job, layout.bias);
        } else {
            if (norm_chunks != 0) {
                this->wait_for_scales();
                add_normalized(sums, of_norm);
            }
            epilogue(sums, 0, job, layout.bias);
            if constexpr (Base::kFusesSecondLayer) {
                if (this->has_second()) run_second(sums);
            }
        }
    }

    // The same columns of the second layer, from the rows that are there.
    __device__ void run_second(Sums& sums) const {
#pragma unroll
        for (uint32_t k = 0; k < 4 * kGroups; ++k) sums[k] = 0;
        fence_accumulators(sums);
#pragma unroll 1
        for (uint32_t chunk = 0; chunk < this->second.parts[0].len / kChunkInputs; ++chunk)
            multiply_chunk(sums, chunk, 1);
        warpgroup::wgmma_wait_group<0>();
        fence_accumulators(sums);
        epilogue(sums, 0, this->second, layout.sums);
    }

    // The row of a thread's first two sums of a group; the others are of the eighth row after it.
    __device__ static uint32_t row_of_thread() {
        return threadIdx.x % warpgroup::kThreads / kLanes * 16 + lane_of() / 4;
    }
    // The first column of this thread in a group.
    __device__ uint32_t column_of(uint32_t g) const {
        return (group * kGroups + g) * row::kGroup + lane_of() % 4 * 2;
    }

    __device__ void add_normalized(Sums& sums, const Sums& of_norm) const {
        const float2 of_rows[2] = {this->scale_of(row_of_thread()),
                                   this->scale_of(row_of_thread() + 8)};
#pragma unroll
        for (uint32_t g = 0; g < kGroups; ++g) {
            const float2 of_weights =
                *this->template at<const float2>(layout.sums + column_of(g) * 4);
#pragma unroll
            for (uint32_t h = 0; h < 2; ++h) {
                const uint32_t k = g * 4 + h * 2;
                sums[k] += fmaf(of_norm[k], of_rows[h].x, of_rows[h].y * of_weights.x);
                sums[k + 1] += fmaf(of_norm[k + 1], of_rows[h].x, of_rows[h].y * of_weights.y);
            }
        }
    }

    // Sends the partial sums of the columns that other blocks store, and adds those of this
    // block's columns in the order of the inputs.
    __device__ void reduce_split_k(float (&own)[4 * kOwn], const Sums& sums) const {
        const uint32_t inbox = rows + layout.inbox, barrier = this->inbox_barrier;
        constexpr uint32_t kFromBlock = kOwn * kThreads * 16;
        if (threadIdx.x == 0) {
            barrier::arrive_expect_tx(barrier, (kSplitK - 1) * kFromBlock);
        }
        // All blocks have begun and set their barriers.
        cluster::wait();
#pragma unroll
        for (uint32_t to = 0; to < kSplitK; ++to) {
            // Chosen without a branch: with one the compiler puts the sums into local memory.
#pragma unroll
            for (uint32_t k = 0; k < 4 * kOwn; ++k)
                own[k] = to == 0 || to == rank ? sums[to * 4 * kOwn + k] : own[k];
            if (to == rank) continue;
            // A block's inbox has no place for itself.
            const uint32_t mine =
                inbox + (rank < to ? rank : rank - 1) * kFromBlock + threadIdx.x * 16;
            uint32_t place, signal;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(place) : "r"(mine), "r"(to));
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                         : "=r"(signal)
                         : "r"(barrier), "r"(to));
#pragma unroll
            for (uint32_t g = 0; g < kOwn; ++g) {
                const float* v = sums + (to * kOwn + g) * 4;
                asm volatile(
                    "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
                    " [%0], {%1,%2,%3,%4}, [%5];" ::"r"(place + g * kThreads * 16),
                    "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(signal)
                    : "memory");
            }
        }
        barrier::wait_parity(barrier, 0);
        const auto* from = this->template after_rows<const float4>(layout.inbox) + threadIdx.x;
#pragma unroll
        for (uint32_t g = 0; g < kOwn; ++g) {
            float4 all = {};
#pragma unroll
            for (uint32_t s = 0; s < kSplitK; ++s) {
                float4 v = make_float4(own[4 * g], own[4 * g + 1], own[4 * g + 2], own[4 * g + 3]);
                if (s != rank) v = from[((s < rank ? s : s - 1) * kOwn + g) * kThreads];
                all.x += v.x, all.y += v.y, all.z += v.z, all.w += v.w;
            }
            own[4 * g] = all.x, own[4 * g + 1] = all.y, own[4 * g + 2] = all.z,
                    own[4 * g + 3] = all.w;
        }
    }

    // The epilogue: adds the bias of a layer and stores, from a group of the warpgroup on.
    template <uint32_t kNum>
    __device__ void epilogue(float (&sums)[kNum], uint32_t first_group, const Job& of,
                             uint32_t bias_at) const {
        constexpr uint32_t kStored = kNum / 4;
        const bool has_relu = of.has_relu;
        uint32_t words[kStored][2];
#pragma unroll
        for (uint32_t g = 0; g < kStored; ++g) {
            const float2 bias =
                *this->template at<const float2>(bias_at + column_of(first_group + g) * 4);
#pragma unroll
            for (uint32_t h = 0; h < 2; ++h) {
                float &x = sums[4 * g + 2 * h], &y = sums[4 * g + 2 * h + 1];
                x += bias.x, y += bias.y;
                if (has_relu) x = row::relu(x), y = row::relu(y);
                words[g][h] = row::pack(x, y);
            }
        }
        if (of.is_transposed)
            store_transposed(words, first_group, of);
        else if (of.output.len != 0)
            store_rows(words, first_group, of);
        else
            store_values(sums, first_group, of);
    }

    template <uint32_t kStored>
    __device__ void store_rows(const uint32_t (&words)[kStored][2], uint32_t first_group,
                               const Job& of) const {
        const uint32_t r = first_row + row_of_thread(), q = lane_of() % 4;
        const uint32_t first = first_column + (group * kGroups + first_group) * row::kGroup;
        // 16 columns: a lane gets 8 of them of one row.
        const uint32_t row = r + q / 2 * 8;
        __half* to = of.output.data + static_cast<uint64_t>(row) * of.output_stride + first +
                     q % 2 * row::kGroup;
#pragma unroll
        for (uint32_t g = 0; g < kStored; g += 2) {
            const uint4 v = exchange(words[g][0], words[g + 1][0], words[g][1], words[g + 1][1]);
            if (row < of.num_rows && first + g * row::kGroup < of.num_outputs)
                store_quad(to + g * row::kGroup, v);
        }
    }

    // A row per column; rows are stored up to a multiple of 16.
    template <uint32_t kStored>
    __device__ void store_transposed(uint32_t (&words)[kStored][2], uint32_t first_group,
                                     const Job& of) const {
        const uint32_t first = first_row + row_of_thread() / 16 * 16, q = lane_of() % 4;
        const uint32_t column =
            first_column + (group * kGroups + first_group) * row::kGroup + lane_of() / 4;
#pragma unroll
        for (uint32_t g = 0; g < kStored; ++g) {
#pragma unroll
            for (uint32_t h = 0; h < 2; ++h) {
                asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(words[g][h]));
            }
        }
        __half* to = of.output.data + static_cast<uint64_t>(column + q / 2 * 8) * of.output_stride +
                     first + q % 2 * 8;
#pragma unroll
        for (uint32_t g = 0; g < kStored; g += 2) {
            const uint4 v = exchange(words[g][0], words[g][1], words[g + 1][0], words[g + 1][1]);
            if (first < of.num_rows && column + g * row::kGroup < of.num_outputs) {
                store_quad(to + static_cast<uint64_t>(g * row::kGroup) * of.output_stride, v);
            }
        }
    }

    template <uint32_t kNum>
    __device__ void store_values(const float (&sums)[kNum], uint32_t first_group,
                                 const Job& of) const {
#pragma unroll
        for (uint32_t k = 0; k < kNum; ++k) {
            const uint32_t row = first_row + row_of_thread() + k % 4 / 2 * 8;
            const uint32_t column = first_column + column_of(first_group + k / 4) + k % 2;
            if (row >= of.num_rows || column >= of.num_values) continue;
            of.values.data[static_cast<uint64_t>(row) * of.values_stride + column] = sums[k];
        }
    }
};

template <uint32_t kGroups, uint32_t kSplitK>
__device__ void compute(const Args& args, uint8_t* shared) {
    using B = Block<kGroups, kSplitK>;
    pdl::trigger();
    // Needs no parameters, which take a while to arrive.
    const uint32_t warp = __shfl_sync(kAllLanes, threadIdx.x / kLanes, 0);
    if (threadIdx.x == kThreads) B::init_barriers(shared);
    __syncthreads();
    uint32_t job = 0, first = 0;
#pragma unroll
    for (uint32_t i = 0; i + 1 < linear::kMaxJobs; ++i) {
        if (i + 1 < args.num_jobs && blockIdx.y >= args.end_blocks[i])
            job = i + 1, first = args.end_blocks[i];
    }
    const uint32_t row_block = blockIdx.x / kSplitK, rank = blockIdx.x % kSplitK;
    // Blocks of jobs with fewer rows than others.
    if (row_block * kRows >= args.jobs[job].num_rows) return;
    const uint32_t second = args.jobs[job].second;
    B block(args.jobs[job], args.jobs[second == 0 ? job : second], row_block, blockIdx.y - first,
            rank, shared);
    if (warp < kThreads / kLanes)
        block.run_consumer();
    else if (warp == kThreads / kLanes)
        block.run_producer();
    else
        block.run_norm();
}
#endif

}  // namespace linear_f16
