// Selects the best of the candidates that a decoder finds: crates/ops/src/decode/select/mod.rs.
//
// Decoders append the candidates that pass, in any order: sources make the total
// order strict, so that sorting gives the same result for every order. All found
// candidates are stored. If all fit, the block that counts last only writes their
// number. Otherwise it waits until the other blocks have written what they have
// counted, finds the last key of the total order to take, by a radix search, and
// takes the candidates up to it.
#pragma once

#include <cuda_fp16.h>

#include "shared/candidate.cuh"
#include "shared/counters.cuh"
#include "shared/slice.cuh"

namespace selection {

// Threads per block of a decoder.
constexpr uint32_t kThreads = 256;
constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr uint32_t kDigits = 256;

// The bits of a count in `Totals`.
constexpr uint32_t kTotalBits = 22;

// The numbers of found candidates, of wanted ones, and of finished blocks in one word.
struct Totals {
    static constexpr uint32_t kBits = kTotalBits;
    static constexpr uint64_t kDone = 1ull << 2 * kBits;
    uint64_t word;

    __device__ uint32_t num_found() const { return word & ((1u << kBits) - 1); }
    __device__ uint32_t num_wanted() const { return word >> kBits & ((1u << kBits) - 1); }
    __device__ uint32_t num_done() const { return word >> 2 * kBits; }
};

// In Rust: `SelectSettings` in crates/ops/src/decode/select/kernels.rs.
struct Settings {
    float score_threshold;
    uint32_t top_k;
    uint32_t has_filter;
    uint32_t capacity;
};

// The parameters that all decoders share.
template <typename Candidate>
struct Slices {
    Slice<const Settings> settings;
    Slice<const uint32_t> wanted;  // a bit per class
    Slice<Candidate> found;        // as many as may pass
    Slice<uint32_t> words;         // `order_word` of each found candidate
    Slice<Candidate> items;
    Slice<uint32_t> num;
    // `Totals`, zero between launches; the candidates written to `found` in all
    // launches; those written before this launch.
    Slice<uint64_t> totals;
    Counters counters;
};

__device__ inline float widened(float value) { return value; }
__device__ inline float widened(__half value) { return __half2float(value); }

// For any thread, several times: counts boxes with a NaN among the scores that were read.
// A frame without one costs a predicate.
template <typename Candidate>
__device__ void count_nan(const Slices<Candidate>& args, uint32_t num) {
    if (num != 0) atomicAdd(&args.counters[kScoresNan], num);
}

// For any thread, several times: counts a box whose score passes and that is no box.
template <typename Candidate>
__device__ void count_invalid(const Slices<Candidate>& args) {
    atomicAdd(&args.counters[kBoxesInvalid], 1);
}

// Whether a class that a network gives is one of the head, for a candidate whose score passes;
// counts it if not.
template <typename Candidate>
__device__ bool check_class(const Slices<Candidate>& args, uint32_t class_index) {
    if (class_index == kLast) atomicAdd(&args.counters[kClassesUnknown], 1);
    return class_index != kLast;
}

// Whether a candidate whose score passes is valid; counts it if not.
template <typename Candidate>
__device__ bool check_box(const Slices<Candidate>& args, bool is_valid) {
    if (!is_valid) count_invalid(args);
    return is_valid;
}

template <typename Candidate>
__device__ bool is_wanted(const Slices<Candidate>& args, uint32_t class_index) {
    if (args.settings[0].has_filter == 0) return true;
    if (class_index / 32 >= args.wanted.len) return false;
    return (args.wanted[class_index / 32] >> (class_index % 32) & 1) != 0;
}

// The key of the total order: score word, class, source. Smaller keys rank above.
struct Key {
    uint32_t words[3];
};

constexpr Key kLastKey = {{kLast, kLast, kLast}};

// The key of a found candidate. Its first word is stored with those of all others
// and usually decides; the other two are read from the candidate. It is constant
// after `await_written`.
template <typename Candidate>
struct FoundKey {
    const Slices<Candidate>& args;
    uint32_t index;
    uint32_t first;

    __device__ uint32_t class_index() const { return args.found[index].rank.class_index; }

    __device__ uint32_t word(uint32_t w) const {
        return w == 0 ? first : w == 1 ? class_index() : args.found[index].rank.source;
    }

    __device__ bool is_within(const Key& bound) const {
        if (first != bound.words[0]) return first < bound.words[0];
        if (class_index() != bound.words[1]) return class_index() < bound.words[1];
        return word(2) <= bound.words[2];
    }
};

// For all threads: `visit(is_candidate, key)` for each of the first `n` found, in
// lockstep, with several loads in flight.
template <typename Candidate, typename Visit>
__device__ void for_each_key(const Slices<Candidate>& args, uint32_t n, const Visit& visit) {
    constexpr uint32_t kAtOnce = 4;
    for (uint32_t start = 0; start < n; start += kAtOnce * kThreads) {
        uint32_t words[kAtOnce];
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            const uint32_t i = start + k * kThreads + threadIdx.x;
            words[k] = i < n ? args.words[i] : kLast;
        }
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            const uint32_t i = start + k * kThreads + threadIdx.x;
            visit(i < n, FoundKey<Candidate>{args, i, words[k]});
        }
    }
}

