// The inputs of a block of linear layers in f16 in shared memory, and what is computed of its rows
// before the layers: linear_f16.cuh.
#pragma once

#include "shared/cluster.cuh"
#include "shared/pdl.cuh"
#include "shared/warpgroup.cuh"
#include "view/linear.cuh"

namespace linear_f16 {

// Rows of a block.
constexpr uint32_t kRows = 64;
// Two consumer warpgroups multiply; a producer warp loads the weights. In launches with a
// normalization, four more warps compute mean and scale of the rows.
constexpr uint32_t kThreads = 2 * warpgroup::kThreads;
constexpr uint32_t kPlainThreads = 288;
constexpr uint32_t kAllThreads = 416;
constexpr uint32_t kNormThreads = kAllThreads - kPlainThreads;
static_assert(kPlainThreads == kThreads + kLanes && kNormThreads == kRows / 16 * kLanes);
// Inputs of which rows arrive together: 128 bytes of a row.
constexpr uint32_t kChunkInputs = 64;
constexpr uint32_t kTileBytes = kRows * kChunkInputs * 2;
constexpr uint32_t kMaxChunks = 16;
// Chunks of which weights arrive together.
constexpr uint32_t kWeightChunks = 4;
constexpr uint32_t kMaxParts = 4;
constexpr uint32_t kAlignment = 1024;

// output = relu?([normalized first part, others] W + bias)
struct Job {
    linear::Part<__half> parts[kMaxParts];  // the input: side by side; the first can be normalized
    // Of 8 outputs after each other, of 8 inputs: those of the first part times gamma.
    Slice<const uint8_t> weights;
    Slice<const float> bias;  // with beta through the weights; padded to 16
    // Of the outputs' weights of the first part, as rounded; empty: it is not normalized.
    Slice<const float> sums;
    Slice<const float> norm;   // gamma, beta: for the next
    Slice<__half> normalized;  // where the normalized first part is stored; empty: nowhere
    Slice<__half> output;      // empty: what follows
    Slice<float> values;       // outputs in f32
    uint32_t normalized_stride;
    uint32_t output_stride;
    uint32_t values_stride;
    uint32_t num_values;  // of a row
    uint32_t num_rows;
    uint32_t num_outputs;  // padded to 16
    uint32_t has_relu;
    uint32_t is_transposed;  // the output has a row per column
    float epsilon;
    uint32_t second;  // the job whose columns a block computes after its own; 0: none
};

struct Args {
    uint32_t num_jobs;
    uint32_t end_blocks[linear::kMaxJobs];  // column blocks of the jobs up to this one
    uint32_t reserved;
    Job jobs[linear::kMaxJobs];
};

__host__ __device__ constexpr uint32_t num_chunks_of(uint32_t num_inputs) {
    return (num_inputs + kChunkInputs - 1) / kChunkInputs;
}

// A block's shared memory, in bytes from its start: barriers, the bias, sums of weights, scales of
// the rows, gamma and beta; then, from a multiple of 1024 on, rows by chunks, weights, sums from
// other blocks.
struct Layout {
    // `sums`: or the bias of a second layer.
    uint32_t bias, sums, scales, norm, rows, weights, inbox, end;

    // `num_inputs`: of the block; `inbox_len`: sums of a row that come from others.
    __host__ __device__ Layout(uint32_t num_columns, uint32_t inbox_len, uint32_t num_inputs,
                               uint32_t norm_len) {
        bias = 256;
        sums = bias + num_columns * 4;
        scales = sums + num_columns * 4;
        norm = scales + kRows * 8;
        rows = norm + norm_len * 4;
        weights = num_chunks_of(num_inputs) * kTileBytes;
        inbox = weights + num_columns * num_inputs * 2;
        end = rows + kAlignment + inbox + kRows * inbox_len * 4;
    }
};

#if HAS_WARPGROUPS
// The warpgroups have `kGroups` times 8 columns each. `kSplitK` blocks of a cluster have a part of
// the inputs each, of the same length, since they store into each other's shared memory: the inputs
// are a multiple of 64 `kSplitK`.
template <uint32_t kGroups, uint32_t kSplitK>
struct Inputs {
    static constexpr uint32_t kColumns = 2 * kGroups * row::kGroup;
    static constexpr uint32_t kInbox = kColumns / kSplitK * (kSplitK - 1);
    // Blocks of 128 columns can compute a second layer.
    static constexpr bool kFusesSecondLayer = kColumns == 128 && kSplitK == 1;

