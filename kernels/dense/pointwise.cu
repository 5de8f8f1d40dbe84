// Runs straight-line programs on every element of strided tensors:
// crates/ops/src/dense/pointwise/mod.rs.
//
// A launch has up to four jobs, which do not depend on each other: a block is of one. A thread has
// an element, or 8 neighbours where all tensors have them beside each other. The instructions are
// the same in all threads: a branch on one does not diverge. The registers of the program are in
// shared memory, where instructions can name them; a thread reads only its words. A kernel without
// jobs of neighbours needs less of it and fewer registers: more of its blocks run at once. A copy
// between tensors that change along different dimensions goes through shared memory. Reads: the
// sources, before any store of the same elements. Writes: the targets.

#include "dense/activation.cuh"
#include "dense/tensor.cuh"
#include "shared/pdl.cuh"

namespace dense_pointwise {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kMaxSources = 6;
constexpr uint32_t kMaxTargets = 4;
constexpr uint32_t kMaxInstructions = 16;
constexpr uint32_t kRegisters = 8;
constexpr uint32_t kMaxConstants = 16;
constexpr uint32_t kMaxJobs = 4;
// Rows and columns of a tile of a transposed copy.
constexpr uint32_t kTile = 32;

// What a thread has.
enum Shape : uint32_t {
    kElement = 0,
    kNeighbours = 1,
    kTransposed = 2,  // part of a tile
};

// Of f32 unless they say integer; comparisons give the integers 0 and 1.
enum Op : uint32_t {
    kAdd = 0,
    kSub = 1,
    kMul = 2,
    kDiv = 3,
    kMin = 4,
    kMax = 5,
    kPow = 6,
    kEqual = 7,
    kLess = 8,
    kLessOrEqual = 9,
    kNeg = 10,
    kAbs = 11,
    kSign = 12,
    kSqrt = 13,
    kFloor = 14,
    kCeil = 15,
    kRound = 16,
    kExp = 17,
    kLog = 18,
    kErf = 19,
    kSin = 20,
    kCos = 21,
    kRoundToF16 = 22,
    kToInteger = 23,
    kToBool = 24,
    kActivation = 25,
    kWhere = 26,
    kIntegerAdd = 27,
    kIntegerSub = 28,
    kIntegerMul = 29,
    kIntegerDiv = 30,
    kIntegerMod = 31,
    kIntegerMin = 32,
    kIntegerMax = 33,
    kIntegerEqual = 34,
    kIntegerLess = 35,
    kIntegerLessOrEqual = 36,
    kIntegerNeg = 37,
    kIntegerAbs = 38,
    kIntegerToFloat = 39,
    kAnd = 40,
    kOr = 41,
    kXor = 42,
    kNot = 43,
};

// The structs in Rust: crates/ops/src/dense/pointwise/kernels.rs.
struct Instruction {
    uint32_t op;
    // Registers, or behind them constants; the last is the register that is written.
    uint8_t operands[4];
    dense::Activation activation;
};

struct Job {
    dense::Source sources[kMaxSources];
    dense::Target targets[kMaxTargets];
    dense::Dims dims;  // with 8 neighbours, the last size counts groups
    Instruction instructions[kMaxInstructions];
    uint32_t constants[kMaxConstants];
    uint8_t results[kMaxTargets];  // the operands that are stored
    uint32_t num_sources;
    uint32_t num_targets;
    uint32_t num_instructions;
    uint32_t num_items;
    uint32_t is_fast;  // activations within the precision of f16
    uint32_t shape;
    uint32_t end_block;  // blocks of the jobs up to this one
};

struct Args {
    Job jobs[kMaxJobs];
    uint32_t num_jobs;
    uint32_t reserved;
};

#define EACH for (uint32_t i = 0; i < kWidth; ++i)
// The registers of a thread; words of a vector are in fours, so that no banks conflict.
template <uint32_t kWidth>
struct Registers {
    uint32_t (*words)[kThreads];
    __device__ void read(uint32_t at, uint32_t (&to)[kWidth]) const {
        to[0] = words[at][threadIdx.x];
    }
    __device__ void write(uint32_t at, const uint32_t (&from)[kWidth]) const {
        words[at][threadIdx.x] = from[0];
    }
};
template <>
struct Registers<dense::kVector> {
    uint4 (*words)[2][kThreads];
    __device__ void read(uint32_t at, uint32_t (&to)[dense::kVector]) const {
        const uint4 low = words[at][0][threadIdx.x], high = words[at][1][threadIdx.x];
        to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
        to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
    }
    __device__ void write(uint32_t at, const uint32_t (&from)[dense::kVector]) const {
        words[at][0][threadIdx.x] = make_uint4(from[0], from[1], from[2], from[3]);
        words[at][1][threadIdx.x] = make_uint4(from[4], from[5], from[6], from[7]);
    }
};

template <uint32_t kWidth>
__device__ void read(const Job& args, const Registers<kWidth>& registers, uint32_t operand,
                     uint32_t (&to)[kWidth]) {
    if (operand < kRegisters) return registers.read(operand, to);
    const uint32_t constant = args.constants[(operand - kRegisters) % kMaxConstants];
#pragma unroll
    EACH to[i] = constant;
}

// 0 where the divisor is 0, and no trap at the lowest integer.
__device__ inline int32_t divided(int32_t a, int32_t b) {
    if (b == 0) return 0;
    return b == -1 ? static_cast<int32_t>(0u - static_cast<uint32_t>(a)) : a / b;
}
// The remainder of the sign of the divisor.
__device__ inline int32_t remainder_of(int32_t a, int32_t b) {
    if (b == 0 || b == -1) return 0;
    const int32_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Functions whose code is too long to be there for every element.
__device__ __noinline__ float function_of(const Instruction& instruction, bool is_fast, float a,
                                          float b) {
    switch (instruction.op) {
        case kIntegerDiv: return __int_as_float(divided(__float_as_int(a), __float_as_int(b)));
        case kIntegerMod: return __int_as_float(remainder_of(__float_as_int(a), __float_as_int(b)));
        case kSqrt: return sqrtf(a);
        case kPow: return powf(a, b);
        case kExp: return expf(a);
        case kLog: return logf(a);
        case kErf: return erff(a);
        case kSin: return sinf(a);
        case kCos: return cosf(a);
        default:
            return is_fast ? dense::activate<true>(instruction.activation, a)
                           : dense::activate<false>(instruction.activation, a);
    }
}

#define FLOAT(op, value)                                                      \
    case op:                                                                  \
        _Pragma("unroll") EACH {                                              \
            const float a = __uint_as_float(x[i]), b = __uint_as_float(y[i]); \
            (void)a, (void)b;                                                 \
            x[i] = __float_as_uint(value);                                    \
        }                                                                     \
        break;
#define WORD(op, value)                                                       \
    case op:                                                                  \
        _Pragma("unroll") EACH {                                              \
            const float a = __uint_as_float(x[i]), b = __uint_as_float(y[i]); \
            (void)a, (void)b;                                                 \
            x[i] = static_cast<uint32_t>(value);                              \
        }                                                                     \
        break;
#define INTEGER(op, value)                                                             \
    case op:                                                                           \
        _Pragma("unroll") EACH {                                                       \
            const auto a = static_cast<int32_t>(x[i]), b = static_cast<int32_t>(y[i]); \
            (void)a, (void)b;                                                          \
            x[i] = static_cast<uint32_t>(value);                                       \
        }                                                                              \
        break;

// One instruction: x becomes its result.
template <uint32_t kWidth>
__device__ void execute(const Instruction& instruction, bool is_fast, uint32_t (&x)[kWidth],
                        const uint32_t (&y)[kWidth], const uint32_t (&z)[kWidth]) {
    switch (instruction.op) {
        FLOAT(kAdd, a + b)
        FLOAT(kSub, a - b)
        FLOAT(kMul, a * b)
        FLOAT(kDiv, a / b)
        FLOAT(kMin, a < b || a != a ? a : b)
        FLOAT(kMax, a > b || a != a ? a : b)
        WORD(kEqual, a == b)
        WORD(kLess, a < b)
        WORD(kLessOrEqual, a <= b)
        FLOAT(kNeg, -a)
        FLOAT(kAbs, fabsf(a))
        FLOAT(kSign, a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : a)
        FLOAT(kFloor, floorf(a))
        FLOAT(kCeil, ceilf(a))
        FLOAT(kRound, rintf(a))
        FLOAT(kRoundToF16, __half2float(__float2half_rn(a)))
        WORD(kToInteger, __float2int_rz(a))
        WORD(kToBool, a != 0.0f)
        FLOAT(kIntegerToFloat, __int2float_rn(static_cast<int32_t>(x[i])))
        INTEGER(kIntegerAdd, x[i] + y[i])
        INTEGER(kIntegerSub, x[i] - y[i])
        INTEGER(kIntegerMul, x[i] * y[i])
        INTEGER(kIntegerMin, a < b ? a : b)
        INTEGER(kIntegerMax, a > b ? a : b)
        INTEGER(kIntegerEqual, a == b)
        INTEGER(kIntegerLess, a < b)
        INTEGER(kIntegerLessOrEqual, a <= b)
        INTEGER(kIntegerNeg, 0u - x[i])
        INTEGER(kIntegerAbs, a < 0 ? 0u - x[i] : x[i])
        INTEGER(kAnd, a != 0 && b != 0)
        INTEGER(kOr, a != 0 || b != 0)
        INTEGER(kXor, (a != 0) != (b != 0))
        INTEGER(kNot, a == 0)
        INTEGER(kWhere, a != 0 ? y[i] : z[i])
        case kActivation:
            if (instruction.activation.kind == dense::kSilu && is_fast) {
#pragma unroll
                EACH {
                    const float a = __uint_as_float(x[i]);
                    x[i] = __float_as_uint(a * dense::sigmoid<true>(a));
                }
                break;
            }
            if (instruction.activation.kind == dense::kRelu) {
#pragma unroll
                EACH x[i] = __float_as_uint(dense::clip_low(__uint_as_float(x[i]), 0.0f));
                break;
            }
            [[fallthrough]];
        default:
#pragma unroll
            EACH {
                const float a = __uint_as_float(x[i]), b = __uint_as_float(y[i]);
                x[i] = __float_as_uint(function_of(instruction, is_fast, a, b));
            }
            break;
    }
}

template <uint32_t kWidth>
__device__ void run(const Job& args, uint32_t block, const Registers<kWidth>& registers) {
    const uint32_t item = block * kThreads + threadIdx.x;
    if (item >= args.num_items) return;
    // All loads come first. A source that does not change along the last dimension is one element.
    uint32_t loaded[kMaxSources][kWidth];
#pragma unroll
    for (uint32_t s = 0; s < kMaxSources; ++s) {
        if (s >= args.num_sources) continue;
        const dense::Source& source = args.sources[s];
        const uint32_t at = dense::offset_of(args.dims, item, source.strides);
        if constexpr (kWidth == 1) {
            loaded[s][0] = dense::load_raw(source, at);
        } else if (source.strides[args.dims.rank - 1] != 0) {
            dense::load_words(source, at, loaded[s]);
        } else {
            const uint32_t word = dense::load_word(source, at);
#pragma unroll
            EACH loaded[s][i] = word;
        }
    }
#pragma unroll
    for (uint32_t s = 0; s < kMaxSources; ++s) {
        if (s >= args.num_sources) continue;
        if constexpr (kWidth == 1) loaded[s][0] = dense::widened(args.sources[s], loaded[s][0]);
        registers.write(s, loaded[s]);
    }
#pragma unroll 1
    for (uint32_t n = 0; n < args.num_instructions; ++n) {
        const Instruction& instruction = args.instructions[n];
        uint32_t x[kWidth], y[kWidth], z[kWidth];
        read(args, registers, instruction.operands[0], x);
        read(args, registers, instruction.operands[1], y);
        if (instruction.op == kWhere) read(args, registers, instruction.operands[2], z);
        execute(instruction, args.is_fast != 0, x, y, z);
        registers.write(instruction.operands[3] % kRegisters, x);
    }
#pragma unroll 1
    for (uint32_t t = 0; t < args.num_targets; ++t) {
        const dense::Target& target = args.targets[t];
        uint32_t words[kWidth];
        read(args, registers, args.results[t], words);
        dense::store_words(target, dense::offset_of(args.dims, item, target.strides), words);
    }
}

// The last dimension is the one along which the target changes by an element, along the one before
// it the source does. A block has a tile of both.
__device__ void transpose(const Job& args, uint32_t block, uint32_t (*tile)[kTile + 1]) {
    constexpr uint32_t kRows = kThreads / kTile;
    const dense::Source& source = args.sources[0];
    const dense::Target& target = args.targets[0];
    const uint32_t last = args.dims.rank - 1;
    const uint32_t num_columns = args.dims.sizes[last], num_rows = args.dims.sizes[last - 1];
    const uint32_t tiles_across = (num_columns + kTile - 1) / kTile,
                   tiles_down = (num_rows + kTile - 1) / kTile;
    const uint32_t first_column = block % tiles_across * kTile,
                   first_row = block / tiles_across % tiles_down * kTile;
    uint32_t outer = block / tiles_across / tiles_down;
    uint32_t from = 0, to = 0;
    for (uint32_t d = last - 1; d-- > 0;) {
        const uint32_t rest = outer / args.dims.sizes[d], at = outer - rest * args.dims.sizes[d];
        from += at * source.strides[d], to += at * target.strides[d];
        outer = rest;
    }
    const uint32_t lane = threadIdx.x % kTile, first = threadIdx.x / kTile;
    uint32_t raw[kTile / kRows];
#pragma unroll
    for (uint32_t j = 0; j < kTile / kRows; ++j) {
        const uint32_t row = first_row + lane, column = first_column + first + j * kRows;
        if (row < num_rows && column < num_columns) {
            raw[j] = dense::load_raw(
                source, from + row * source.strides[last - 1] + column * source.strides[last]);
        }
    }
#pragma unroll
    for (uint32_t j = 0; j < kTile / kRows; ++j)
        tile[first + j * kRows][lane] = dense::widened(source, raw[j]);
    __syncthreads();
#pragma unroll
    for (uint32_t j = 0; j < kTile / kRows; ++j) {
        const uint32_t i = first + j * kRows;
        const uint32_t row = first_row + i, column = first_column + lane;
        if (row < num_rows && column < num_columns) {
            dense::store_word(target,
                              to + row * target.strides[last - 1] + column * target.strides[last],
                              tile[lane][i]);
        }
    }
}

template <bool kHasNeighbours>
__device__ void run_jobs(const Args& args) {
    constexpr uint32_t kWidth = kHasNeighbours ? dense::kVector : 1;
    constexpr uint32_t kWords = kRegisters * kWidth * kThreads, kTileWords = kTile * (kTile + 1);
    __shared__ alignas(16) uint32_t words[kWords > kTileWords ? kWords : kTileWords];
    pdl::trigger();
    pdl::wait();
    uint32_t at = 0, first_block = 0;
    for (uint32_t i = 0; i + 1 < args.num_jobs; ++i) {
        if (blockIdx.x >= args.jobs[i].end_block) at = i + 1, first_block = args.jobs[i].end_block;
    }
    const Job& job = args.jobs[at];
    const uint32_t block = blockIdx.x - first_block;
    if (job.shape == kNeighbours) {
        if constexpr (kHasNeighbours)
            run<dense::kVector>(job, block, {reinterpret_cast<uint4(*)[2][kThreads]>(words)});
    } else if (job.shape == kTransposed) {
        transpose(job, block, reinterpret_cast<uint32_t (*)[kTile + 1]>(words));
    } else {
        run<1>(job, block, {reinterpret_cast<uint32_t (*)[kThreads]>(words)});
    }
}

}  // namespace dense_pointwise

extern "C" __global__ void __launch_bounds__(dense_pointwise::kThreads)
    dense_pointwise_jobs(const __grid_constant__ dense_pointwise::Args args) {
    dense_pointwise::run_jobs<true>(args);
}
extern "C" __global__ void __launch_bounds__(dense_pointwise::kThreads, 12)
    dense_pointwise_elements(const __grid_constant__ dense_pointwise::Args args) {
    dense_pointwise::run_jobs<false>(args);
}
