// Decoding of YOLO heads: src/ops/decode_yolo/mod.rs, and the choice of the
// best: src/ops/select/mod.rs. One kernel does both.
//
// Blocks read their rows and append what passes, in any order; a candidate's
// source makes the total order strict, so that whoever sorts by it gets the
// same answer whatever the order was. Everything found is remembered. When all
// of it fits, the last block only writes the numbers; when more was found, it
// looks for the word of the total order at which to cut, digit by digit, and
// takes what lies before it.

#include <cuda_fp16.h>

#include "candidate.cuh"
#include "slice.cuh"

namespace yolo {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kLanes = 32;
constexpr uint32_t kWarps = kThreads / kLanes;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr uint32_t kMaxLevels = 8;
constexpr uint32_t kDigits = 256;
constexpr uint32_t kRowsPerBlock = 128;

// Found, wanted and blocks that are done, counted in one word.
struct Totals {
    static constexpr uint32_t kBits = 22;
    static constexpr uint64_t kDone = 1ull << 2 * kBits;
    uint64_t word;

    __device__ uint32_t num_found() const { return word & ((1u << kBits) - 1); }
    __device__ uint32_t num_wanted() const { return word >> kBits & ((1u << kBits) - 1); }
    __device__ uint32_t num_done() const { return word >> 2 * kBits; }
};

// The mirrors of these stand in src/device/cuda/abi/decode_yolo.rs.
struct Settings {
    float score_threshold;
    uint32_t top_k;
    uint32_t has_filter;
    uint32_t capacity;
};

struct Level {
    uint32_t first_row;
    uint32_t num_columns;
    float stride;
    uint32_t reserved;
};

template <typename T>
struct Args {
    Slice<const T> values;
    Slice<const Settings> settings;
    Slice<const uint32_t> wanted;  // a bit a class
    Slice<Candidate2d> found;      // a place a row
    Slice<Candidate2d> items;
    Slice<uint32_t> num;
    Slice<uint64_t> totals;  // `Totals`, empty between launches
    Slice<DecodeCounts> counts;
    uint32_t num_rows;
    uint32_t num_classes;
    uint32_t num_levels;
    uint32_t reserved;
    Level levels[kMaxLevels];
};

// What a block found.
struct Found {
    Candidate2d items[kThreads];
    uint32_t wanted_positions[kThreads];
    uint32_t num;
    uint32_t num_wanted;
    Totals before;
};

__device__ inline float widened(float value) { return value; }
__device__ inline float widened(__half value) { return __half2float(value); }

template <typename T>
__device__ bool is_wanted(const Args<T>& args, uint32_t class_index) {
    if (args.settings[0].has_filter == 0) return true;
    return (args.wanted[class_index / 32] >> (class_index % 32) & 1) != 0;
}

// For one thread: adds a candidate, if its numbers are finite.
template <typename T>
__device__ void add(const Args<T>& args, Found& found, const Candidate2d& candidate) {
    if (!isfinite(candidate.rank.score) || !has_finite_box(candidate)) return;
    const uint32_t position = atomicAdd(&found.num, 1);
    found.items[position] = candidate;
    const bool wanted = is_wanted(args, candidate.rank.class_index);
    found.wanted_positions[position] = wanted ? atomicAdd(&found.num_wanted, 1) : kLast;
}

// The words of the total order: the smaller key comes first.
struct Key {
    uint32_t words[3];
};

constexpr Key kLastKey = {{0xffffffffu, 0xffffffffu, 0xffffffffu}};

__device__ inline Key key_of(const Candidate2d* candidate) {
    // Written by other blocks: read where their writes are.
    const float score = __ldcg(&candidate->rank.score);
    return {{order_word(score, true), __ldcg(&candidate->rank.class_index),
             __ldcg(&candidate->rank.source)}};
}

__device__ inline bool is_within(const Key& key, const Key& bound) {
    if (key.words[0] != bound.words[0]) return key.words[0] < bound.words[0];
    if (key.words[1] != bound.words[1]) return key.words[1] < bound.words[1];
    return key.words[2] <= bound.words[2];
}

// For all threads: `visit(position, whether it is one, key)` for each found,
// in step, many keys on their way at once.
template <typename Visit>
__device__ void for_each_key(const Candidate2d* found, uint32_t n, const Visit& visit) {
    constexpr uint32_t kAtOnce = 8;
    for (uint32_t start = 0; start < n; start += kAtOnce * kThreads) {
        Key keys[kAtOnce];
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            const uint32_t i = start + k * kThreads + threadIdx.x;
            keys[k] = i < n ? key_of(found + i) : kLastKey;
        }
#pragma unroll
        for (uint32_t k = 0; k < kAtOnce; ++k) {
            const uint32_t i = start + k * kThreads + threadIdx.x;
            visit(i, i < n, keys[k]);
        }
    }
}

