// The total order of candidates: score descending, then class, then source,
// then position; the mirror of src/ops/nms.rs.
#pragma once

#include <cstdint>

// What every candidate has, whatever its box.
struct Rank {
    float score;
    uint32_t class_index;
    uint32_t source;
};

// The high word of candidates that take no part: after all others. No number
// has it, since it stands for a NaN with its sign set.
constexpr uint32_t kLast = 0xffffffffu;

// A word that falls while the score rises. A key is this word above the
// candidate's position.
__device__ inline uint32_t order_word(float score, bool takes_part) {
    const uint32_t bits = __float_as_uint(score);
    const uint32_t rising = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return takes_part ? ~rising : kLast;
}

// Whether candidate `a` comes before candidate `b`, given their keys. Class
// and source are only looked up where the scores are equal.
template <typename Candidate>
__device__ bool precedes(uint64_t a, uint64_t b, const Candidate* candidates) {
    const uint32_t score_a = static_cast<uint32_t>(a >> 32);
    const uint32_t score_b = static_cast<uint32_t>(b >> 32);
    if (score_a != score_b) return score_a < score_b;
    if (a == b) return false;
    const Rank& x = candidates[static_cast<uint32_t>(a)].rank;
    const Rank& y = candidates[static_cast<uint32_t>(b)].rank;
    if (x.class_index != y.class_index) return x.class_index < y.class_index;
    if (x.source != y.source) return x.source < y.source;
    return a < b;
}

// Of `num` candidates from position `start` on, whose order words are given,
// those at `first`, `first + stride`, ... that come before the one at `own`.
template <typename Candidate>
__device__ uint32_t count_before(const uint32_t* words, uint32_t num, uint32_t own, uint32_t start,
                                 uint32_t first, uint32_t stride, const Candidate* candidates) {
    const uint32_t word = words[own];
    uint32_t before = 0;
    uint32_t tied = 0;
#pragma unroll 8
    for (uint32_t i = first; i < num; i += stride) {
        before += words[i] < word;
        tied += words[i] == word && i != own;
    }
    if (tied == 0) return before;
    const uint64_t key = static_cast<uint64_t>(word) << 32 | (start + own);
    for (uint32_t i = first; i < num; i += stride) {
        if (words[i] != word) continue;
        before += precedes(static_cast<uint64_t>(word) << 32 | (start + i), key, candidates);
    }
    return before;
}
