// Attention of f16 with heads of up to 64 channels, by matrix instructions of warpgroups, as in
// FlashAttention: online softmax, and warpgroups that take turns (ping-pong). A block has 64
// queries of a head; its warpgroups divide the keys (split-K), each has every fourth tile of 64.
// Tiles are copied to shared memory two rounds ahead; the partial sums are merged at the end, as in
// attention.cuh.
#pragma once

#include "shared/pdl.cuh"
#include "shared/warpgroup.cuh"
#include "view/attention.cuh"

namespace attention {

constexpr uint32_t kWarpgroupThreads = 512;
constexpr uint32_t kWarpgroupQueries = 64;
constexpr uint32_t kWarpgroupBytes = 220160;
constexpr uint32_t kWarpgroups = kWarpgroupThreads / warpgroup::kThreads;
constexpr uint32_t kTileRows = 64;
constexpr uint32_t kTileAlignment = 1024;
// Keys and values of this many rounds are in shared memory at once.
constexpr uint32_t kRounds = 3;
// Of no score yet: below every score, and finite, so that its distance to itself is 0.
constexpr float kInitialMax = -1e30f;

#if HAS_WARPGROUPS

// Rows of 128 bytes: queries or keys by channels, or channels by keys. The quads of each 8 rows are
// in different banks, in an order that the matrix instructions know.
struct alignas(kTileAlignment) Tile {
    uint4 quads[kTileRows * 8];

    // What does not exist is zero. By `kThreads` threads.
    template <uint32_t kThreads>
    __device__ void copy(const __half* from, uint32_t stride, uint32_t num_rows,
                         uint32_t num_columns) {
        const uint32_t first = threadIdx.x % kThreads / 8, quad = threadIdx.x % 8;
        uint4* to = quads + first * 8 + (quad ^ first % 8);
        from += first * stride + quad * 8;
        const uint32_t rows = quad * 8 < num_columns ? num_rows : 0;
#pragma unroll
        for (uint32_t row = 0; row < kTileRows; row += kThreads / 8) {
            linear::copy_async(to + row * 8, from, first + row < rows);
            from += kThreads / 8 * stride;
        }
    }
    // Of all rows, 16 columns further on is 2 more.
    __device__ uint64_t descriptor() const {
        constexpr uint64_t kSwizzled = 1ull << 62;
        return warpgroup::matrix_descriptor(warpgroup::shared_address(quads), 16, 8 * 128) |
               kSwizzled;
    }
};

struct WarpgroupShared {
    Tile queries;
    union {
        struct {
            Tile keys, values;
            // More rows of values: of ones, of which the products are the totals, and of zeros.
            alignas(kTileAlignment) uint4 ones[8 * 8];
        } rounds[kRounds];
        float sums[kWarpgroupQueries * kTileRows];
    } partials[kWarpgroups];
    float2 row_max_sum[kWarpgroups][kWarpgroupQueries];  // maximum, total
};
static_assert(sizeof(WarpgroupShared) + kTileAlignment == kWarpgroupBytes);

// Sums of a thread: of the rows lane / 4 and + 8 of its warp's 16, of each 8 columns two.
#define ATTENTION_SUMS                                                                        \
    "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), \
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]),           \
        "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]),       \
        "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]),       \
        "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]),       \
        "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]),       \
        "+f"(sums[31])
#define ATTENTION_FIRST_SUMS                                           \
    " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17," \
    "%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