    const Job& job;
    const uint32_t first_row, first_column, rank;
    const uint32_t all_inputs, first_input, num_inputs, num_chunks;
    // Of the normalized part.
    const uint32_t norm_chunks;
    const Layout layout;
    uint8_t* const shared;
    // Without a second layer, the first.
    const Job& second;
    const uint32_t row_barriers, weight_barriers, inbox_barrier, empty_barrier;
    const uint32_t rows, weights;
    // The compiler knows that all lanes have the value of one.
    const uint32_t group = __shfl_sync(kAllLanes, threadIdx.x / warpgroup::kThreads, 0);

    __device__ Inputs(const Job& job, const Job& second, uint32_t row_block, uint32_t column_block,
                      uint32_t rank, uint8_t* shared)
        : job(job),
          first_row(row_block * kRows),
          first_column(column_block * kColumns),
          rank(rank),
          all_inputs(job.parts[0].len + job.parts[1].len + job.parts[2].len + job.parts[3].len),
          first_input(kSplitK == 1 ? 0 : num_chunks_of(all_inputs) * rank / kSplitK * kChunkInputs),
          num_inputs(kSplitK == 1 ? all_inputs
                                  : min(all_inputs, num_chunks_of(all_inputs) * (rank + 1) /
                                                        kSplitK * kChunkInputs) -
                                        first_input),
          num_chunks(num_chunks_of(num_inputs)),
          norm_chunks(kSplitK == 1 && job.sums.len != 0 ? job.parts[0].len / kChunkInputs : 0),
          layout(kColumns, kInbox, num_inputs, static_cast<uint32_t>(job.norm.len)),
          shared(shared),
          second(second),
          row_barriers(warpgroup::shared_address(shared)),
          weight_barriers(row_barriers + kMaxChunks * 8),
          inbox_barrier(weight_barriers + kMaxChunks / kWeightChunks * 8),
          empty_barrier(inbox_barrier + 8),
          rows((row_barriers + layout.rows + kAlignment - 1) / kAlignment * kAlignment),
          weights(rows + layout.weights) {}

    __device__ bool has_second() const { return kFusesSecondLayer && &second != &job; }

    template <typename T>
    __device__ T* at(uint32_t offset) const {
        return reinterpret_cast<T*>(shared + offset);
    }
    // The same from the first row on.
    template <typename T>
    __device__ T* after_rows(uint32_t offset) const {
        return reinterpret_cast<T*>(shared + (rows - row_barriers) + offset);
    }

    // By one thread; `shared`: of the block.
    __device__ static void init_barriers(const uint8_t* shared) {
        const uint32_t barriers = warpgroup::shared_address(shared);
#pragma unroll
        for (uint32_t i = 0; i < kMaxChunks + kMaxChunks / kWeightChunks + 1; ++i) {
            barrier::init(barriers + i * 8, i < kMaxChunks ? kThreads : 1);
        }
        barrier::init(barriers + (kMaxChunks + kMaxChunks / kWeightChunks + 1) * 8,
                      kThreads / kLanes);
        barrier::fence_init();
    }

