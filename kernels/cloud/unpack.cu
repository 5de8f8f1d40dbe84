// Unpacks the bytes of point clouds into rows of floats: crates/ops/src/cloud/unpack/mod.rs.
//
// Thread mapping: a thread per point, a tile of kThreads consecutive points of a cloud per
// block (shared/scan.cuh). Clouds of one frame follow each other, each from its first tile on. A
// point's row is the number of valid points before it, in its cloud and in those before.
// Reads: the values of every point. Writes: the valid points up to the capacity,
// the number of rows, the counts of each cloud, and the counters of the others.

#include "shared/counters.cuh"
#include "shared/scan.cuh"

namespace unpack {

constexpr uint32_t kThreads = 512;
// Of 32 registers a thread: all tiles of 240,000 points run at once on an H200.
constexpr uint32_t kBlocksPerMultiprocessor = 4;
constexpr uint32_t kMaxChannels = 16;
// The times of a sweep with a matrix, and the values of a matrix of three rows.
constexpr uint32_t kKnots = 17;
constexpr uint32_t kRows = 12;
// The clouds of a launch.
constexpr uint32_t kMaxClouds = 8;
// The counts of a cloud: written, not finite, cropped, out of range, over capacity, without a time.
constexpr uint32_t kNumCounts = 6;
// Three counts of a tile in one aggregate.
constexpr uint32_t kCountBits = 10;
constexpr uint32_t kCountMask = (1u << kCountBits) - 1;

// The datatype of a value; kNone: the value is 0.
enum Datatype : uint32_t {
    kNone = 0,
    kI8 = 1,
    kU8 = 2,
    kI16 = 3,
    kU16 = 4,
    kI32 = 5,
    kU32 = 6,
    kF32 = 7,
    kF64 = 8,
};

// The source of one value of a point.
struct Source {
    uint32_t offset;
    uint32_t datatype;
    float scale;
};

struct Cloud {
    Slice<const uint8_t> data;
    uint64_t row_step;
    uint32_t first_tile;
    uint32_t num_points;  // without points one tile remains, which writes the counts
    uint32_t width;
    uint32_t point_step;
    uint32_t big_endian;
    // Values of 4 bytes and more are aligned to 4 bytes.
    uint32_t is_aligned;
    uint32_t counts_row;
    uint32_t is_moving;
    uint32_t has_rows;
    uint32_t has_crop;
    float rows[kRows];  // transform into the frame of the output
    float crop_min[3];
    float crop_max[3];
    Source sources[kMaxChannels];
};

// Of a cloud whose sensor moved while it measured.
struct Sweep {
    double time_base;  // the value at the stamp
    double time_unit_s;
    uint32_t time_offset;
    uint32_t time_datatype;
    float first_s;
    float knots_per_s;
    float knots[kKnots][kRows];
};

struct Args {
    Slice<float> points;
    Slice<const uint32_t> before;  // the rows of launches before; empty: 0
    Slice<uint32_t> num;
    Slice<uint32_t> counts;  // by cloud; may be empty
    Counters counters;
    Slice<uint64_t> ticket;
    Slice<uint64_t> aggregates;  // by tile
    uint32_t num_clouds;
    uint32_t num_channels;
    uint32_t capacity;
    uint32_t has_range;
    float min[3];
    float max[3];
    Cloud clouds[kMaxClouds];
};

struct MovingArgs {
    Args args;
    Slice<uint64_t> time_aggregates;  // by tile: points without a time
    float max_time_s;
    uint32_t reserved;
    Sweep sweeps[kMaxClouds];  // of clouds that move
};

// kSize bytes as an integer, in the byte order of the cloud.
template <uint32_t kSize>
__device__ uint64_t bits_at(const Cloud& cloud, const uint8_t* bytes) {
    uint64_t bits = 0;
    if (cloud.is_aligned != 0 && kSize >= 4) {
        const uint32_t* words = reinterpret_cast<const uint32_t*>(bytes);
        bits = words[0];
        if (kSize == 8) bits |= static_cast<uint64_t>(words[1]) << 32;
    } else {
#pragma unroll
        for (uint32_t i = 0; i < kSize; ++i) bits |= static_cast<uint64_t>(bytes[i]) << 8 * i;
    }
    if (cloud.big_endian == 0) return bits;
    uint64_t turned = 0;
#pragma unroll
    for (uint32_t i = 0; i < kSize; ++i) turned |= (bits >> 8 * i & 0xff) << 8 * (kSize - 1 - i);
    return turned;
}

__device__ inline float value_of(const Cloud& cloud, const Source& source, const uint8_t* point) {
    const uint8_t* bytes = point + source.offset;
    float value = 0.0f;
    switch (source.datatype) {
        case kI8: value = static_cast<float>(static_cast<int8_t>(bits_at<1>(cloud, bytes))); break;
        case kU8: value = static_cast<float>(static_cast<uint8_t>(bits_at<1>(cloud, bytes))); break;
        case kI16:
            value = static_cast<float>(static_cast<int16_t>(bits_at<2>(cloud, bytes)));
            break;
        case kU16:
            value = static_cast<float>(static_cast<uint16_t>(bits_at<2>(cloud, bytes)));
            break;
        case kI32: value = __int2float_rn(static_cast<int32_t>(bits_at<4>(cloud, bytes))); break;
        case kU32: value = __uint2float_rn(static_cast<uint32_t>(bits_at<4>(cloud, bytes))); break;
        case kF32: value = __uint_as_float(static_cast<uint32_t>(bits_at<4>(cloud, bytes))); break;
        case kF64:
            value = __double2float_rn(
                __longlong_as_double(static_cast<long long>(bits_at<8>(cloud, bytes))));
            break;
        default: return 0.0f;
    }
    return value * source.scale;
}

// A value of any type, which a double holds exactly.
__device__ inline double exact_value_of(const Cloud& cloud, uint32_t datatype,
                                        const uint8_t* bytes) {
    switch (datatype) {
        case kI8: return static_cast<int8_t>(bits_at<1>(cloud, bytes));
        case kU8: return static_cast<uint8_t>(bits_at<1>(cloud, bytes));
        case kI16: return static_cast<int16_t>(bits_at<2>(cloud, bytes));
        case kU16: return static_cast<uint16_t>(bits_at<2>(cloud, bytes));
        case kI32: return static_cast<int32_t>(bits_at<4>(cloud, bytes));
        case kU32: return static_cast<uint32_t>(bits_at<4>(cloud, bytes));
        case kF32: return __uint_as_float(static_cast<uint32_t>(bits_at<4>(cloud, bytes)));
        case kF64: return __longlong_as_double(static_cast<long long>(bits_at<8>(cloud, bytes)));
        default: return 0.0;
    }
}

__device__ inline bool is_inside(const float* position, const float* min, const float* max) {
    bool inside = true;
#pragma unroll
    for (uint32_t axis = 0; axis < 3; ++axis) {
        inside &= position[axis] >= min[axis] && position[axis] < max[axis];
    }
    return inside;
}

// Moves x, y, z; whether they are finite then. `value_of_row` is a value of the matrix.
template <typename Rows>
__device__ bool move(float* position, const Rows& value_of_row) {
    const float x = position[0];
    const float y = position[1];
    const float z = position[2];
    bool is_finite = true;
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
        position[i] = value_of_row(4 * i) * x + value_of_row(4 * i + 1) * y +
                      value_of_row(4 * i + 2) * z + value_of_row(4 * i + 3);
        is_finite &= isfinite(position[i]);
    }
    return is_finite;
}

