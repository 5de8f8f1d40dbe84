// Score thresholds by class and distance: `ScoreThresholds` in crates/types/src/center.rs.
#pragma once

#include "shared/slice.cuh"

struct Thresholds {
    Slice<const float> limits;  // ascending distances; none: one unlimited bin
    Slice<const float> least;   // class by class, a score per bin

    // The threshold of a class at a position; NaN where nothing passes.
    __device__ float at(uint32_t class_index, float x, float y) const {
        const uint32_t num_limits = static_cast<uint32_t>(limits.len);
        uint32_t bin = 0;
        if (num_limits != 0) {
            const float distance = __fsqrt_rn(x * x + y * y);
            while (bin < num_limits && !(distance < limits[bin])) ++bin;
            if (bin == num_limits) return __uint_as_float(0x7fc00000u);
        }
        const uint64_t position = static_cast<uint64_t>(class_index) * max(num_limits, 1u) + bin;
        return position < least.len ? least[position] : __uint_as_float(0x7fc00000u);
    }

    // The lowest threshold of a class, for a centre that is not finite; NaN where nothing
    // passes.
    __device__ float lowest(uint32_t class_index) const {
        const uint32_t num_bins = max(static_cast<uint32_t>(limits.len), 1u);
        float lowest = __uint_as_float(0x7fc00000u);
#pragma unroll 1
        for (uint32_t bin = 0; bin < num_bins; ++bin) {
            const uint64_t position = static_cast<uint64_t>(class_index) * num_bins + bin;
            if (position < least.len) lowest = fminf(lowest, least[position]);
        }
        return lowest;
    }

    // The threshold of a class for a box with a centre: `at_center` in Rust.
    __device__ float at_center(uint32_t class_index, const float* center) const {
        const bool is_finite = isfinite(center[0]) & isfinite(center[1]) & isfinite(center[2]);
        return is_finite ? at(class_index, center[0], center[1]) : lowest(class_index);
    }
};
