// The total order of candidates: score descending, then class, then source,
// then position; the same as in src/ops/nms/workspace.rs.
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

// The score of a candidate that takes part.
__device__ inline float score_of_word(uint32_t word) {
    const uint32_t rising = ~word;
    return __uint_as_float((rising >> 31) != 0 ? rising & 0x7fffffffu : ~rising);
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