    // Loads the weights: a lane for each 8 columns. The weights of a second layer replace those of
    // the first 256 inputs once products no longer read these.
    __device__ void load_weights() const {
        load_weights(job, all_inputs, num_inputs);
        if constexpr (kFusesSecondLayer) {
            if (!has_second()) return;
            barrier::wait_parity(empty_barrier, 0);
            load_weights(second, second.parts[0].len, second.parts[0].len);
        }
    }
    __device__ void load_weights(const Job& of, uint32_t inputs, uint32_t len) const {
        const uint32_t groups = min(kColumns, of.num_outputs - first_column) / row::kGroup;
        const uint64_t group_bytes = static_cast<uint64_t>(inputs) * 16;
        const uint8_t* from = of.weights.data +
                              (first_column / row::kGroup + lane_of()) * group_bytes +
                              first_input * 16;
        uint32_t to = weights + lane_of() * num_inputs * 16, barrier = weight_barriers;
#pragma unroll 1
        for (uint32_t left = len * 16; left != 0; barrier += 8) {
            const uint32_t bytes = min(left, kWeightChunks * kChunkInputs * 16);
            if (lane_of() == 0) {
                barrier::arrive_expect_tx(barrier, groups * bytes);
            }
            __syncwarp();
            if (lane_of() < groups) {
                barrier::copy_bulk(to, from, bytes, barrier);
            }
            to += bytes, from += bytes, left -= bytes;
        }
    }

    // The bias, sums of weights, gamma and beta.
    __device__ void copy_constants() const {
        const uint32_t i = threadIdx.x % (kThreads / 2) * 4;
        const bool is_first = threadIdx.x < kThreads / 2;
        const float* from = is_first       ? job.bias.data
                            : has_second() ? second.bias.data
                                           : job.sums.data;
        if (i < kColumns && first_column + i < job.num_outputs &&
            (is_first || has_second() || norm_chunks != 0)) {
            linear::copy_async(at<float>(is_first ? layout.bias : layout.sums) + i,
                               from + first_column + i);
        }
        for (uint32_t k = threadIdx.x * 4; k < job.norm.len; k += kThreads * 4) {
            linear::copy_async(at<float>(layout.norm) + k, job.norm.data + k);
        }
    }

    // Copies the rows, a chunk after the other: in each row of a tile the quads are exchanged by
    // the row.
    __device__ void copy_rows() const {
        constexpr uint32_t kPass = kThreads / 8;
        const uint32_t r = threadIdx.x / 8, quad = threadIdx.x % 8;
        const uint32_t num_rows = job.num_rows;
        const uint32_t first_end = job.parts[0].len, second_end = first_end + job.parts[1].len,
                       third_end = second_end + job.parts[2].len;
        uint32_t to = rows + r * 128 + (quad ^ r % 8) * 16, barrier = row_barriers;
        uint32_t column = first_input + quad * row::kGroup;
#pragma unroll 1
        for (uint32_t chunk = 0; chunk < num_chunks; ++chunk) {
            if (column < all_inputs) {
                const uint32_t part = column < second_end ? (column < first_end ? 0 : 1)
                                                          : (column < third_end ? 2 : 3);
                const uint32_t start = part == 0   ? 0
                                       : part == 1 ? first_end
                                       : part == 2 ? second_end
                                                   : third_end;
                const __half* from = job.parts[part].rows.data + (column - start);
                const uint32_t stride = job.parts[part].stride;
#pragma unroll
                for (uint32_t i = 0; i < kRows / kPass; ++i) {
                    const uint32_t row = first_row + r + i * kPass;
                    const bool exists = row < num_rows;
                    asm volatile(
                        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + i * kPass * 128),
                        "l"(from + static_cast<uint64_t>(exists ? row : 0) * stride),
                        "r"(exists ? 16 : 0)
                        : "memory");
                }
            }
            asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier)
                         : "memory");
            column += kChunkInputs, to += kTileBytes, barrier += 8;
        }
    }

    // What a row's values are multiplied by, and what is added then.
    __device__ float2& scale_of(uint32_t r) const { return at<float2>(layout.scales)[r]; }
    // Named barrier 1: the consumers wait until all scales are stored; the warps that compute them
    // arrive and go on.
    __device__ void wait_for_scales() const {
        asm volatile("bar.sync 1, %0;" ::"n"(kThreads + kNormThreads) : "memory");
    }
    __device__ void arrive_scales() const {
        asm volatile("bar.arrive 1, %0;" ::"n"(kThreads + kNormThreads) : "memory");
    }

    // The warps of the normalization: each has 16 rows.
    __device__ void run_norm() const {
        if (norm_chunks == 0) return;
        const uint32_t first = (warp_of() - kPlainThreads / kLanes) * 16;
        pdl::wait();
        Moments moments;
#pragma unroll 1
        for (uint32_t chunk = 0; chunk < norm_chunks; ++chunk) {
            barrier::wait_parity(row_barriers + chunk * 8, 0);
            add(moments, first, chunk);
        }
        // A lane has the two sums of a row and of the eighth row after it.
        const uint32_t r = lane_of() / 4;
        if (lane_of() % 4 == r / 2) {
            scale_of(first + r) =
                scale_from(moments.sums[0], r % 2 == 0 ? moments.low[0] : moments.low[1]);
            scale_of(first + r + 8) =
                scale_from(moments.sums[2], r % 2 == 0 ? moments.high[2] : moments.high[3]);
        }
        __syncwarp();
        arrive_scales();
        if (job.normalized.len != 0) store_normalized(first);
    }

    // Sums of 16 rows and of their squares, as matrix products: by ones, and by the rows
    // themselves, of which the diagonal counts.
    struct Moments {
        float sums[4] = {}, low[4] = {}, high[4] = {};
    };
    __device__ void add(Moments& moments, uint32_t first, uint32_t chunk) const {
        constexpr uint32_t kSteps = kChunkInputs / 16, kOnes = 0x3c003c00;
        const uint32_t r = first + lane_of() % 16;
        const uint32_t row = rows + chunk * kTileBytes + r * 128;
        uint4 a[kSteps];
#pragma unroll
        for (uint32_t i = 0; i < kSteps; ++i) {
            const uint32_t quad = 2 * i + lane_of() / 16;
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(a[i].x), "=r"(a[i].y), "=r"(a[i].z), "=r"(a[i].w)
                         : "r"(row + (quad ^ r % 8) * 16)
                         : "memory");
        }
