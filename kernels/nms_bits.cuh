// How the step small numbers candidates and keeps pairs as bits.
//
// Column c of a half (kHalf candidates) is bit c / kPieces of piece c % kPieces,
// so that neighbouring threads read neighbouring columns.
#pragma once

#include "nms_args.cuh"

constexpr uint32_t kSmallCapacity = 2048;
constexpr uint32_t kSmallThreads = 1024;
constexpr uint32_t kSmallWarps = kSmallThreads / kLanes;
// The most candidates that a block owns.
constexpr uint32_t kMaxRows = 16;
// Candidates that are in shared memory together: one a thread.
constexpr uint32_t kHalf = kSmallThreads;
constexpr uint32_t kPieces = 64;
constexpr uint32_t kPieceBits = kHalf / kPieces;
constexpr uint32_t kRowWords = kSmallCapacity / 32;
// Vectors of 128 bits of a row.
constexpr uint32_t kRowVectors = kRowWords / 4;
constexpr uint16_t kNoRank = 0xffff;
// The bit of nobody, past those of all.
constexpr uint16_t kNoBit = kSmallCapacity;
// Words, two suppressors each, that the thread that settles has for its lists:
// those of one candidate or, of more than a half, of two.
constexpr uint32_t kListWords = 16;
// Words of a list that stand in the note.
constexpr uint32_t kNotedWords = sizeof(Note::noted) / 4;

// Rows that are compared side by side.
constexpr uint32_t kRowGroups = kMaxRows / 2;

static_assert(kPieceBits == 16, "a piece is half a word");
static_assert(kSmallThreads >= kRowGroups * kPieces, "a thread holds a piece against two rows");

// Between candidates and bits of a row.
__device__ inline uint32_t candidate_of(uint32_t bit) {
    const uint32_t piece = bit / kPieceBits;
    return piece / kPieces * kHalf + bit % kPieceBits * kPieces + piece % kPieces;
}

// Bits that stand for candidates: those of one half, or of both.
__device__ inline uint32_t num_bits_of(uint32_t n) { return n > kHalf ? kSmallCapacity : kHalf; }

// Better suppressors that a list has room for; of more, all are read as bits.
__device__ inline uint32_t list_capacity(uint32_t n) {
    return n > kHalf ? kListWords : 2 * kListWords;
}

__device__ inline uint32_t bit_of(uint32_t candidate) {
    const uint32_t column = candidate % kHalf;
    const uint32_t piece = candidate / kHalf * kPieces + column % kPieces;
    return piece * kPieceBits + column / kPieces;
}
