// Rows of features: those of the input in the order of the sites, and sums of rows.
#pragma once

#include "sparse/conv.cuh"

namespace sparse_conv {

constexpr uint32_t kFeatureThreads = 256;

// The struct in Rust: crates/ops/src/sparse/conv/kernels.rs.
struct InputArgs {
    Slice<const float> features;       // rows of `num_channels`, in the order of the input
    Slice<const uint32_t> input_rows;  // by site the row of its features
    Slice<const uint32_t> counts;      // the first is the number of sites
    Slice<uint8_t> output;             // zeros, then rows
    uint32_t num_channels;
    uint32_t row_len;  // padded values of a row of the output
};

struct AddArgs {
    Slice<const uint8_t> a;
    Slice<const uint8_t> b;  // empty: none
    Slice<const uint32_t> counts;
    Slice<uint8_t> output;
    uint32_t row_len;
    uint32_t has_relu;
    uint32_t capacity;
    uint32_t reserved;
};

// A thread per value. In 16 bits a row has the channels `kParts` times: rounded, then what
// rounding has left, rounded; the sum of the parts is the value to more bits.
template <typename E, uint32_t kParts>
__device__ void input(const InputArgs& args) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * kFeatureThreads + threadIdx.x;
    const auto row = static_cast<uint32_t>(at / args.row_len);
    const auto place = static_cast<uint32_t>(at % args.row_len);
    if (row >= args.input_rows.len || row >= args.counts[0]) return;
    E value = E(0.0f);
    const uint64_t from = static_cast<uint64_t>(args.input_rows[row]) * args.num_channels;
    if (place < args.num_channels * kParts && from + args.num_channels <= args.features.len) {
        float left = args.features[from + place % args.num_channels];
        store(left, &value);
        for (uint32_t part = 0; part < place / args.num_channels; ++part) {
            // Infinities and NaN have no rest.
            left = isfinite(loaded(value)) ? left - loaded(value) : 0.0f;
            store(left, &value);
        }
    }
    reinterpret_cast<E*>(args.output.data + kZeroBytes)[at] = value;
}

template <typename E>
__device__ void add(const AddArgs& args) {
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * kFeatureThreads + threadIdx.x;
    if (at / args.row_len >= args.counts[0] || at / args.row_len >= args.capacity) return;
    float value = loaded(reinterpret_cast<const E*>(args.a.data + kZeroBytes)[at]);
    if (args.b.len != 0) value += loaded(reinterpret_cast<const E*>(args.b.data + kZeroBytes)[at]);
    if (args.has_relu != 0) value = relu(value);
    store(value, &reinterpret_cast<E*>(args.output.data + kZeroBytes)[at]);
}

}  // namespace sparse_conv