// What becomes of a finite point.
struct Placed {
    bool is_finite;
    bool has_time;
};

// Of clouds of one instant.
struct AtOnce {
    __device__ Placed place(const Cloud& cloud, uint32_t, const uint8_t*, float* position) const {
        if (cloud.has_rows == 0) return {true, true};
        return {move(position, [&](uint32_t i) { return cloud.rows[i]; }), true};
    }
};

// Of clouds some of whose sensors moved.
struct InMotion {
    const MovingArgs& moving;

    __device__ Placed place(const Cloud& cloud, uint32_t index, const uint8_t* point,
                            float* position) const {
        if (cloud.is_moving == 0) return AtOnce().place(cloud, index, point, position);
        const Sweep& sweep = moving.sweeps[index];
        const double value = exact_value_of(cloud, sweep.time_datatype, point + sweep.time_offset);
        const float seconds = __double2float_rn((value - sweep.time_base) * sweep.time_unit_s);
        // NaN is not.
        if (!(fabsf(seconds) <= moving.max_time_s)) {
            return {AtOnce().place(cloud, index, point, position).is_finite, false};
        }
        const float u = (seconds - sweep.first_s) * sweep.knots_per_s;
        const uint32_t first =
            u >= 1.0f ? static_cast<uint32_t>(fminf(u, static_cast<float>(kKnots - 2))) : 0;
        const float share = u - static_cast<float>(first);
        const float* from = sweep.knots[first];
        const float* to = from + kRows;
        const bool is_finite =
            move(position, [&](uint32_t i) { return from[i] + (to[i] - from[i]) * share; });
        return {is_finite, true};
    }
};

