// Linear layers: crates/ops/src/view/linear/mod.rs. A launch computes several jobs that depend on
// nothing of each other. A block computes 64 columns of 16, 32 or 64 rows: its warps bring the rows
// to shared memory, normalize them if asked for, and multiply them by 16 columns each. Weights are
// packed in the order in which lanes read them. A warp runs this code once, and fetching it costs
// more than running it: loops stay rolled.
//
// f16: matrix instructions, sums in f32. f32: `sum = fma(x, w, sum)`, inputs ascending.
#pragma once

#include "shared/pdl.cuh"
#include "view/linear_rows.cuh"

namespace linear {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kWarps = kThreads / kLanes;
// Columns of a block.
constexpr uint32_t kColumns = 64;
constexpr uint32_t kMaxJobs = 4;
// Inputs of which the weights are in shared memory at once.
constexpr uint32_t kChunkF16 = 512;
constexpr uint32_t kChunkF32 = 256;
// Floats from one row of a warp's results in shared memory to the next.
constexpr uint32_t kStagePitch = 20;

// Some columns of the input, of rows of `stride` values.
template <typename T>
struct Part {
    Slice<const T> rows;
    uint32_t stride;
    uint32_t len;
};

// output = relu?(input W + bias + residual + second residual)
template <typename T>
struct Job {
    Part<T> parts[3];            // the input: side by side; the first can be normalized
    Slice<const float> norm;     // of the first part: gamma, beta; empty: none
    Slice<const T> addend;       // added to the first part after that, rows of its length
    Slice<T> normalized;         // where the first part is stored before the addend; empty: nowhere
    Slice<const float> points;   // 3 per row: reference points
    Slice<const float> encoder;  // of 3 coordinates and a bias, for each channel: the encoded
                                 // points are the first part; empty: it is read
    Slice<const uint8_t> weights;      // packed: crates/ops/src/view/linear/layer.rs
    Slice<const float> bias;           // padded to 16
    Slice<const T> residual;           // empty: none
    Slice<const T> position;           // the second residual; empty: none
    Slice<const float> position_norm;  // of it, ReLU following; empty: none
    Slice<T> output;                   // empty: what follows
    Slice<float> moved;                // the first three outputs move the points
    Slice<float> values;               // outputs in f32; with `moved` the points in metres first
    float low[3], extent[3];           // of the range of the points, in metres
    uint32_t normalized_stride;
    uint32_t residual_stride;
    uint32_t position_stride;
    uint32_t output_stride;
    uint32_t num_rows;
    uint32_t num_outputs;     // padded to 16
    uint32_t has_input_relu;  // after the norm
    uint32_t has_relu;
    uint32_t is_transposed;  // the output has a row per column
    uint32_t values_stride;
    uint32_t num_values;  // of a row
    float epsilon;
};

template <typename T>
struct Args {
    uint32_t num_jobs;
    uint32_t end_blocks[kMaxJobs];  // column blocks of the jobs up to this one
    uint32_t reserved;
    Job<T> jobs[kMaxJobs];
};

__host__ __device__ inline uint32_t num_column_blocks(uint32_t num_outputs) {
    return (num_outputs + kColumns - 1) / kColumns;
}

// A block's shared memory, in bytes from its start: results, both norms, rows of the second
// residual, rows, weights.
template <typename T>
struct Layout {
    uint32_t norm, position_norm, position, rows, weights, end;

