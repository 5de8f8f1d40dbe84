// The greedy reduction of a sparse bitmask by one block.
#pragma once

#include "nms/bitmask_sparse.cuh"

// Entries of a row in registers, of a thread with one candidate and with two.
constexpr uint32_t kEntriesOfOne = 24;
constexpr uint32_t kEntriesOfTwo = 12;

// A bit per candidate.
struct StateWords {
    uint32_t kept[kRowWords];
    uint32_t undecided[kRowWords];
};

struct SparseReduction {
    // An iteration reads one buffer and writes the other.
    StateWords states[2];
    uint32_t kept_by_rank[kRowWords];
    uint32_t class_over;
};

// A candidate of a thread.
template <uint32_t kEntries>
struct ReducedRow {
    static constexpr uint32_t kAtOnce = 4;
    static_assert(kEntries % kAtOnce == 0, "groups of entries");
    uint32_t index;
    uint32_t rank;
    uint32_t num_entries;
    uint32_t entries[kEntries];
    bool is_kept;
    bool is_undecided;

    // A warp reads its rows; entries past the longest of them stay undefined.
    template <typename Candidate>
    __device__ void read(const NmsArgs<Candidate>& args, uint32_t own, uint32_t n) {
        index = own;
        uint4 header = make_uint4(kNoRank, 0, 0, 0);
        if (own < n) header = reinterpret_cast<const uint4*>(args.scratch.rows.data)[own];
        rank = header.x & 0xffff;
        num_entries = header.x >> 16;
        is_kept = rank != kNoRank && num_entries == 0;
        is_undecided = num_entries != 0;
        const uint32_t longest = __reduce_max_sync(kAllLanes, num_entries);
        const uint32_t first[kFirstEntries] = {header.y, header.z, header.w};
#pragma unroll
        for (uint32_t e = 0; e < kFirstEntries; ++e) entries[e] = e < num_entries ? first[e] : 0;
#pragma unroll
        for (uint32_t e = kFirstEntries; e < kEntries; ++e) entries[e] = 0;
        if (longest <= kFirstEntries) return;
#pragma unroll
        for (uint32_t e = kFirstEntries; e < kEntries; ++e) {
            if (e < num_entries) entries[e] = further_entry(args, own, e);
        }
    }

    // Adds the suppressors in an entry that are kept and that are undecided.
    __device__ static void look_up(const StateWords& states, uint32_t entry, uint32_t& kept,
                                   uint32_t& undecided) {
        // Keeps the compiler from holding the parts of all entries in registers
        // between iterations.
        asm volatile("" : "+r"(entry));
        const uint32_t word = entry >> kWordBits;
        kept |= reinterpret_cast<const uint16_t*>(states.kept)[word] & entry;
        undecided |= reinterpret_cast<const uint16_t*>(states.undecided)[word] & entry;
    }

    // An iteration; `longest` is the longest undecided row of the warp.
    template <typename Candidate>
    __device__ void iterate(const NmsArgs<Candidate>& args, const StateWords& states,
                            uint32_t longest) {
        if (!is_undecided) return;
        uint32_t kept = 0;
        uint32_t undecided = 0;
#pragma unroll
        for (uint32_t first = 0; first < kEntries; first += kAtOnce) {
            if (first >= longest) break;
#pragma unroll
            for (uint32_t e = first; e < first + kAtOnce; ++e) {
                look_up(states, entries[e], kept, undecided);
            }
        }
#pragma unroll 1
        for (uint32_t e = kEntries; e < num_entries; ++e) {
            look_up(states, further_entry(args, index, e), kept, undecided);
        }
        is_kept = kept == 0 && undecided == 0;
        is_undecided = kept == 0 && undecided != 0;
    }
};

// A warp writes the states of its candidates.
__device__ inline void write_states(StateWords& states, uint32_t word, bool is_kept,
                                    bool is_undecided) {
    const uint32_t kept = __ballot_sync(kAllLanes, is_kept);
    const uint32_t undecided = __ballot_sync(kAllLanes, is_undecided);
    if (lane_of() == 0) states.kept[word] = kept;
    if (lane_of() == 0) states.undecided[word] = undecided;
}

