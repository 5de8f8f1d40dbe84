// Words of a table.
#pragma once

#include "sparse/rulebook.cuh"

namespace rulebook {

// Of the cells `first .. first + 3` of a line: the row of the first site << 3 | a bit
// for each that is one; 0 where there is none. `first` may be before or behind the line.
struct Triple {
    uint32_t low, high, rank, shift, mask, word;

    __device__ void load(const SiteIndex& sites, uint32_t line, int32_t first, uint32_t size,
                         bool is_inside) {
        const int32_t from = first < 0 ? 0 : first;
        const int32_t to =
            first + 3 < static_cast<int32_t>(size) ? first + 3 : static_cast<int32_t>(size);
        is_inside = is_inside && from < to;
        mask = is_inside ? (1u << (to - from)) - 1 : 0;
        const uint32_t index = is_inside ? line + from : 0;
        word = index / 32;
        shift = index % 32;
        low = sites.bits[word];
        high = shift > 29 && word + 1 < sites.bits.len ? sites.bits[word + 1] : 0;
        // Bits of `mask` count from `from`; those of the result from `first`.
        skipped = is_inside ? from - first : 0;
    }
    __device__ uint32_t present() const { return __funnelshift_r(low, high, shift) & mask; }
    __device__ void load_rank(const SiteIndex& sites) {
        rank = 0;
        if (present() != 0) rank = sites.ranks[low >> shift == 0 ? word + 1 : word];
    }
    __device__ uint32_t value() const {
        const uint32_t bits = present();
        if (bits == 0) return 0;
        const uint32_t before = low >> shift == 0 ? 0 : __popc(low & ((1u << shift) - 1));
        return (rank + before) << 3 | bits << skipped;
    }
    uint32_t skipped;
};

}  // namespace rulebook