// Counts of one digit, and which digit the wanted position falls into.
struct Digits {
    uint32_t counts[kDigits];
    uint32_t digit;
    uint32_t num_before;
    uint32_t num_here;
};

// For the first warp: the digit that holds position `remaining`, from 1.
__device__ void find_digit(Digits& digits, uint32_t remaining) {
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

// A key at or before which lie exactly `num` of the candidates that count;
// there are at least `num`, and `num` is at least 1.
template <typename Counts>
__device__ Key bound_of(const Candidate2d* found, uint32_t n, uint32_t num, Digits& digits,
                        const Counts& counts) {
    Key bound = {};
    uint32_t remaining = num;
    for (uint32_t word = 0; word < 3; ++word) {
        for (uint32_t shift = 32; shift != 0;) {
            shift -= 8;
            digits.counts[threadIdx.x] = 0;
            __syncthreads();
            for_each_key(found, n, [&](uint32_t, bool is_one, const Key& key) {
                bool same = is_one && counts(key);
                for (uint32_t w = 0; w < word; ++w) same &= key.words[w] == bound.words[w];
                const uint32_t difference = key.words[word] ^ bound.words[word];
                same &= shift == 24 || difference >> (shift + 8) == 0;
                const uint32_t digit = same ? key.words[word] >> shift & 0xff : kDigits;
                // Equal digits of a warp are counted together.
                const uint32_t equal = __match_any_sync(kAllLanes, digit);
                if (same && __ffs(equal) - 1 == threadIdx.x % kLanes) {
                    atomicAdd(&digits.counts[digit], __popc(equal));
                }
            });
            __syncthreads();
            if (threadIdx.x < kLanes) find_digit(digits, remaining);
            __syncthreads();
            bound.words[word] |= digits.digit << shift;
            remaining -= digits.num_before;
            const bool takes_all = remaining == digits.num_here;
            __syncthreads();
            if (takes_all) {
                // Whatever the other digits are.
                bound.words[word] |= (1u << shift) - 1;
                for (uint32_t w = word + 1; w < 3; ++w) bound.words[w] = 0xffffffffu;
                return bound;
            }
        }
    }
    return bound;
}

// The most candidates that go on.
template <typename T>
__device__ uint32_t most_taken(const Args<T>& args) {
    return min(args.settings[0].top_k, static_cast<uint32_t>(args.items.len));
}

// For the last block, when not all that was found can stay.
template <typename T>
__device__ void cut(const Args<T>& args, Digits& digits, uint32_t* num_taken, uint32_t num_found) {
    const Candidate2d* found = args.found.data;
    const uint32_t n = min(num_found, static_cast<uint32_t>(args.found.len));
    const uint32_t capacity = args.settings[0].capacity;
    const uint32_t top_k = most_taken(args);
    Key bound = kLastKey;
    if (n > capacity) {
        bound = bound_of(found, n, capacity, digits, [](const Key&) { return true; });
    }
    const auto counts = [&args, first = bound](const Key& key) {
        return is_within(key, first) && is_wanted(args, key.words[1]);
    };
    for_each_key(found, n, [&](uint32_t, bool is_one, const Key& key) {
        if (is_one && counts(key)) atomicAdd(num_taken, 1);
    });
    __syncthreads();
    const uint32_t num_within = *num_taken;
    __syncthreads();
    const uint32_t num_over_top_k = num_within > top_k ? num_within - top_k : 0;
    if (num_over_top_k > 0 && top_k > 0) bound = bound_of(found, n, top_k, digits, counts);
    if (threadIdx.x == 0) *num_taken = 0;
    __syncthreads();
    for_each_key(found, top_k > 0 ? n : 0, [&](uint32_t i, bool is_one, const Key& key) {
        if (!is_one || !counts(key) || !is_within(key, bound)) return;
        const uint32_t position = atomicAdd(num_taken, 1);
        if (position >= args.items.len) return;
        const uint32_t* from = reinterpret_cast<const uint32_t*>(found + i);
        uint32_t* to = reinterpret_cast<uint32_t*>(&args.items[position]);
        for (uint32_t w = 0; w < sizeof(Candidate2d) / 4; ++w) to[w] = __ldcg(from + w);
    });
    if (threadIdx.x == 0) {
        const uint32_t num = num_within - num_over_top_k;
        args.num[0] = num;
        args.counts[0] = {num_found, n > capacity ? n - capacity : 0, num_over_top_k, num};
    }
}

// For all threads of a block, once: appends what the block found. The last
// block writes the numbers, cuts if it must and empties the counters.
template <typename T>
__device__ void append(const Args<T>& args, Found& found, Digits& digits) {
    __syncthreads();
    const uint32_t own = threadIdx.x;
    auto* totals = reinterpret_cast<unsigned long long*>(&args.totals[0]);
    if (found.num != 0) {
        if (own == 0) {
            const uint64_t num_wanted = found.num_wanted;
            found.before.word = atomicAdd(totals, num_wanted << Totals::kBits | found.num);
        }
        __syncthreads();
        if (own < found.num) {
            const uint32_t place = found.before.num_found() + own;
            if (place < args.found.len) args.found[place] = found.items[own];
            const uint32_t wanted = found.wanted_positions[own];
            const uint32_t position = found.before.num_wanted() + wanted;
            if (wanted != kLast && position < args.items.len) {
                args.items[position] = found.items[own];
            }
            __threadfence();
        }
        __syncthreads();
    }
    if (own == 0) found.before.word = atomicAdd(totals, Totals::kDone);
    __syncthreads();
    if (found.before.num_done() != gridDim.x - 1) return;
    __threadfence();
    if (own == 0) {
        args.totals[0] = 0;
        found.num_wanted = 0;
    }
    __syncthreads();
    const uint32_t num_found = found.before.num_found();
    const uint32_t num_wanted = found.before.num_wanted();
    if (num_found > args.settings[0].capacity || num_wanted > most_taken(args)) {
        cut(args, digits, &found.num_wanted, num_found);
    } else if (own == 0) {
        args.num[0] = num_wanted;
        args.counts[0] = {num_found, 0, 0, num_wanted};
    }
}

__device__ inline Candidate2d from_center(float4 box, float score, uint32_t class_index,
                                          uint32_t source) {
    const float half_width = box.z * 0.5f;
    const float half_height = box.w * 0.5f;
    return {box.x - half_width, box.y - half_height, box.x + half_width, box.y + half_height,
            {score, class_index, source}};
}

// For lanes 0 to 3: one number of a box that lies in a cell of its level.
template <typename T>
__device__ float placed_in_cell(const Args<T>& args, uint32_t row, uint32_t lane, float value) {
    Level level = args.levels[0];
#pragma unroll
    for (uint32_t i = 1; i < kMaxLevels; ++i) {
        if (i < args.num_levels && row >= args.levels[i].first_row) level = args.levels[i];
    }
    const uint32_t cell = row - level.first_row;
    if (lane >= 2) return static_cast<float>(exp(static_cast<double>(value))) * level.stride;
    const uint32_t at = lane == 0 ? cell % level.num_columns : cell / level.num_columns;
    return (value + static_cast<float>(at)) * level.stride;
}

// For a warp: decodes a row whose objectness passes.
template <typename T, bool kCells>
__device__ void decode_row(const Args<T>& args, Found& found, uint32_t row, float objectness) {
    const uint32_t lane = threadIdx.x % kLanes;
    const T* values = args.values.data + static_cast<uint64_t>(row) * (5 + args.num_classes);
    float number = widened(values[lane % 4]);
    float best = -INFINITY;
    uint32_t best_class = kLast;
#pragma unroll 4
    for (uint32_t c = lane; c < args.num_classes; c += kLanes) {
        const float value = widened(values[5 + c]);
        if (value > best) {
            best = value;
            best_class = c;
        }
    }
    // A word that rises with the value; zeros of both signs are equal.
    const uint32_t word = ~order_word(best + 0.0f, best_class != kLast);
    const uint32_t highest = __reduce_max_sync(kAllLanes, word);
    if (highest == 0) return;
    best_class = __reduce_min_sync(kAllLanes, word == highest ? best_class : kLast);
    best = __shfl_sync(kAllLanes, best, best_class % kLanes);
    const float score = objectness * best;
    if (!(score >= args.settings[0].score_threshold)) return;
    if (kCells) number = placed_in_cell(args, row, lane % 4, number);
    const float4 box = {__shfl_sync(kAllLanes, number, 0), __shfl_sync(kAllLanes, number, 1),
                        __shfl_sync(kAllLanes, number, 2), __shfl_sync(kAllLanes, number, 3)};
    if (lane == 0) add(args, found, from_center(box, score, best_class, row));
}

// Rows `… objectness classes`. Half of the threads look at one objectness
// each; a warp takes a row that passes. A block's rows lie far apart, since those that pass lie
// together.
template <typename T, bool kCells>
__device__ void decode_rows(const Args<T>& args) {
    __shared__ Found found;
    __shared__ Digits digits;
    __shared__ uint32_t rows[kRowsPerBlock];
    __shared__ float objectness[kRowsPerBlock];
    __shared__ uint32_t num_rows;
    if (threadIdx.x == 0) {
        found.num = 0;
        found.num_wanted = 0;
        num_rows = 0;
    }
    const uint64_t row = static_cast<uint64_t>(threadIdx.x) * gridDim.x + blockIdx.x;
    const bool is_row = threadIdx.x < kRowsPerBlock && row < args.num_rows;
    const float own = is_row ? widened(args.values[row * (5 + args.num_classes) + 4]) : 0.0f;
    const bool passes = is_row && own >= args.settings[0].score_threshold;
    __syncthreads();
    if (passes) {
        const uint32_t position = atomicAdd(&num_rows, 1);
        rows[position] = static_cast<uint32_t>(row);
        objectness[position] = own;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x / kLanes; i < num_rows; i += kWarps) {
        decode_row<T, kCells>(args, found, rows[i], objectness[i]);
    }
    append(args, found, digits);
}

// Planes of columns: cx cy w h, then a plane a class. A block takes 32
// columns, each warp a share of the classes, in rising order.
template <typename T>
__device__ void decode_planes(const Args<T>& args) {
    __shared__ Found found;
    __shared__ Digits digits;
    __shared__ float bests[kWarps][kLanes];
    __shared__ uint32_t classes[kWarps][kLanes];
    __shared__ float boxes[4][kLanes];
    if (threadIdx.x == 0) {
        found.num = 0;
        found.num_wanted = 0;
    }
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    const uint64_t column = static_cast<uint64_t>(blockIdx.x) * kLanes + lane;
    const uint64_t distance = args.num_rows;
    const bool is_column = column < args.num_rows;
    const uint32_t share = (args.num_classes + kWarps - 1) / kWarps;
    const uint32_t end = min((warp + 1) * share, args.num_classes);
    float best = -INFINITY;
    uint32_t best_class = 0;
    if (is_column) {
        const T* values = args.values.data + column;
        if (warp < 4) boxes[warp][lane] = widened(values[warp * distance]);
#pragma unroll 10
        for (uint32_t c = warp * share; c < end; ++c) {
            const float value = widened(values[(4 + c) * distance]);
            if (value > best) {
                best = value;
                best_class = c;
            }
        }
    }
    bests[warp][lane] = best;
    classes[warp][lane] = best_class;
    __syncthreads();
    if (warp == 0 && is_column) {
        for (uint32_t other = 1; other < kWarps; ++other) {
            if (bests[other][lane] > best) {
                best = bests[other][lane];
                best_class = classes[other][lane];
            }
        }
        if (best >= args.settings[0].score_threshold) {
            const float4 box = {boxes[0][lane], boxes[1][lane], boxes[2][lane], boxes[3][lane]};
            add(args, found, from_center(box, best, best_class, static_cast<uint32_t>(column)));
        }
    }
    append(args, found, digits);
}

}  // namespace yolo

#define DECODE_YOLO_KERNELS(T, suffix)                                                \
    extern "C" __global__ void __launch_bounds__(yolo::kThreads)                      \
        decode_yolo_rows_##suffix(const __grid_constant__ yolo::Args<T> args) {       \
        yolo::decode_rows<T, false>(args);                                            \
    }                                                                                 \
    extern "C" __global__ void __launch_bounds__(yolo::kThreads)                      \
        decode_yolo_cells_##suffix(const __grid_constant__ yolo::Args<T> args) {      \
        yolo::decode_rows<T, true>(args);                                             \
    }                                                                                 \
    extern "C" __global__ void __launch_bounds__(yolo::kThreads)                      \
        decode_yolo_planes_##suffix(const __grid_constant__ yolo::Args<T> args) {     \
        yolo::decode_planes<T>(args);                                                 \
    }

DECODE_YOLO_KERNELS(float, f32)
DECODE_YOLO_KERNELS(__half, f16)
