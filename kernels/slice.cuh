// What every kernel's parameters are made of; the mirror in Rust is
// src/device/cuda/memory/mod.rs.
#pragma once

#include <cstdint>

// A piece of device memory and how many values it holds.
template <typename T>
struct Slice {
    T* data;
    uint64_t len;

    __device__ T& operator[](uint64_t i) const { return data[i]; }
};
static_assert(sizeof(Slice<float>) == 16);