// The histogram of a digit, and the digit that holds the wanted position.
struct Digits {
    uint32_t counts[kDigits];
    uint32_t digit;
    uint32_t num_before;
    uint32_t num_here;
};

// For the first warp: finds the digit that holds position `remaining`, counted from 1.
__device__ inline void find_digit(Digits& digits, uint32_t remaining) {
    constexpr uint32_t kEach = kDigits / kLanes;
    const uint32_t lane = threadIdx.x;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < kEach; ++i) sum += digits.counts[lane * kEach + i];
    uint32_t end = sum;
    for (uint32_t step = 1; step < kLanes; step *= 2) {
        const uint32_t other = __shfl_up_sync(kAllLanes, end, step);
        if (lane >= step) end += other;
    }
    uint32_t before = end - sum;
    if (before >= remaining || end < remaining) return;
    for (uint32_t i = 0; i < kEach; ++i) {
        const uint32_t here = digits.counts[lane * kEach + i];
        if (before + here >= remaining) {
            digits.digit = lane * kEach + i;
            digits.num_before = before;
            digits.num_here = here;
            return;
        }
        before += here;
    }
}

// Finds a key that exactly `num` of the counted candidates do not exceed;
// there are at least `num`, and `num` is at least 1. `bound` is in shared
// memory.
template <typename Candidate, typename Counts>
__device__ void find_bound(const Slices<Candidate>& args, uint32_t n, uint32_t num, Digits& digits,
                           Key& bound, const Counts& counts) {
    if (threadIdx.x == 0) bound = {};
    uint32_t remaining = num;
    for (uint32_t word = 0; word < 3; ++word) {
        for (uint32_t shift = 32; shift != 0;) {
            shift -= 8;
            digits.counts[threadIdx.x] = 0;
            __syncthreads();
            for_each_key(args, n, [&](bool is_one, const FoundKey<Candidate>& key) {
                bool same = is_one && (word == 0 || key.first == bound.words[0]);
                same = same && (word < 2 || key.class_index() == bound.words[1]);
                const uint32_t own = same ? key.word(word) : 0;
                same = same && (shift == 24 || (own ^ bound.words[word]) >> (shift + 8) == 0);
                same = same && counts(key);
                if (same) atomicAdd(&digits.counts[own >> shift & 0xff], 1);
            });
            __syncthreads();
            if (threadIdx.x < kLanes) find_digit(digits, remaining);
            __syncthreads();
            remaining -= digits.num_before;
            const bool takes_all = remaining == digits.num_here;
            if (threadIdx.x == 0) {
                // If all candidates with these digits are taken, the others are maximal.
                const uint32_t others = takes_all ? (1u << shift) - 1 : 0;
                bound.words[word] |= digits.digit << shift | others;
                for (uint32_t w = word + 1; w < 3; ++w) bound.words[w] = takes_all ? kLast : 0;
            }
            __syncthreads();
            if (takes_all) return;
        }
    }
}

// The shared memory of the selection.
struct Shared {
    Digits digits;
    // The last key within the capacity, and the last that is taken.
    Key within;
    Key taken;
    uint32_t num_taken;
    // By warp: the found candidates and, above 16 bits, the wanted ones.
    uint32_t sums[kThreads / kLanes];
    Totals before;
};

// The maximum number of candidates that are taken.
template <typename Candidate>
__device__ uint32_t most_taken(const Slices<Candidate>& args) {
    return min(args.settings[0].top_k, static_cast<uint32_t>(args.items.len));
}

// For the last block, if not all found candidates are taken.
template <typename Candidate, typename Note>
__device__ void cut(const Slices<Candidate>& args, Shared& shared, uint32_t num_found,
                    const Note& note) {
    using Found = FoundKey<Candidate>;
    uint32_t* num_taken = &shared.num_taken;
    const uint32_t n = min(num_found, static_cast<uint32_t>(args.found.len));
    const uint32_t capacity = args.settings[0].capacity;
    const uint32_t top_k = most_taken(args);
    if (threadIdx.x == 0) shared.within = shared.taken = kLastKey;
    __syncthreads();
    if (n > capacity) {
        find_bound(args, n, capacity, shared.digits, shared.within,
                   [](const Found&) { return true; });
    }
    const bool has_filter = args.settings[0].has_filter != 0;
    const auto counts = [&args, &shared, has_filter](const Found& key) {
        return key.is_within(shared.within) && (!has_filter || is_wanted(args, key.class_index()));
    };
    for_each_key(args, n, [&](bool is_one, const Found& key) {
        const uint32_t votes = __ballot_sync(kAllLanes, is_one && counts(key));
        if (threadIdx.x % kLanes == 0 && votes != 0) atomicAdd(num_taken, __popc(votes));
    });
    __syncthreads();
    const uint32_t num_within = *num_taken;
    __syncthreads();
    const uint32_t num_over_top_k = num_within > top_k ? num_within - top_k : 0;
    if (num_over_top_k > 0 && top_k > 0) {
        find_bound(args, n, top_k, shared.digits, shared.taken, counts);
    }
    if (threadIdx.x == 0) *num_taken = 0;
    __syncthreads();
    for_each_key(args, top_k > 0 ? n : 0, [&](bool is_one, const Found& key) {
        const bool taken = is_one && key.is_within(shared.taken) && counts(key);
        const uint32_t votes = __ballot_sync(kAllLanes, taken);
        uint32_t before = 0;
        if (threadIdx.x % kLanes == 0 && votes != 0) before = atomicAdd(num_taken, __popc(votes));
        const uint32_t lower = (1u << threadIdx.x % kLanes) - 1;
        const uint32_t position = __shfl_sync(kAllLanes, before, 0) + __popc(votes & lower);
        if (!taken || position >= args.items.len) return;
        args.items[position] = args.found[key.index];
        note(position, key.index);
    });
    if (threadIdx.x == 0) {
        const uint32_t num = num_within - num_over_top_k;
        args.num[0] = num;
        const uint32_t num_over_capacity = n > capacity ? n - capacity : 0;
        Counter(args.counters, kCandidatesOverCapacity).add(num_over_capacity);
        Counter(args.counters, kCandidatesOverTopK).add(num_over_top_k);
    }
}

