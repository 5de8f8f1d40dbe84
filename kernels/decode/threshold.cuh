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
        const uint64_t position =
            static_cast<uint64_t>(class_index) * max(num_limits, 1u) + bin;
        return position < least.len ? least[position] : __uint_as_float(0x7fc00000u);
    }
};
