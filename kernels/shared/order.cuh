// The total order of candidates: score descending, then class, then source, then
// position; in Rust: `total_order` in crates/types/src/candidate.rs.
#pragma once

#include <cstdint>

// The members of every candidate that decide its rank.
struct Rank {
    float score;
    uint32_t class_index;
    uint32_t source;
};

// The high word of ineligible candidates, behind all others. No score has it: it
// stands for a NaN with its sign set.
constexpr uint32_t kLast = 0xffffffffu;

// A word that descends while the score ascends. A key is this word above the
// candidate's position.
__device__ inline uint32_t order_word(float score, bool is_eligible) {
    const uint32_t bits = __float_as_uint(score);
    const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return is_eligible ? ~ascending : kLast;
}

// The score of an eligible candidate.
__device__ inline float score_of_word(uint32_t word) {
    const uint32_t ascending = ~word;
    return __uint_as_float((ascending >> 31) != 0 ? ascending & 0x7fffffffu : ~ascending);
}

// Whether candidate `a` ranks above candidate `b`, given their keys. Class and source
// are read only where the scores are equal.
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