// For one thread: waits until all candidates counted in this launch are written.
__device__ inline void await_written(const uint64_t* totals, uint32_t num_found) {
    uint64_t written;
    do {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
                     : "=l"(written)
                     : "l"(totals + 1)
                     : "memory");
    } while (written != totals[2] + num_found);
}

// For all threads of the block that counted last.
template <typename Candidate, typename Note>
__device__ void finish(const Slices<Candidate>& args, Shared& shared, uint32_t num_found,
                       uint32_t num_wanted, const Note& note) {
    if (num_found > args.settings[0].capacity || num_wanted > most_taken(args)) {
        if (threadIdx.x == 0) {
            await_written(args.totals.data, num_found);
            shared.num_taken = 0;
        }
        __syncthreads();
        __threadfence();
        cut(args, shared, num_found, note);
    } else if (threadIdx.x == 0) {
        args.num[0] = num_wanted;
    }
    if (threadIdx.x == 0) {
        args.totals[0] = 0;
        // The result of the addition is not used, so that no thread waits for it.
        atomicAdd(reinterpret_cast<unsigned long long*>(&args.totals[2]), num_found);
    }
}

// For all threads of a block, once: appends those of `num` candidates that pass.
// `decode(i, candidate)`: whether candidate `i` passes, and its values;
// `found(index)`: called with the index in `found` of the thread's candidate;
// `note(position, index)`: called with the position in `items` of a found candidate.
template <typename Candidate, typename Decode, typename FoundAt, typename Note>
__device__ void append(const Slices<Candidate>& args, Shared& shared, uint32_t num,
                       const Decode& decode, const FoundAt& found, const Note& note) {
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    auto* totals = reinterpret_cast<unsigned long long*>(args.totals.data);
    for (uint32_t start = 0;; start += kThreads) {
        Candidate candidate = {};
        const uint32_t own = start + threadIdx.x;
        const bool passes = own < num && decode(own, candidate);
        const bool wanted = passes && is_wanted(args, candidate.rank.class_index);
        const uint32_t votes = __ballot_sync(kAllLanes, passes);
        const uint32_t wanted_votes = __ballot_sync(kAllLanes, wanted);
        if (lane == 0) shared.sums[warp] = __popc(votes) | __popc(wanted_votes) << 16;
        __syncthreads();
        uint32_t before = 0;
        uint32_t total = 0;
        for (uint32_t i = 0; i < kThreads / kLanes; ++i) {
            before += i < warp ? shared.sums[i] : 0;
            total += shared.sums[i];
        }
        const uint32_t num_found = total & 0xffff;
        const uint64_t num_wanted = total >> 16;
        const bool is_end = start + kThreads >= num;
        if (threadIdx.x == 0) {
            shared.before.word = atomicAdd(
                totals, (is_end ? Totals::kDone : 0) | num_wanted << Totals::kBits | num_found);
        }
        __syncthreads();
        const Totals counted = shared.before;
        if (passes) {
            const uint32_t lower = (1u << lane) - 1;
            const uint32_t index = counted.num_found() + (before & 0xffff) + __popc(votes & lower);
            const uint32_t position =
                counted.num_wanted() + (before >> 16) + __popc(wanted_votes & lower);
            if (index < args.found.len) {
                args.found[index] = candidate;
                args.words[index] = order_word(candidate.rank.score, true);
            }
            found(index);
            if (wanted && position < args.items.len) {
                args.items[position] = candidate;
                note(position, index);
            }
            __threadfence();
        }
        if (num_found != 0) {
            __syncthreads();
            if (threadIdx.x == 0) atomicAdd(totals + 1, static_cast<unsigned long long>(num_found));
        }
        if (!is_end) continue;
        if (counted.num_done() == gridDim.x * gridDim.y - 1) {
            finish(args, shared, counted.num_found() + num_found,
                   counted.num_wanted() + static_cast<uint32_t>(num_wanted), note);
        }
        return;
    }
}

}  // namespace selection
