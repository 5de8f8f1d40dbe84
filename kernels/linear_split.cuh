// Linear layers in f16: the layers of linear.cuh, whose inputs are split over the warps of a block. A
// warp has 16 of the 64 columns of a block and a part of the inputs. Weights pass from device memory
// straight to its registers, some steps ahead; the sums of the parts meet in shared memory.
// A warp runs the code once, and fetching it takes time: loops other than the products stay rolled.
#pragma once

#include "linear.cuh"

namespace linear {

// Parts of the inputs, of blocks of 16, 32 and 64 rows.
constexpr uint32_t kParts16 = 4;
constexpr uint32_t kParts32 = 4;
constexpr uint32_t kParts64 = 2;
// Floats from a row of sums to the next.
constexpr uint32_t kSumPitch = 80;
static_assert(kSumPitch == kColumns + 16);

template <uint32_t kTiles, uint32_t kParts>
struct Split {
    static constexpr uint32_t kRows = 16 * kTiles;
    static constexpr uint32_t kGroups = kColumns / kWarpColumns;
    static constexpr uint32_t kSplitWarps = kParts * kGroups;
    static constexpr uint32_t kSplitThreads = kSplitWarps * kLanes;
    // Steps of 16 inputs whose weights a warp has in registers.
    static constexpr uint32_t kAhead = 8;
    // Groups of 8 columns of a row.
    static constexpr uint32_t kRowGroups = kColumns / row::kGroup;
    using BlockRows = Rows<__half, kTiles, kSplitWarps>;

    // A block's shared memory, in bytes from its start: both norms, rows of the second residual,
    // rows, which the sums replace.
    struct Layout {
        uint32_t position_norm, position, rows, end;

        __host__ __device__ Layout(uint32_t num_inputs, uint32_t norm_len, uint32_t position_norm_len) {
            constexpr uint32_t kSums = kParts * kRows * kSumPitch * 4;
            position_norm = norm_len * 4;
            position = position_norm + position_norm_len * 4;
            rows = position + (position_norm_len == 0 ? 0 : kRows * pitch_of<__half>(position_norm_len / 2) * 2);
            const uint32_t of_rows = kRows * pitch_of<__half>(num_inputs) * 2;
            end = rows + (of_rows < kSums ? kSums : of_rows);
        }
    };

    // The part of the inputs that a warp multiplies, in steps of 16, and its weights.
    struct Warp {
        const uint4* weights;
        uint32_t first_step, num_steps;
        uint4 ahead[kAhead];

        __device__ Warp(const Job<__half>& job, uint32_t column, uint32_t num_inputs) {
            const uint32_t part = warp_of() / kGroups, all = num_inputs / 16;
            first_step = part * all / kParts;
            num_steps = column < job.num_outputs ? (part + 1) * all / kParts - first_step : 0;
            weights = reinterpret_cast<const uint4*>(job.weights.data) +
                      (static_cast<uint64_t>(column / kWarpColumns) * all + first_step) * kLanes + lane_of();
#pragma unroll
            for (uint32_t i = 0; i < kAhead; ++i) {
                if (i < num_steps) ahead[i] = weights[i * kLanes];
            }
        }
        __device__ void multiply_rows(const BlockRows& rows, Sums<kTiles>& sums) {
            const __half* first = rows.values + (lane_of() % 16) * rows.pitch + lane_of() / 16 * 8 + first_step * 16;
            uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(first));
#pragma unroll 1
            for (uint32_t done = 0; done < num_steps; done += kAhead) {
#pragma unroll
                for (uint32_t i = 0; i < kAhead; ++i, at += 32) {
                    if (done + i >= num_steps) break;
#pragma unroll
                    for (uint32_t m = 0; m < kTiles; ++m) {
                        uint4 a;
                        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                                     : "=r"(a.x), "=r"(a.y), "=r"(a.z), "=r"(a.w)
                                     : "r"(at + m * 16 * rows.pitch * 2));
                        multiply(sums[m][0], a, ahead[i].x, ahead[i].y);
                        multiply(sums[m][1], a, ahead[i].z, ahead[i].w);
                    }
                    // After the last use of the registers: else the load would go elsewhere, and a copy wait for it.
                    if (done + kAhead + i < num_steps) ahead[i] = weights[(done + kAhead + i) * kLanes];
                }
            }
        }
    };

    // Stores a warp's sums at its part and columns.
    __device__ static void store_sums(const Sums<kTiles>& sums, float* parts) {
        float* to = parts + (warp_of() / kGroups * kRows + lane_of() / 4) * kSumPitch + warp_of() % kGroups * kWarpColumns +
                    lane_of() % 4 * 4;
#pragma unroll
        for (uint32_t i = 0; i < 2 * kTiles; ++i) {
            const float(&low)[4] = sums[i / 2][0];
            const float(&high)[4] = sums[i / 2][1];
            const uint32_t half = i % 2 * 2;
            *reinterpret_cast<float4*>(to + i * 8 * kSumPitch) = make_float4(low[half], low[half + 1], high[half], high[half + 1]);
        }
    }

    // The columns of a transposed output: 8 rows of a column a thread.
    __device__ static void store_transposed(const Job<__half>& job, uint32_t first_row, uint32_t first_column, const float* parts) {
#pragma unroll 1
        for (uint32_t item = threadIdx.x; item < kRows / row::kGroup * kColumns; item += kSplitThreads) {
            const uint32_t c = item % kColumns, r = item / kColumns * row::kGroup, column = first_column + c;
            if (column >= job.num_outputs || first_row + r / 16 * 16 >= job.num_rows) continue;
            const float bias = job.bias.data[column];
            float v[row::kGroup];
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) {
                const float* part = parts + (r + k) * kSumPitch + c;
                v[k] = part[0];
#pragma unroll
                for (uint32_t p = 1; p < kParts; ++p) v[k] += part[p * kRows * kSumPitch];
                v[k] += bias;
            }
            row::store(v, job.output.data + static_cast<uint64_t>(column) * job.output_stride + first_row + r);
        }
    }

    // Eight columns of a row.
    __device__ static void store_group(const Job<__half>& job, uint32_t first_row, uint32_t r, uint32_t column, const float* parts,
                                       const BlockRows& position) {
        const uint64_t row = first_row + r;
        float v[row::kGroup], more[row::kGroup];
        const float* part = parts + r * kSumPitch + column % kColumns;
        row::load(part, v);
#pragma unroll
        for (uint32_t p = 1; p < kParts; ++p) {
            row::load(part + p * kRows * kSumPitch, more);
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) v[k] += more[k];
        }
        float bias[row::kGroup];
        row::load(job.bias.data + column, bias);
