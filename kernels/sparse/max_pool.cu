// Max pooling of sparse features: crates/ops/src/sparse/max_pool/mod.rs.
//
// A thread per output row and channel takes the maximum over the taps that have a site,
// from 0. Padding channels are zero and stay so.

#include "sparse/conv.cuh"

namespace sparse_max_pool {

constexpr uint32_t kThreads = 256;

// The struct in Rust: crates/ops/src/sparse/max_pool/kernels.rs.
struct Args {
    Slice<const uint8_t> features;  // zeros, then rows; so is the output
    Slice<const uint32_t> words;
    Slice<const uint32_t> counts;
    Slice<uint8_t> output;
    uint32_t num_groups;
    uint32_t width;
    uint32_t stride;
    uint32_t num_channels;  // padded
    uint32_t capacity;
    uint32_t num_input_rows;  // that words name at most
};

template <typename T>
__device__ void pool(const Args& args) {
    const auto* features = reinterpret_cast<const T*>(args.features.data + sparse_conv::kZeroBytes);
    auto* output = reinterpret_cast<T*>(args.output.data + sparse_conv::kZeroBytes);
    const uint64_t at = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
    const auto row = static_cast<uint32_t>(at / args.num_channels);
    const auto channel = static_cast<uint32_t>(at % args.num_channels);
    if (row >= args.capacity || row >= args.counts[0]) return;
    float highest = 0.0f;
    for (uint32_t group = 0; group < args.num_groups; ++group) {
        const uint32_t word = args.words[static_cast<uint64_t>(group) * args.stride + row];
        for (uint32_t i = 0; i < args.width; ++i) {
            const uint32_t input = sparse_conv::input_row(word, i);
            if (input == sparse_conv::kAbsent) continue;
            const float value = sparse_conv::loaded(
                features[static_cast<uint64_t>(input) * args.num_channels + channel]);
            // Not fmaxf, which drops NaN.
            if (value > highest || value != value) highest = value;
        }
    }
    sparse_conv::store(highest, &output[at]);
}

}  // namespace sparse_max_pool

// sparse_max_pool_f32, sparse_max_pool_f16, sparse_max_pool_bf16.
#define SPARSE_MAX_POOL(T, suffix)                                                     \
    extern "C" __global__ void __launch_bounds__(sparse_max_pool::kThreads)            \
        sparse_max_pool_##suffix(const __grid_constant__ sparse_max_pool::Args args) { \
        sparse_max_pool::pool<T>(args);                                                \
    }

SPARSE_MAX_POOL(float, f32)
SPARSE_MAX_POOL(__half, f16)
SPARSE_MAX_POOL(__nv_bfloat16, bf16)
