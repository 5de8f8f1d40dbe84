// Slices of device memory, of which the parameters of kernels consist; in Rust: `In`
// and `Out` in crates/ops/src/device/cuda/memory/mod.rs.
#pragma once

#include <cstdint>

// The address and the number of values.
template <typename T>
struct Slice {
    T* data;
    uint64_t len;

    __device__ T& operator[](uint64_t i) const { return data[i]; }
};