#pragma unroll
        for (uint32_t k = 0; k < row::kGroup; ++k) v[k] += bias[k];
        if (job.residual.len != 0) {
            row::load(job.residual.data + row * job.residual_stride + column, more);
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) v[k] += more[k];
        }
        if (job.position.len != 0) {
            row::load(job.position_norm.len != 0 ? position.values + r * position.pitch + column
                                                 : job.position.data + row * job.position_stride + column,
                      more);
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) v[k] += more[k];
        }
        if (job.has_relu) {
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) v[k] = row::relu(v[k]);
        }
        if (job.output.len != 0) {
            row::store(v, job.output.data + row * job.output_stride + column);
        } else {
            store_values(job, row, column, v);
        }
    }

    // A call, since two copies of the code would have to be fetched.
    __device__ __noinline__ static void finish(const BlockRows& rows, const float* norm, uint32_t len, bool has_relu, float epsilon,
                                               Slice<__half> kept, uint32_t kept_stride, Slice<const __half> addend) {
        rows.finish(norm, len, has_relu, epsilon, kept, kept_stride, addend);
    }

    // The columns of a job from `column_block` on, of the rows from `row_block` on.
    __device__ static void compute(const Job<__half>& job, uint32_t row_block, uint32_t column_block, uint8_t* shared) {
        prefetch(job);
        const uint32_t first_row = row_block * kRows;
        const uint32_t first_len = job.parts[0].len;
        const uint32_t num_inputs = first_len + job.parts[1].len + job.parts[2].len;
        const uint32_t first_column = column_block * kColumns;
        const Layout layout(num_inputs, job.norm.len, job.position_norm.len);
        auto* norm = reinterpret_cast<float*>(shared);
        auto* position_norm = reinterpret_cast<float*>(shared + layout.position_norm);
        const BlockRows rows{reinterpret_cast<__half*>(shared + layout.rows), pitch_of<__half>(num_inputs), first_row, job.num_rows};
        const BlockRows position{reinterpret_cast<__half*>(shared + layout.position), pitch_of<__half>(job.position_norm.len / 2),
                                 first_row, job.num_rows};

        // Constants of the network.
        Warp warp(job, first_column + warp_of() % kGroups * kWarpColumns, num_inputs);
        copy_floats(norm, job.norm.data, static_cast<uint32_t>(job.norm.len));
        copy_floats(position_norm, job.position_norm.data, static_cast<uint32_t>(job.position_norm.len));
        if (first_row >= job.num_rows) return;

        uint32_t part_column = 0;
#pragma unroll 1
        for (const Part<__half>& part : job.parts) {
            rows.copy(part.rows, part.stride, part.len, part_column);
            part_column += part.len;
        }
        if (job.position_norm.len != 0) position.copy(job.position, job.position_stride, job.position_norm.len / 2, 0);
        wait_for_copies();
        __syncthreads();
        if (job.norm.len + job.addend.len + job.position_norm.len != 0 || job.has_input_relu) {
            if (job.norm.len + job.addend.len != 0 || job.has_input_relu) {
                const Slice<__half> kept = column_block == 0 ? job.normalized : Slice<__half>{nullptr, 0};
                finish(rows, job.norm.len != 0 ? norm : nullptr, first_len, job.has_input_relu, job.epsilon, kept, job.normalized_stride,
                            job.addend);
            }
            if (job.position_norm.len != 0) {
                finish(position, position_norm, job.position_norm.len / 2, true, job.epsilon, {nullptr, 0}, 0, {nullptr, 0});
            }
            __syncthreads();
        }

        Sums<kTiles> sums = {};
        warp.multiply_rows(rows, sums);
        auto* parts = reinterpret_cast<float*>(shared + layout.rows);
        __syncthreads();
        store_sums(sums, parts);
        __syncthreads();
        if (job.is_transposed) return store_transposed(job, first_row, first_column, parts);
#pragma unroll 1
        for (uint32_t item = threadIdx.x; item < kRows * kRowGroups; item += kSplitThreads) {
            const uint32_t r = item / kRowGroups, column = first_column + item % kRowGroups * row::kGroup;
            if (first_row + r < job.num_rows && column < job.num_outputs) store_group(job, first_row, r, column, parts, position);
        }
    }

    // `block` counts the column blocks of all jobs.
    __device__ static void compute_block(const Args<__half>& args, uint32_t row_block, uint32_t block, uint8_t* shared) {
        uint32_t job = 0, first = 0;
#pragma unroll
        for (uint32_t i = 0; i + 1 < kMaxJobs; ++i) {
            if (i + 1 < args.num_jobs && block >= args.end_blocks[i]) job = i + 1, first = args.end_blocks[i];
        }
        compute(args.jobs[job], row_block, block - first, shared);
    }
};

}  // namespace linear