#pragma unroll
        for (uint32_t i = 0; i < kSteps; ++i) {
            linear::multiply(moments.sums, a[i], kOnes, kOnes);
            linear::multiply(moments.low, a[i], a[i].x, a[i].z);
            linear::multiply(moments.high, a[i], a[i].y, a[i].w);
        }
    }
    __device__ float2 scale_from(float sum, float squares) const {
        const float inverse = __fdividef(1.0f, static_cast<float>(job.parts[0].len));
        const float mean = sum * inverse;
        const float variance = fmaxf(fmaf(squares, inverse, -mean * mean), 0.0f);
        const float scale = rsqrtf(variance + job.epsilon);
        return make_float2(scale, -mean * scale);
    }

    // Stores the normalized first part of a warp's rows: blocks of other columns have other chunks.
    __device__ void store_normalized(uint32_t first) const {
        const uint32_t blocks = (job.num_outputs + kColumns - 1) / kColumns, quad = lane_of() % 8;
#pragma unroll 1
        for (uint32_t chunk = first_column / kColumns; chunk < norm_chunks; chunk += blocks) {
            const uint32_t column = chunk * kChunkInputs + quad * row::kGroup;
            float gamma[row::kGroup], beta[row::kGroup];
            row::load(at<const float>(layout.norm) + column, gamma);
            row::load(at<const float>(layout.norm) + job.parts[0].len + column, beta);
#pragma unroll
            for (uint32_t i = 0; i < 16; i += kLanes / 8) {
                const uint32_t r = first + lane_of() / 8 + i;
                row::Raw<__half> raw;
                raw.words = (after_rows<const uint4>(chunk * kTileBytes) + r * 8)[quad ^ r % 8];
                const float2 of_row = scale_of(r);
                float v[row::kGroup];
                raw.unpack(v);
#pragma unroll
                for (uint32_t k = 0; k < row::kGroup; ++k)
                    v[k] = fmaf(fmaf(v[k], of_row.x, of_row.y), gamma[k], beta[k]);
                if (first_row + r < job.num_rows) {
                    row::store(v, job.normalized.data +
                                      static_cast<uint64_t>(first_row + r) * job.normalized_stride +
                                      column);
                }
            }
        }
    }
};
#endif

}  // namespace linear_f16
