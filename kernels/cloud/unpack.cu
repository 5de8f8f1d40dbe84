// Unpacks the bytes of a point cloud into rows of floats: crates/ops/src/cloud/unpack/mod.rs.
//
// Thread mapping: a thread per point, a tile of kThreads consecutive points per
// block (shared/scan.cuh). A point's row is the number of valid points before it.
// Reads: the values of every point. Writes: the valid points up to the capacity,
// their number, and the counters of the others.

#include "shared/counters.cuh"
#include "shared/scan.cuh"

namespace unpack {

constexpr uint32_t kThreads = 512;
constexpr uint32_t kMaxChannels = 16;
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

struct Args {
    Slice<const uint8_t> data;
    Slice<float> points;
    Slice<uint32_t> num;
    Counters counters;
    Slice<uint64_t> ticket;
    Slice<uint64_t> aggregates;  // by tile
    uint64_t row_step;
    uint32_t width;
    uint32_t num_points;
    uint32_t point_step;
    uint32_t num_channels;
    uint32_t big_endian;
    // Values of 4 bytes and more are aligned to 4 bytes.
    uint32_t is_aligned;
    uint32_t has_range;
    float min[3];
    float max[3];
    uint32_t capacity;
    Source sources[kMaxChannels];
};

// The counters of unpacking.
struct Dropped {
    Counter not_finite;
    Counter out_of_range;
    Counter over_capacity;

    __device__ explicit Dropped(const Counters& counters)
        : not_finite(counters, kPointsNotFinite),
          out_of_range(counters, kPointsOutOfRange),
          over_capacity(counters, kPointsOverCapacity) {}
};

// kSize bytes as an integer, in the byte order of the cloud.
template <uint32_t kSize>
__device__ uint64_t bits_at(const Args& args, const uint8_t* bytes) {
    uint64_t bits = 0;
    if (args.is_aligned != 0 && kSize >= 4) {
        const uint32_t* words = reinterpret_cast<const uint32_t*>(bytes);
        bits = words[0];
        if (kSize == 8) bits |= static_cast<uint64_t>(words[1]) << 32;
    } else {
#pragma unroll
        for (uint32_t i = 0; i < kSize; ++i) bits |= static_cast<uint64_t>(bytes[i]) << 8 * i;
    }
    if (args.big_endian == 0) return bits;
    uint64_t turned = 0;
#pragma unroll
    for (uint32_t i = 0; i < kSize; ++i) turned |= (bits >> 8 * i & 0xff) << 8 * (kSize - 1 - i);
    return turned;
}

__device__ inline float value_of(const Args& args, const Source& source, const uint8_t* point) {
    const uint8_t* bytes = point + source.offset;
    float value = 0.0f;
    switch (source.datatype) {
        case kI8: value = static_cast<float>(static_cast<int8_t>(bits_at<1>(args, bytes))); break;
        case kU8: value = static_cast<float>(static_cast<uint8_t>(bits_at<1>(args, bytes))); break;
        case kI16: value = static_cast<float>(static_cast<int16_t>(bits_at<2>(args, bytes))); break;
        case kU16:
            value = static_cast<float>(static_cast<uint16_t>(bits_at<2>(args, bytes)));
            break;
        case kI32: value = __int2float_rn(static_cast<int32_t>(bits_at<4>(args, bytes))); break;
        case kU32: value = __uint2float_rn(static_cast<uint32_t>(bits_at<4>(args, bytes))); break;
        case kF32: value = __uint_as_float(static_cast<uint32_t>(bits_at<4>(args, bytes))); break;
        case kF64:
            value = __double2float_rn(
                __longlong_as_double(static_cast<long long>(bits_at<8>(args, bytes))));
            break;
        default: return 0.0f;
    }
    return value * source.scale;
}

__device__ inline bool is_inside(const Args& args, const float* position) {
    if (args.has_range == 0) return true;
    bool inside = true;
#pragma unroll
    for (uint32_t axis = 0; axis < 3; ++axis) {
        inside &= position[axis] >= args.min[axis] && position[axis] < args.max[axis];
    }
    return inside;
}

__device__ inline void unpack_tile(const Args& args, const scan::Tile& tile, uint32_t num_tiles,
                                   const Dropped& dropped) {
    const uint64_t own = static_cast<uint64_t>(tile.index) * kThreads + threadIdx.x;
    const bool is_point = own < args.num_points;
    float values[kMaxChannels];
    bool is_finite = is_point;
    if (is_point) {
        const uint32_t index = static_cast<uint32_t>(own);
        const uint8_t* point = args.data.data + index / args.width * args.row_step +
                               static_cast<uint64_t>(index % args.width) * args.point_step;
#pragma unroll
        for (uint32_t c = 0; c < kMaxChannels; ++c) {
            if (c >= args.num_channels) break;
            values[c] = value_of(args, args.sources[c], point);
            is_finite &= isfinite(values[c]);
        }
    }
    const bool is_usable = is_finite && is_inside(args, values);
    const scan::Selected usable = scan::count_selected<kThreads>(is_usable);
    const uint32_t num_not_finite = __syncthreads_count(is_point && !is_finite);
    const uint32_t num_out_of_range = __syncthreads_count(is_finite && !is_usable);
    if (threadIdx.x == 0) {
        const uint32_t aggregate =
            usable.total | num_not_finite << kCountBits | num_out_of_range << 2 * kCountBits;
        scan::publish(args.aggregates.data, tile, aggregate);
    }
    uint32_t sums[3] = {};
    scan::for_each_predecessor(args.aggregates.data, tile, [&](uint32_t aggregate) {
#pragma unroll
        for (uint32_t i = 0; i < 3; ++i) sums[i] += aggregate >> i * kCountBits & kCountMask;
    });
    const uint32_t base = scan::block_sum<kThreads>(sums[0]);
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
    if (tile.index != num_tiles - 1) return;
    const uint32_t not_finite = scan::block_sum<kThreads>(sums[1]) + num_not_finite;
    const uint32_t out_of_range = scan::block_sum<kThreads>(sums[2]) + num_out_of_range;
    if (threadIdx.x == 0) {
        const uint32_t num_usable = base + usable.total;
        const uint32_t num = min(num_usable, args.capacity);
        args.num[0] = num;
        dropped.not_finite.add(not_finite);
        dropped.out_of_range.add(out_of_range);
        dropped.over_capacity.add(num_usable - num);
    }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    unpack_points(const __grid_constant__ Args args) {
    const Dropped dropped(args.counters);
    // Without points one tile remains, which writes their number.
    const uint32_t num_tiles = args.num_points == 0 ? 1 : (args.num_points - 1) / kThreads + 1;
    scan::for_each_tile(args.ticket.data, num_tiles, [&](const scan::Tile& tile) {
        unpack_tile(args, tile, num_tiles, dropped);
    });
}

}  // namespace unpack