// The products of 64 rows and 64 columns, of 16 values each, or adds them.
__device__ inline void multiply(float (&sums)[32], uint64_t a, uint64_t b, uint32_t adds) {
    asm volatile(
        "{.reg .pred adds; setp.ne.b32 adds, %34, 0;"
        " wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16" ATTENTION_FIRST_SUMS
        "}, %32, %33, adds, 1, 1, 0, 0;}"
        : ATTENTION_SUMS
        : "l"(a), "l"(b), "r"(adds));
}
// Adds those of 72 columns.
__device__ inline void multiply(float (&sums)[36], const uint32_t (&a)[4], uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n72k16.f32.f16.f16" ATTENTION_FIRST_SUMS
                 ",%32,%33,%34,%35}, {%36,%37,%38,%39}, %40, 1, 1, 1, 0;"
                 : ATTENTION_SUMS, "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#undef ATTENTION_SUMS
#undef ATTENTION_FIRST_SUMS

struct Warpgroup {
    const Args<__half>& args;
    WarpgroupShared& shared;
    const uint32_t head, first_query;
    // The compiler knows that all lanes have the value of one.
    const uint32_t group = __shfl_sync(kAllLanes, threadIdx.x / warpgroup::kThreads, 0);
    const uint32_t num_rounds =
        (args.num_keys + kWarpgroups * kTileRows - 1) / (kWarpgroups * kTileRows);
    // The last four of 8 columns of which the first has the totals.
    float sums[36] = {};
    float row_max[2] = {kInitialMax, kInitialMax};

    __device__ Warpgroup(const Args<__half>& args, WarpgroupShared& shared, uint32_t head,
                         uint32_t first_query)
        : args(args), shared(shared), head(head), first_query(first_query) {}

    __device__ void sync() const {
        asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(warpgroup::kThreads) : "memory");
    }
    // Ping-pong, by a named barrier per warpgroup: warpgroups multiply in turn, so that products of
    // one run beside exponentials of the others. A turn ends when its products have been computed,
    // not when they have been issued.
    __device__ void ping_pong_wait() const {
        asm volatile("bar.sync %0, %1;" ::"r"(group + kWarpgroups + 1), "n"(2 * warpgroup::kThreads)
                     : "memory");
    }
    __device__ static void ping_pong_arrive(uint32_t group) {
        asm volatile("bar.arrive %0, %1;" ::"r"(group + kWarpgroups + 1),
                     "n"(2 * warpgroup::kThreads)
                     : "memory");
    }

    __device__ uint32_t first_key(uint32_t round) const {
        return (round * kWarpgroups + group) * kTileRows;
    }
    __device__ static uint32_t left_of(uint32_t num, uint32_t first) {
        return first < num ? num - first : 0;
    }
    __device__ auto& round_of(uint32_t i) const {
        return shared.partials[group].rounds[i % kRounds];
    }
    __device__ void copy_keys(uint32_t i) const {
        const uint32_t first = first_key(i);
        const __half* from =
            args.keys.data + static_cast<uint64_t>(first) * args.key_stride + head * args.head_len;
        round_of(i).keys.copy<warpgroup::kThreads>(from, args.key_stride,
                                                   left_of(args.num_keys, first), args.head_len);
    }
    __device__ void copy_values(uint32_t i) const {
        const uint32_t first = first_key(i);
        const __half* from = args.values.data +
                             static_cast<uint64_t>(head * args.head_len) * args.value_stride +
                             first;
        round_of(i).values.copy<warpgroup::kThreads>(from, args.value_stride, args.head_len,
                                                     left_of(args.value_stride, first));
    }
    __device__ static void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
    // A group also where no round is left.
    __device__ void copy_round(uint32_t i) const {
        if (i < num_rounds) {
            copy_keys(i);
            copy_values(i);
        }
        commit_copies();
    }
    __device__ static void wait_for_copies() {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        warpgroup::fence_proxy_async();
    }

    __device__ void add_tiles() {
        float scores[32] = {};
        uint32_t probs[4][4];
        copy_keys(0);
        shared.queries.copy<kWarpgroupThreads>(
            args.queries.data + static_cast<uint64_t>(first_query) * args.query_stride +
                head * args.head_len,
            args.query_stride, left_of(args.num_queries, first_query), args.head_len);
        commit_copies();
        copy_values(0);
        commit_copies();
        write_ones();
        if (group + 1 == kWarpgroups) ping_pong_arrive(0);
        wait_for_copies();
        __syncthreads();
        ping_pong_wait();
        warpgroup::wgmma_fence();
        multiply_keys(scores, 0);
        wait_for_accumulators(scores);
        ping_pong_arrive((group + 1) % kWarpgroups);
        copy_round(1);
#pragma unroll 1
        for (uint32_t i = 0;; ++i) {
            online_softmax(i, scores, probs);
            // Others of the warpgroup multiply by the values of the round before.
            if (i != 0 && i + 2 < num_rounds) sync();
            copy_round(i + 2);
            wait_for_copies();
            sync();
            ping_pong_wait();
            if (i + 1 == num_rounds) break;
            warpgroup::wgmma_fence();
            multiply_values(probs, i);
            multiply_keys(scores, i + 1);
            wait_for_accumulators(sums);
            wait_for_accumulators(scores);
            ping_pong_arrive((group + 1) % kWarpgroups);
        }
        warpgroup::wgmma_fence();
        multiply_values(probs, num_rounds - 1);
        if (group + 1 < kWarpgroups) ping_pong_arrive(group + 1);
        wait_for_accumulators(sums);
    }
    __device__ void write_ones() const {
        constexpr uint32_t kOnes = 0x3c003c00;
        const uint32_t at = threadIdx.x % warpgroup::kThreads, words = at < 8 ? kOnes : 0;
#pragma unroll
        for (uint32_t i = 0; i < kRounds; ++i) {
            if (at < 64)
                shared.partials[group].rounds[i].ones[at] = make_uint4(words, words, words, words);
        }
    }
    __device__ void multiply_keys(float (&scores)[32], uint32_t i) const {
        const uint64_t queries = shared.queries.descriptor(), keys = round_of(i).keys.descriptor();
#pragma unroll
        for (uint32_t s = 0; s < 4; ++s) multiply(scores, queries + 2 * s, keys + 2 * s, s != 0);
        warpgroup::wgmma_commit_group();
    }
    __device__ void multiply_values(const uint32_t (&probs)[4][4], uint32_t i) {
        const uint64_t values = round_of(i).values.descriptor();
#pragma unroll
        for (uint32_t s = 0; s < 4; ++s) multiply(sums, probs[s], values + 2 * s);
        warpgroup::wgmma_commit_group();
    }
    // Sums are read here and not before.
    template <uint32_t kNum>
    __device__ static void wait_for_accumulators(float (&of)[kNum]) {
        warpgroup::wgmma_wait_group<0>();
#pragma unroll
        for (uint32_t k = 0; k < kNum; ++k) asm volatile("" : "+f"(of[k])::"memory");
    }

    // Replaces scores by exponentials relative to the running row maximum, and rescales the sums.
    __device__ void online_softmax(uint32_t i, float (&scores)[32], uint32_t (&probs)[4][4]) {
        const uint32_t first = first_key(i);
        if (first + kTileRows > args.num_keys) {
#pragma unroll
            for (uint32_t k = 0; k < 32; ++k) {
                if (first + k / 4 * 8 + lane_of() % 4 * 2 + k % 2 >= args.num_keys)
                    scores[k] = -INFINITY;
            }
        }
        float rescale[2];
#pragma unroll
        for (uint32_t h = 0; h < 2; ++h) {
            float of[2] = {row_max[h], scores[2 * h]};
#pragma unroll
            for (uint32_t k = 2 * h; k < 32; k += 4)
                of[k / 4 % 2] = fmaxf(of[k / 4 % 2], fmaxf(scores[k], scores[k + 1]));
            float largest = fmaxf(of[0], of[1]);
            largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
            rescale[h] = exp2_fast((row_max[h] - largest) * args.scale);
            row_max[h] = largest;
        }
#pragma unroll
        for (uint32_t h = 0; h < 2; ++h) {
            const float shift = -row_max[h] * args.scale;
#pragma unroll
            for (uint32_t j = 0; j < 8; ++j) {
                const float a = exp2_fast(fmaf(scores[j * 4 + 2 * h], args.scale, shift));
                const float b = exp2_fast(fmaf(scores[j * 4 + 2 * h + 1], args.scale, shift));
                probs[j / 2][j % 2 * 2 + h] = row::pack(a, b);
            }
        }
        if (i == 0) return;
#pragma unroll
        for (uint32_t k = 0; k < 36; ++k) sums[k] *= rescale[k / 2 % 2];
    }

    // Rows of 64 sums; quads of neighbouring rows are in different banks.
    __device__ static uint32_t place_of(uint32_t query, uint32_t quad) {
        return query * 16 + (quad ^ (query % 2 * 4 | query % 4 / 2 * 2));
    }

    __device__ void run() {
        add_tiles();
        sync();
        float* to = shared.partials[group].sums;
#pragma unroll
        for (uint32_t h = 0; h < 2; ++h) {
            const uint32_t query = warp_of() % 4 * 16 + h * 8 + lane_of() / 4;
            if (lane_of() % 4 == 0)
                shared.row_max_sum[group][query] = make_float2(row_max[h], sums[32 + 2 * h]);
#pragma unroll
            for (uint32_t d = 0; d < 8; ++d) {
                *reinterpret_cast<float2*>(to + place_of(query, d * 2 + lane_of() % 4 / 2) * 4 +
                                           lane_of() % 2 * 2) =
                    make_float2(sums[d * 4 + 2 * h], sums[d * 4 + 2 * h + 1]);
            }
        }
        __syncthreads();
        store();
    }

    // Eight threads have a query.
    __device__ void store() const {
        const uint32_t query = threadIdx.x / 8, quad = threadIdx.x % 8;
        float largest = kInitialMax, all = 0, weights[kWarpgroups];
#pragma unroll
        for (uint32_t p = 0; p < kWarpgroups; ++p)
            largest = fmaxf(largest, shared.row_max_sum[p][query].x);
#pragma unroll
        for (uint32_t p = 0; p < kWarpgroups; ++p) {
            const float2 of = shared.row_max_sum[p][query];
            weights[p] = exp2_fast((of.x - largest) * args.scale);
            all += of.y * weights[p];
        }
        const float inverse = __fdividef(1.0f, all);
        if (first_query + query >= args.num_queries) return;
        __half* to = args.output.data +
                     static_cast<uint64_t>(first_query + query) * args.output_stride +
                     head * args.head_len;
#pragma unroll
        for (uint32_t i = 0; i < 16; i += 8) {
            float4 v = {};
#pragma unroll
            for (uint32_t p = 0; p < kWarpgroups; ++p) {
                const float4 of = reinterpret_cast<const float4*>(
                    shared.partials[p].sums)[place_of(query, quad + i)];
                v.x = fmaf(of.x, weights[p], v.x), v.y = fmaf(of.y, weights[p], v.y);
                v.z = fmaf(of.z, weights[p], v.z), v.w = fmaf(of.w, weights[p], v.w);
            }
            if ((quad + i) * 4 >= args.head_len) continue;
            row::store4(make_float4(v.x * inverse, v.y * inverse, v.z * inverse, v.w * inverse),
                        to + (quad + i) * 4);
        }
    }
};

#endif

}  // namespace attention
