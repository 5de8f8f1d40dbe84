// Rows of strided tensors that a block reduces: 16 rows of 32 lanes.
//
// Lane `l` of a row takes the elements l, l + 32, ...; then the lanes at distances 16, 8, 4, 2
// and 1 are joined. Neighbouring threads are lanes of a row, or rows where those are neighbours in
// memory.
#pragma once

#include "dense/tensor.cuh"
#include "shared/pdl.cuh"
#include "shared/warp.cuh"

namespace dense {

constexpr uint32_t kRowThreads = 512;
constexpr uint32_t kBlockRows = 16;

// The struct in Rust: crates/ops/src/dense/launch.rs. Dimensions that count rows, then the ones
// along a row.
struct RowDims {
    uint32_t sizes[kMaxRank];
    uint32_t num_kept;
    uint32_t rank;
    uint32_t num_rows;
    uint32_t len;
    uint32_t rows_are_neighbours;
    uint32_t reserved;
};

__device__ inline uint32_t row_offset(const RowDims& dims, uint32_t row,
                                      const uint32_t (&strides)[kMaxRank]) {
    uint32_t offset = 0;
    for (uint32_t d = dims.num_kept; d-- > 0;) {
        const uint32_t rest = row / dims.sizes[d];
        offset += (row - rest * dims.sizes[d]) * strides[d];
        row = rest;
    }
    return offset;
}

// The offset of an element behind the start of its row.
__device__ inline uint32_t element_offset(const RowDims& dims, uint32_t i,
                                          const uint32_t (&strides)[kMaxRank]) {
    uint32_t offset = 0, d = dims.rank - 1;
    for (; d > dims.num_kept; --d) {
        const uint32_t rest = i / dims.sizes[d];
        offset += (i - rest * dims.sizes[d]) * strides[d];
        i = rest;
    }
    return offset + i * strides[d];
}

template <typename T>
struct RowScratch {
    T lanes[kLanes][kBlockRows + 1];
    T results[kBlockRows];
};

// A thread's lane of its row.
struct RowLane {
    uint32_t slot, lane, row;
    bool is_row;
    bool rows_are_neighbours;

    __device__ explicit RowLane(const RowDims& dims) {
        rows_are_neighbours = dims.rows_are_neighbours != 0;
        slot = rows_are_neighbours ? threadIdx.x % kBlockRows : threadIdx.x / kLanes;
        lane = rows_are_neighbours ? threadIdx.x / kBlockRows : threadIdx.x % kLanes;
        row = blockIdx.x * kBlockRows + slot;
        is_row = row < dims.num_rows;
    }

    // The lanes of a row joined, in all of them; every thread of the block calls it.
    template <typename T, typename Join>
    __device__ T joined(T value, RowScratch<T>& scratch, Join join) const {
        if (rows_are_neighbours) {
            scratch.lanes[lane][slot] = value;
            __syncthreads();
            value = scratch.lanes[threadIdx.x % kLanes][threadIdx.x / kLanes];
        }
#pragma unroll
        for (uint32_t step = kLanes / 2; step != 0; step /= 2) {
            value = join(value, __shfl_xor_sync(kAllLanes, value, step));
        }
        if (rows_are_neighbours) {
            if (threadIdx.x % kLanes == 0) scratch.results[threadIdx.x / kLanes] = value;
            __syncthreads();
            value = scratch.results[slot];
        }
        return value;
    }
};

// The larger, or NaN.
__device__ inline float larger(float a, float b) { return a > b || a != a ? a : b; }
__device__ inline float smaller(float a, float b) { return a < b || a != a ? a : b; }
__device__ inline float sum_of(float a, float b) { return a + b; }

}  // namespace dense