    __host__ __device__ Layout(uint32_t num_rows, uint32_t num_inputs, uint32_t norm_len,
                               uint32_t position_norm_len) {
        constexpr uint32_t kChunk = sizeof(T) == 2 ? kChunkF16 : kChunkF32;
        norm = kWarps * num_rows * kStagePitch * 4;
        position_norm = norm + norm_len * 4;
        position = position_norm + position_norm_len * 4;
        rows = position + (position_norm_len == 0 ? 0
                                                  : num_rows * pitch_of<T>(position_norm_len / 2) *
                                                        static_cast<uint32_t>(sizeof(T)));
        weights = rows + num_rows * pitch_of<T>(num_inputs) * static_cast<uint32_t>(sizeof(T));
        end = weights + (num_inputs < kChunk ? num_inputs : kChunk) * kColumns *
                            static_cast<uint32_t>(sizeof(T));
    }
};

// Reads every line of the parameters at once, so that later reads find them in the cache.
template <typename P>
__device__ void prefetch(const P& parameters) {
    const auto* words = reinterpret_cast<const uint32_t*>(&parameters);
    uint32_t any = 0;
#pragma unroll
    for (uint32_t i = 0; i < sizeof(P) / 4; i += 16) any |= words[i];
    asm volatile("" ::"r"(any));
}

__device__ inline void copy_floats(float* to, const float* from, uint32_t len) {
    for (uint32_t i = threadIdx.x * 4; i < len; i += kThreads * 4) copy_async(to + i, from + i);
}

// Copies this warp's weights of a chunk of the inputs.
template <typename T>
__device__ void copy_weights(uint4* to, const uint4* from, uint32_t num_inputs) {
    const uint32_t quads = num_inputs * kWarpColumns * sizeof(T) / 16;
#pragma unroll 4
    for (uint32_t i = lane_of(); i < quads; i += kLanes) copy_async(to + i, from + i);
}

// Outputs of a row in f32: what `moved` and `values` of a job get.
template <typename T>
__device__ void store_values(const Job<T>& job, uint64_t row, uint32_t column,
                             const float (&v)[row::kGroup]) {
#pragma unroll
    for (uint32_t i = 0; i < row::kGroup; ++i) {
        if (column + i >= job.num_values) return;
        float value = v[i];
        if (i < 3 && column == 0 && job.points.len != 0) {
            value = refine::sigmoid_as<T>(value +
                                          refine::inverse_sigmoid<T>(job.points.data[3 * row + i]));
            if (job.moved.len != 0) job.moved.data[3 * row + i] = value;
            value = fmaf(value, job.extent[i], job.low[i]);
        }
        if (job.values.len != 0) job.values.data[row * job.values_stride + column + i] = value;
    }
}

// The columns of a job from `column_block` on, of the rows from `row_block` on.
template <typename T, uint32_t kTiles, bool kEncodes>
__device__ void compute(const Job<T>& job, uint32_t row_block, uint32_t column_block,
                        uint8_t* shared) {
    constexpr uint32_t kChunk = sizeof(T) == 2 ? kChunkF16 : kChunkF32;
    prefetch(job);
    const uint32_t first_len = job.parts[0].len;
    const uint32_t num_inputs = first_len + job.parts[1].len + job.parts[2].len;
    const uint32_t column = column_block * kColumns + warp_of() * kWarpColumns;
    const bool has_columns = column < job.num_outputs;
    const bool has_position = job.position_norm.len != 0;
    const Layout<T> layout(16 * kTiles, num_inputs, job.norm.len, job.position_norm.len);
    auto* norm = reinterpret_cast<float*>(shared + layout.norm);
    auto* position_norm = reinterpret_cast<float*>(shared + layout.position_norm);
    const uint32_t first_row = row_block * 16 * kTiles;
    const Rows<T, kTiles> rows{reinterpret_cast<T*>(shared + layout.rows), pitch_of<T>(num_inputs),
                               first_row, job.num_rows};
    const Rows<T, kTiles> position{reinterpret_cast<T*>(shared + layout.position),
                                   pitch_of<T>(job.position_norm.len / 2), first_row, job.num_rows};
    const uint32_t chunk = num_inputs < kChunk ? num_inputs : kChunk;
    auto* weights = reinterpret_cast<uint4*>(shared + layout.weights) +
                    warp_of() * chunk * kWarpColumns * sizeof(T) / 16;
    const auto* packed =
        reinterpret_cast<const uint4*>(job.weights.data) +
        static_cast<uint64_t>(column / kWarpColumns) * num_inputs * kWarpColumns * sizeof(T) / 16;

    // Constants of the network.
    if (has_columns) copy_weights<T>(weights, packed, chunk);
    copy_floats(norm, job.norm.data, static_cast<uint32_t>(job.norm.len));
    copy_floats(position_norm, job.position_norm.data,
                static_cast<uint32_t>(job.position_norm.len));

    pdl::wait();
    if (kEncodes) {
        rows.encode(job.points, job.encoder, first_len);
    } else {
        rows.copy(job.parts[0].rows, job.parts[0].stride, first_len, 0);
    }
    if (job.parts[1].len != 0)
        rows.copy(job.parts[1].rows, job.parts[1].stride, job.parts[1].len, first_len);
    if (job.parts[2].len != 0) {
        rows.copy(job.parts[2].rows, job.parts[2].stride, job.parts[2].len,
                  first_len + job.parts[1].len);
    }
    if (has_position)
        position.copy(job.position, job.position_stride, job.position_norm.len / 2, 0);
    // A lane's part of the results: 8 columns of the row lane / 2.
    const uint32_t my_column = column + lane_of() % 2 * row::kGroup;
    row::Raw<T> residual[kTiles];
#pragma unroll
    for (uint32_t m = 0; m < kTiles; ++m) {
        const uint64_t row = first_row + m * 16 + lane_of() / 2;
        residual[m].clear();
        if (job.residual.len != 0 && has_columns && row < job.num_rows) {
            residual[m].load(job.residual.data + row * job.residual_stride + my_column);
        }
    }
    wait_for_copies();
    __syncthreads();
    if (kEncodes || job.norm.len != 0 || job.addend.len != 0 || job.has_input_relu) {
        const Slice<T> kept = column_block == 0 ? job.normalized : Slice<T>{nullptr, 0};
        rows.finish(job.norm.len != 0 ? norm : nullptr, first_len, kEncodes || job.has_input_relu,
                    job.epsilon, kept, job.normalized_stride, job.addend);
    }
    if (has_position) {
        position.finish(position_norm, job.position_norm.len / 2, true, job.epsilon, {nullptr, 0},
                        0, {nullptr, 0});
    }
    __syncthreads();
    if (!has_columns) return;

    Sums<kTiles> sums = {};
    multiply_rows<kTiles>(rows.values, rows.pitch, weights, chunk, sums);
#pragma unroll 1
    for (uint32_t done = chunk; done < num_inputs; done += kChunk) {
        const uint32_t left = num_inputs - done < kChunk ? num_inputs - done : kChunk;
        __syncwarp();
        copy_weights<T>(weights,
                        packed + static_cast<uint64_t>(done) * kWarpColumns * sizeof(T) / 16, left);
        wait_for_copies();
        __syncwarp();
        multiply_rows<kTiles>(rows.values + done, rows.pitch, weights, left, sums);
    }

    float* stage = reinterpret_cast<float*>(shared) + warp_of() * kTiles * 16 * kStagePitch;
#pragma unroll
    for (uint32_t i = 0; i < 2 * kTiles; ++i) {
        const float (&low)[4] = sums[i / 2][0];
        const float (&high)[4] = sums[i / 2][1];
        const uint32_t half = i % 2 * 2;
        *reinterpret_cast<float4*>(stage + (i * 8 + lane_of() / 4) * kStagePitch +
                                   lane_of() % 4 * 4) =
            make_float4(low[half], low[half + 1], high[half], high[half + 1]);
    }
    __syncwarp();
    if (job.is_transposed) {
        const float bias = job.bias.data[column + lane_of() / 2];
        T* to = job.output.data +
                static_cast<uint64_t>(column + lane_of() / 2) * job.output_stride + first_row +
                lane_of() % 2 * 8;
#pragma unroll 1
        for (uint32_t m = 0; m < kTiles; ++m) {
            if (first_row + m * 16 >= job.num_rows) return;
            float v[row::kGroup];
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) {
                v[k] = stage[(m * 16 + lane_of() % 2 * 8 + k) * kStagePitch + lane_of() / 2] + bias;
            }
            row::store(v, to + m * 16);
        }
        return;
    }
    float bias[row::kGroup];
    row::load(job.bias.data + my_column, bias);
#pragma unroll
    for (uint32_t m = 0; m < kTiles; ++m) {
        const uint32_t r = m * 16 + lane_of() / 2;
        const uint64_t row = first_row + r;
        if (row >= job.num_rows) return;
        float v[row::kGroup], more[row::kGroup];
        row::load(stage + r * kStagePitch + lane_of() % 2 * row::kGroup, v);
        residual[m].unpack(more);
#pragma unroll
        for (uint32_t k = 0; k < row::kGroup; ++k) v[k] = (v[k] + bias[k]) + more[k];
        if (has_position) {
            row::load(position.values + r * position.pitch + my_column, more);
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) v[k] += more[k];
        } else if (job.position.len != 0) {
            row::load(job.position.data + row * job.position_stride + my_column, more);
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) v[k] += more[k];
        }
        if (job.has_relu) {
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) v[k] = row::relu(v[k]);
        }
        if (job.output.len != 0) {
            row::store(v, job.output.data + row * job.output_stride + my_column);
        } else {
            store_values(job, row, my_column, v);
        }
    }
}

// `block` counts the column blocks of all jobs.
template <typename T, uint32_t kTiles, bool kEncodes = false>
__device__ void compute_block(const Args<T>& args, uint32_t row_block, uint32_t block,
                              uint8_t* shared) {
    uint32_t job = 0, first = 0;
#pragma unroll
    for (uint32_t i = 0; i + 1 < kMaxJobs; ++i) {
        if (i + 1 < args.num_jobs && block >= args.end_blocks[i])
            job = i + 1, first = args.end_blocks[i];
    }
    compute<T, kTiles, kEncodes>(args.jobs[job], row_block, block - first, shared);
}

}  // namespace linear