// The cloud of a tile. The same in all threads, which the compiler takes from the shuffle.
__device__ inline uint32_t cloud_of(const Args& args, const scan::Tile& tile) {
    uint32_t index = 0;
#pragma unroll
    for (uint32_t i = 1; i < kMaxClouds; ++i) {
        index += i < args.num_clouds && args.clouds[i].first_tile <= tile.index;
    }
    return __shfl_sync(scan::kAllLanes, index, 0);
}

// For one thread: adds to the counter of a reason, to which each cloud adds.
__device__ inline void add(const Counters& counters, Count reason, uint32_t num) {
    if (num > 0) atomicAdd(&counters[reason], num);
}

// What the last tile of a cloud writes: its counts, and of the last cloud the number of rows.
struct Ended {
    uint32_t index;
    uint32_t rows_before;  // without the capacity
    uint32_t num_usable;
    uint32_t not_finite;
    uint32_t out_of_range;
    uint32_t without_time;

    __device__ void write(const Args& args) const {
        const Cloud& cloud = args.clouds[index];
        const uint32_t before = min(rows_before, args.capacity);
        const uint32_t written = min(num_usable, args.capacity - before);
        const uint32_t cropped = cloud.num_points - num_usable - not_finite - out_of_range;
        if (index + 1 == args.num_clouds) args.num[0] = before + written;
        add(args.counters, kPointsNotFinite, not_finite);
        add(args.counters, kPointsOutOfRange, out_of_range);
        add(args.counters, kPointsOverCapacity, num_usable - written);
        add(args.counters, kPointsCropped, cropped);
        add(args.counters, kPointsWithoutTime, without_time);
        if (args.counts.len == 0) return;
        uint32_t* counts = &args.counts[cloud.counts_row * kNumCounts];
        counts[0] = written;
        counts[1] = not_finite;
        counts[2] = cropped;
        counts[3] = out_of_range;
        counts[4] = num_usable - written;
        counts[5] = without_time;
    }
};

