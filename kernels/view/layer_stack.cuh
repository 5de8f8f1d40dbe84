// Linear layers that follow each other: crates/ops/src/view/layer_stack/mod.rs. A block takes 16
// rows through all layers of a job; rows stay in shared memory, weights are read where they are. A
// launch has several jobs that depend on nothing of each other.
//
// A layer: sum and bias, ReLU, layer normalization, each if asked for. f16: matrix
// instructions, sums in f32. f32: `sum = fma(x, w, sum)`, inputs ascending.
#pragma once

#include "shared/pdl.cuh"
#include "view/linear_products.cuh"

namespace layer_stack {

constexpr uint32_t kThreads = 512;
constexpr uint32_t kWarps = kThreads / kLanes;
constexpr uint32_t kRows = 16;
constexpr uint32_t kMaxLayers = 5;
constexpr uint32_t kMaxJobs = 6;
// The most channels between layers.
constexpr uint32_t kMaxWidth = 256;
// The most inputs of a first layer over columns of f32.
constexpr uint32_t kMaxColumns = 12;

struct Layer {
    Slice<const uint8_t> weights;  // packed as those of linear.cuh
    Slice<const float> bias;       // padded to 16
    Slice<const float> norm;       // gamma, beta; empty: none
    uint32_t num_inputs;           // padded to 16
    uint32_t num_outputs;          // padded to 16
    uint32_t has_relu;             // before the norm
    uint32_t reserved;
};

template <typename T>
struct Job {
    Slice<const T> rows;            // the input, if there are no columns
    Slice<const float> norm;        // of it; empty: none
    Slice<T> normalized;            // where the input is stored after its norm; empty: nowhere
    Slice<const T> addend;          // added to it after that; empty: none
    Slice<const float> columns;     // rows of f32, the input of `first`; empty: `rows` are
    Slice<const float> first;       // a row of weights and a bias per output, ReLU following
    Slice<const float> first_norm;  // after that
    Slice<T> output;                // empty: `values`
    Slice<float> values;            // outputs in f32
    Slice<const float> summand;     // rows that are added to them; empty: none
    Slice<const float> interval;    // divides outputs from `first_divided` on before that
    Layer layers[kMaxLayers];
    uint32_t row_stride;
    uint32_t row_len;  // channels of the input
    uint32_t normalized_stride;
    uint32_t addend_stride;
    uint32_t column_stride;
    uint32_t num_columns;
    uint32_t first_width;  // outputs of `first`
    uint32_t output_stride;
    uint32_t num_values;  // outputs that are stored, of a row
    uint32_t first_divided;
    uint32_t num_rows;
    uint32_t num_layers;
    float epsilon;
    uint32_t reserved;
};

template <typename T>
struct Args {
    Job<T> jobs[kMaxJobs];
    uint32_t num_jobs;
    uint32_t reserved;
};

// Rows in shared memory; rows begin in different banks.
template <typename T>
struct Rows {
    static constexpr uint32_t kPitch = kMaxWidth + 16 / sizeof(T);
    T values[kRows][kPitch];
};

__device__ inline float read(float value) { return value; }
__device__ inline float read(__half value) { return __half2float(value); }
__device__ inline void write(float value, float* to) { *to = value; }
__device__ inline void write(float value, __half* to) { *to = __float2half_rn(value); }

constexpr uint32_t kEach = kMaxWidth / kLanes;

// A warp's row: what a lane has of it is `lane`, `lane + 32`, ….
template <typename T>
__device__ void normalize(T* row, uint32_t len, const Slice<const float>& norm, float epsilon) {
    float v[kEach], mean = 0, scale = 0;
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
        const uint32_t c = i * kLanes + lane_of();
        v[i] = c < len ? read(row[c]) : 0.0f;
        mean += v[i];
    }
    const float inverse = 1.0f / static_cast<float>(len);
    mean = row::sum_of_lanes(mean) * inverse;
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
        if (i * kLanes + lane_of() < len) scale = fmaf(v[i] - mean, v[i] - mean, scale);
    }
    scale = rsqrtf(row::sum_of_lanes(scale) * inverse + epsilon);
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
        const uint32_t c = i * kLanes + lane_of();
        if (c < len) write(fmaf((v[i] - mean) * scale, norm.data[c], norm.data[len + c]), row + c);
    }
}

// Brings the rows of a block to shared memory, a warp a row.
template <typename T>
__device__ void load(const Job<T>& job, uint32_t first_row, Rows<T>& rows) {
    const uint64_t row = first_row + warp_of();
    T* to = rows.values[warp_of()];
    const bool exists = row < job.num_rows;
    for (uint32_t c = lane_of(); c < job.row_len; c += kLanes) {
        T value = {};
        if (exists) value = job.rows.data[row * job.row_stride + c];
        to[c] = value;
    }
    __syncwarp();
    if (job.norm.len != 0) normalize(to, job.row_len, job.norm, job.epsilon);
    if (!exists || job.normalized.len + job.addend.len == 0) return;
    for (uint32_t c = lane_of(); c < job.row_len; c += kLanes) {
        const T value = to[c];
        if (job.normalized.len != 0) job.normalized.data[row * job.normalized_stride + c] = value;
        if (job.addend.len != 0)
            write(read(value) + read(job.addend.data[row * job.addend_stride + c]), to + c);
    }
}

