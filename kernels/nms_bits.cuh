// How the step small keeps who suppresses whom.
//
// Candidates stand 16 to a piece. Who suppresses a candidate is a list of
// entries: a piece, and a bit for each candidate of it that does.
#pragma once

#include "nms_args.cuh"

constexpr uint32_t kSmallCapacity = 2048;
constexpr uint32_t kSmallThreads = 1024;
constexpr uint32_t kSmallWarps = kSmallThreads / kLanes;
// The most candidates that a block owns, its rows.
constexpr uint32_t kMaxRows = 16;
// Rows that are compared between two sums.
constexpr uint32_t kRowsAtOnce = 4;
constexpr uint32_t kPieceBits = 16;
constexpr uint32_t kPieces = kSmallCapacity / kPieceBits;
// Words of bits, a candidate each, of a row.
constexpr uint32_t kRowWords = kSmallCapacity / 32;
// The rank of candidates that take no part.
constexpr uint32_t kNoRank = 0xffff;
// Entries that stand in the note.
constexpr uint32_t kNotedEntries = sizeof(Note::noted) / 4;
// Entries of a list that the thread that settles has registers for, of one
// candidate or of each of two.
constexpr uint32_t kHeldOfOne = 24;
constexpr uint32_t kHeldOfTwo = 12;

static_assert(kMaxRows == kPieceBits, "a thread's rows are half a word");

// An entry of a candidate's list that does not stand in its note.
template <typename Candidate>
__device__ uint32_t& further_entry(const NmsArgs<Candidate>& args, uint32_t own,
                                   uint32_t position) {
    const uint32_t capacity = static_cast<uint32_t>(args.candidates.len);
    return args.entries[(position - kNotedEntries) * capacity + own];
}