template <bool kMoves, typename Motion>
__device__ void unpack_tile(const Args& args, const Motion& motion, uint64_t* time_aggregates,
                            const scan::Tile& tile) {
    const uint32_t index = cloud_of(args, tile);
    const Cloud& cloud = args.clouds[index];
    const uint32_t own = (tile.index - cloud.first_tile) * kThreads + threadIdx.x;
    const bool is_point = own < cloud.num_points;
    const uint32_t num_before = args.before.len == 0 ? 0 : args.before[0];
    float values[kMaxChannels];
    bool is_finite = is_point;
    bool has_time = true;
    if (is_point) {
        const uint8_t* point = cloud.data.data + own / cloud.width * cloud.row_step +
                               static_cast<uint64_t>(own % cloud.width) * cloud.point_step;
#pragma unroll
        for (uint32_t c = 0; c < kMaxChannels; ++c) {
            if (c >= args.num_channels) break;
            values[c] = value_of(cloud, cloud.sources[c], point);
            is_finite &= isfinite(values[c]);
        }
        if (is_finite) {
            const Placed placed = motion.place(cloud, index, point, values);
            is_finite = placed.is_finite;
            has_time = placed.has_time;
        }
    }
    const bool is_cropped =
        cloud.has_crop != 0 && is_finite && is_inside(values, cloud.crop_min, cloud.crop_max);
    const bool is_left = is_finite && !is_cropped;
    const bool is_usable =
        is_left && (args.has_range == 0 || is_inside(values, args.min, args.max));
    const scan::Selected usable = scan::count_selected<kThreads>(is_usable);
    const uint32_t num_not_finite = __syncthreads_count(is_point && !is_finite);
    const uint32_t num_out_of_range = __syncthreads_count(is_left && !is_usable);
    uint32_t num_without_time = 0;
    if (kMoves) num_without_time = __syncthreads_count(!has_time);
    if (threadIdx.x == 0) {
        const uint32_t aggregate =
            usable.total | num_not_finite << kCountBits | num_out_of_range << 2 * kCountBits;
        if (kMoves) scan::publish(time_aggregates, tile, num_without_time);
        scan::publish(args.aggregates.data, tile, aggregate);
    }
    // Usable points of all tiles before, and the counts of the tiles of this cloud.
    uint32_t usable_before = 0;
    uint32_t sums[3] = {};
    scan::for_each_predecessor(args.aggregates.data, tile, [&](uint32_t aggregate, uint32_t of) {
        usable_before += aggregate & kCountMask;
        if (of < cloud.first_tile) return;
#pragma unroll
        for (uint32_t i = 0; i < 3; ++i) sums[i] += aggregate >> i * kCountBits & kCountMask;
    });
    const uint32_t base = num_before + scan::block_sum<kThreads>(usable_before);
    const uint32_t row = base + usable.before;
    if (is_usable && row < args.capacity) {
        float* out = args.points.data + static_cast<uint64_t>(row) * args.num_channels;
        if (args.num_channels == 4) {
            *reinterpret_cast<float4*>(out) =
                make_float4(values[0], values[1], values[2], values[3]);
        } else {
#pragma unroll
            for (uint32_t c = 0; c < kMaxChannels; ++c) {
                if (c >= args.num_channels) break;
                out[c] = values[c];
            }
        }
    }
    const bool is_last = index + 1 == args.num_clouds
                             ? tile.index + 1 == gridDim.x
                             : tile.index + 1 == args.clouds[index + 1].first_tile;
    if (!is_last) return;
    const uint32_t num_usable = scan::block_sum<kThreads>(sums[0]) + usable.total;
    const uint32_t not_finite = scan::block_sum<kThreads>(sums[1]) + num_not_finite;
    const uint32_t out_of_range = scan::block_sum<kThreads>(sums[2]) + num_out_of_range;
    uint32_t without_time = num_without_time;
    if (kMoves) {
        uint32_t sum = 0;
        scan::for_each_predecessor(time_aggregates, tile, [&](uint32_t num, uint32_t of) {
            sum += of < cloud.first_tile ? 0 : num;
        });
        without_time += scan::block_sum<kThreads>(sum);
    }
    if (threadIdx.x == 0) {
        const uint32_t rows_before = base + usable.total - num_usable;
        Ended{index, rows_before, num_usable, not_finite, out_of_range, without_time}.write(args);
    }
}

template <bool kMoves, typename Motion>
__device__ void unpack(const Args& args, const Motion& motion, uint64_t* time_aggregates) {
    scan::for_each_tile(args.ticket.data, gridDim.x, [&](const scan::Tile& tile) {
        unpack_tile<kMoves>(args, motion, time_aggregates, tile);
    });
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    unpack_points(const __grid_constant__ Args args) {
    unpack<false>(args, AtOnce(), nullptr);
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    unpack_moving_points(const __grid_constant__ MovingArgs moving) {
    unpack<true>(moving.args, InMotion{moving}, moving.time_aggregates.data);
}

}  // namespace unpack