// The first layer over columns of f32, a warp a row.
template <typename T>
__device__ void load_columns(const Job<T>& job, uint32_t first_row, Rows<T>& rows) {
    const uint64_t row = first_row + warp_of();
    T* to = rows.values[warp_of()];
    float x[kMaxColumns];
#pragma unroll
    for (uint32_t i = 0; i < kMaxColumns; ++i) {
        x[i] = i < job.num_columns && row < job.num_rows
                   ? job.columns.data[row * job.column_stride + i]
                   : 0.0f;
    }
    const uint32_t padded = (job.first_width + 15) / 16 * 16;
    for (uint32_t c = lane_of(); c < padded; c += kLanes) {
        const float* weights = job.first.data + c * (job.num_columns + 1);
        float sum = 0.0f;
        if (c < job.first_width) {
#pragma unroll
            for (uint32_t i = 0; i < kMaxColumns; ++i) {
                if (i < job.num_columns) sum = fmaf(x[i], weights[i], sum);
            }
            sum = row::relu(sum + weights[job.num_columns]);
        }
        write(sum, to + c);
    }
    __syncwarp();
    normalize(to, job.first_width, job.first_norm, job.epsilon);
}

// Results of a layer after which there is none: columns of a row in f32.
template <typename T>
__device__ void store(const Job<T>& job, uint64_t row, uint32_t column, const float (&v)[4]) {
    if (row >= job.num_rows) return;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t c = column + i;
        if (c >= job.num_values) return;
        float value = v[i];
        const uint64_t at = row * job.output_stride + c;
        if (job.output.len != 0) {
            write(value, job.output.data + at);
            continue;
        }
        if (job.interval.len != 0 && c >= job.first_divided) value = value / job.interval.data[0];
        job.values.data[at] = job.summand.len != 0 ? job.summand.data[at] + value : value;
    }
}

template <typename T>
__device__ void run(const Args<T>& args) {
    __shared__ __align__(16) Rows<T> buffers[2];
    const Job<T>& job = args.jobs[blockIdx.y];
    const uint32_t first_row = blockIdx.x * kRows;
    if (first_row >= job.num_rows) return;
    pdl::wait();
    if (job.columns.len != 0) {
        load_columns(job, first_row, buffers[0]);
    } else {
        load(job, first_row, buffers[0]);
    }
    __syncthreads();
    for (uint32_t index = 0; index < job.num_layers; ++index) {
        const Layer& layer = job.layers[index];
        const bool is_last = index + 1 == job.num_layers;
        const Rows<T>& from = buffers[index % 2];
        Rows<T>& to = buffers[(index + 1) % 2];
        for (uint32_t column = warp_of() * linear::kWarpColumns; column < layer.num_outputs;
             column += kWarps * linear::kWarpColumns) {
            linear::Sums<1> sums = {};
            const auto* weights = reinterpret_cast<const uint4*>(
                layer.weights.data + static_cast<uint64_t>(column) * layer.num_inputs * sizeof(T));
            linear::multiply_rows<1>(&from.values[0][0], Rows<T>::kPitch, weights, layer.num_inputs,
                                     sums);
            const uint32_t own = column + lane_of() % 4 * 4;
            const float4 bias = *reinterpret_cast<const float4*>(layer.bias.data + own);
#pragma unroll
            for (uint32_t half = 0; half < 2; ++half) {
                float v[4] = {sums[0][0][2 * half] + bias.x, sums[0][0][2 * half + 1] + bias.y,
                              sums[0][1][2 * half] + bias.z, sums[0][1][2 * half + 1] + bias.w};
                if (layer.has_relu) {
#pragma unroll
                    for (uint32_t i = 0; i < 4; ++i) v[i] = row::relu(v[i]);
                }
                const uint32_t r = half * 8 + lane_of() / 4;
                if (is_last && layer.norm.len == 0) {
                    store(job, first_row + r, own, v);
                } else {
                    row::store4(make_float4(v[0], v[1], v[2], v[3]), &to.values[r][own]);
                }
            }
        }
        if (is_last && layer.norm.len == 0) return;
        __syncthreads();
        if (layer.norm.len == 0) continue;
        normalize(to.values[warp_of()], static_cast<uint32_t>(layer.norm.len / 2), layer.norm,
                  job.epsilon);
        if (!is_last) {
            __syncthreads();
            continue;
        }
        __syncwarp();
        for (uint32_t c = lane_of() * 4; c < job.num_values; c += kLanes * 4) {
            float v[4];
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) v[i] = read(to.values[warp_of()][c + i]);
            store(job, first_row + warp_of(), c, v);
        }
    }
}

}  // namespace layer_stack