// Iterates until every candidate is decided: suppressed if one of its suppressors
// is kept, kept if all are suppressed. In a one-pass suppression every suppressor
// counts, so that the first states are final.
template <typename Policy, uint32_t kEach, uint32_t kEntries, typename Candidate>
__device__ void iterate_sparse(const NmsArgs<Candidate>& args, SparseReduction& shared,
                               ReducedRow<kEntries> (&own)[kEach], uint32_t n) {
    uint32_t current = 0;
    while (true) {
        StateWords& states = shared.states[current];
        bool is_undecided = false;
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            const uint32_t warp = k * kBitmaskWarps + warp_of();
            if (warp * kLanes >= n) continue;
            write_states(states, warp, own[k].is_kept, own[k].is_undecided);
            is_undecided |= own[k].is_undecided;
        }
        if (!__syncthreads_or(is_undecided && !Policy::kAnySuppresses)) return;
#pragma unroll
        for (uint32_t k = 0; k < kEach; ++k) {
            const uint32_t num = own[k].is_undecided ? own[k].num_entries : 0;
            const uint32_t longest = __reduce_max_sync(kAllLanes, num);
            if (longest != 0) own[k].iterate(args, states, longest);
        }
        current ^= 1;
    }
}

// Reduces all rows, kEach per thread, and writes the survivors by rank.
template <typename Policy, uint32_t kEach, typename Candidate>
__device__ void reduce_sparse(const NmsArgs<Candidate>& args, SparseReduction& shared, uint32_t n,
                              uint32_t max_num) {
    const uint32_t lane = lane_of();
    // Final since the last ticket was taken.
    if (threadIdx.x == 0) shared.class_over = args.scratch.ticket[1];
    ReducedRow<kEach == 1 ? kEntriesOfOne : kEntriesOfTwo> own[kEach];
    Kept in_order[kEach] = {};
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t index = k * kBitmaskThreads + threadIdx.x;
        if (index < n) in_order[k] = args.scratch.order[index];
        own[k].read(args, index, n);
    }
    if (threadIdx.x < kRowWords) shared.kept_by_rank[threadIdx.x] = 0;
    iterate_sparse<Policy>(args, shared, own, n);
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t rank = own[k].rank;
        if (own[k].is_kept) atomicOr(&shared.kept_by_rank[rank / 32], 1u << (rank % 32));
    }
    __syncthreads();
    static_assert(kRowWords == 2 * kLanes, "two words a lane");
    const uint32_t low = __popc(shared.kept_by_rank[2 * lane]);
    const uint32_t both = low + __popc(shared.kept_by_rank[2 * lane + 1]);
    uint32_t sum = both;
#pragma unroll
    for (uint32_t step = 1; step < kLanes; step *= 2) {
        const uint32_t other = __shfl_up_sync(kAllLanes, sum, step);
        if (lane >= step) sum += other;
    }
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) {
        const uint32_t word = warp_of() + k * kBitmaskWarps;
        const uint32_t kept = shared.kept_by_rank[word];
        const uint32_t before_pair = __shfl_sync(kAllLanes, sum - both, word / 2);
        const uint32_t before_word = __shfl_sync(kAllLanes, low, word / 2);
        const uint32_t position =
            before_pair + (word % 2 != 0 ? before_word : 0) + num_lanes_before(kept);
        if ((kept >> lane & 1) == 0 || position >= max_num) continue;
        args.output.write(position, in_order[k]);
    }
    const uint32_t num_kept = __shfl_sync(kAllLanes, sum, kLanes - 1);
    if (threadIdx.x == 0) {
        args.output.write_counts({min(num_kept, max_num), shared.class_over});
        args.scratch.ticket[0] = 0;
        args.scratch.ticket[1] = 0;
    }
}
