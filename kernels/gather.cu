// Survivors into detections in memory that the host reads:
// src/ops/gather/mod.rs. One block, which walks the survivors in their order.

#include "candidate.cuh"
#include "nms_args.cuh"

namespace gather {

constexpr uint32_t kThreads = 512;
constexpr uint32_t kWarps = kThreads / kLanes;

// The mirrors of these stand in src/ops/gather/kernels.rs.
struct Settings {
    float scale[2];
    float offset[2];
    float size[2];
    uint32_t max_detections;
    uint32_t reserved;
};
static_assert(sizeof(Settings) == 32);

struct Detection {
    uint32_t class_index;
    float score;
    float box[4];
};
static_assert(sizeof(Detection) == 24);

struct FrameCounts {
    DecodeCounts decoded;
    uint32_t num_kept;
    uint32_t num_detections;
    uint32_t num_over_limit;
};
static_assert(sizeof(FrameCounts) == 28);

struct Args {
    Slice<const Candidate2d> candidates;
    Slice<const Kept> kept;
    Slice<const NmsCounts> nms_counts;
    Slice<const DecodeCounts> decode_counts;
    Slice<const Settings> settings;
    Slice<Detection> published;
    Slice<FrameCounts> published_counts;
};
static_assert(sizeof(Args) == 112);

// As f32::clamp: a zero keeps its sign, NaN stays.
__device__ inline float clamped(float value, float high) {
    if (value < 0.0f) return 0.0f;
    return value > high ? high : value;
}

// Whether the box has an area inside the image.
__device__ bool bring_home(const Settings& settings, const Candidate2d& c, float* box) {
    const float corners[4] = {c.x1, c.y1, c.x2, c.y2};
    bool is_finite = true;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
        const float value = settings.scale[i % 2] * corners[i] + settings.offset[i % 2];
        is_finite &= isfinite(value);
        box[i] = clamped(value, settings.size[i % 2]);
    }
    return is_finite && box[0] < box[2] && box[1] < box[3];
}

}  // namespace gather

extern "C" __global__ void __launch_bounds__(gather::kThreads)
    gather_2d(const __grid_constant__ gather::Args args) {
    using namespace gather;
    __shared__ __align__(8) Detection staged[kThreads];
    __shared__ uint32_t sums[kWarps];
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    const Settings settings = args.settings[0];
    const uint32_t places = static_cast<uint32_t>(args.kept.len);
    // Read without waiting for their number.
    Kept survivor = threadIdx.x < places ? args.kept[threadIdx.x] : Kept{};
    const uint32_t num_kept = min(args.nms_counts[0].num_kept, places);
    const uint32_t limit =
        min(settings.max_detections, static_cast<uint32_t>(args.published.len));
    uint32_t base = 0;
    for (uint32_t start = 0; start < num_kept; start += kThreads) {
        const uint32_t own = start + threadIdx.x;
        if (start != 0 && own < num_kept) survivor = args.kept[own];
        Detection detection;
        bool stays = own < num_kept && survivor.index < args.candidates.len;
        if (stays) {
            const Candidate2d candidate = args.candidates[survivor.index];
            detection.class_index = candidate.rank.class_index;
            detection.score = survivor.score;
            stays = bring_home(settings, candidate, detection.box);
        }
        const uint32_t votes = __ballot_sync(kAllLanes, stays);
        if (lane == 0) sums[warp] = __popc(votes);
        __syncthreads();
        uint32_t before = __popc(votes & ((1u << lane) - 1));
        uint32_t total = 0;
        for (uint32_t i = 0; i < kWarps; ++i) {
            before += i < warp ? sums[i] : 0;
            total += sums[i];
        }
        if (stays) staged[before] = detection;
        __syncthreads();
        // Whole words side by side: the way to the host is narrow.
        const uint32_t num_out = min(total, limit - min(base, limit));
        const uint2* from = reinterpret_cast<const uint2*>(staged);
        uint2* to = reinterpret_cast<uint2*>(args.published.data + base);
        constexpr uint32_t kWords = sizeof(Detection) / sizeof(uint2);
        for (uint32_t i = threadIdx.x; i < num_out * kWords; i += kThreads) to[i] = from[i];
        base += total;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        const uint32_t num = min(base, limit);
        args.published_counts[0] = {args.decode_counts[0], num_kept, num, base - num};
    }
}

namespace gather {

// Counts that are handed on as they are.
template <uint32_t kNum>
struct Words {
    uint32_t at[kNum];
};

// Words of a detection: class, score, box, and what else the head says.
constexpr uint32_t kBoxWords = 9;
constexpr uint32_t kVelocityWords = 2;
constexpr uint32_t kVarianceWords = 9;
constexpr uint32_t kMaxWords = kBoxWords + kVelocityWords + kVarianceWords;

// What became of the points and candidates of a lidar frame.
struct LidarCounts {
    FrameCounts frame;
    NmsCounts suppressed;
    Words<4> unpacked;
    Words<2> densified;
    Words<6> voxelized;
};
static_assert(sizeof(LidarCounts) == 84);

struct Args3d {
    Slice<const Candidate3d> candidates;
    Slice<const Motion> motions;   // beside what decoding found
    Slice<const uint32_t> places;  // by candidate: its place there
    Slice<const Kept> kept;
    Slice<const NmsCounts> nms_counts;
    Slice<const DecodeCounts> decode_counts;
    Slice<const Words<4>> unpacked;
    Slice<const Words<2>> densified;
    Slice<const Words<6>> voxelized;
    Slice<uint32_t> published;
    Slice<LidarCounts> published_counts;
    uint32_t max_detections;
    uint32_t has_velocity;
    uint32_t has_variance;
    uint32_t reserved;
};
static_assert(sizeof(Args3d) == 192);

// One detection as words.
__device__ inline void write_detection(const Args3d& args, const Kept& survivor, uint32_t* out) {
    const Candidate3d& c = args.candidates[survivor.index];
    const float box[7] = {c.center[0], c.center[1], c.center[2], c.length, c.width, c.height,
                          c.yaw};
    out[0] = c.rank.class_index;
    out[1] = __float_as_uint(survivor.score);
#pragma unroll
    for (uint32_t i = 0; i < 7; ++i) out[2 + i] = __float_as_uint(box[i]);
    out += kBoxWords;
    const uint32_t place =
        survivor.index < args.places.len ? args.places[survivor.index] : kNone;
    const Motion motion = place < args.motions.len ? args.motions[place] : Motion{};
    if (args.has_velocity != 0) {
        for (uint32_t i = 0; i < kVelocityWords; ++i) {
            out[i] = __float_as_uint(motion.velocity[i]);
        }
        out += kVelocityWords;
    }
    if (args.has_variance != 0) {
        const float* variances = reinterpret_cast<const float*>(&motion) + kVelocityWords;
        for (uint32_t i = 0; i < kVarianceWords; ++i) out[i] = __float_as_uint(variances[i]);
    }
}

template <uint32_t kNum>
__device__ Words<kNum> words_or_zero(const Slice<const Words<kNum>>& counts) {
    return counts.len == 0 ? Words<kNum>{} : counts[0];
}

}  // namespace gather

extern "C" __global__ void __launch_bounds__(gather::kThreads)
    gather_3d(const __grid_constant__ gather::Args3d args) {
    using namespace gather;
    __shared__ uint32_t staged[kThreads * kMaxWords];
    const uint32_t num_words = kBoxWords + (args.has_velocity != 0 ? kVelocityWords : 0) +
                               (args.has_variance != 0 ? kVarianceWords : 0);
    __shared__ uint32_t sums[kWarps];
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    const uint32_t places = static_cast<uint32_t>(args.kept.len);
    // Read without waiting for their number.
    Kept survivor = threadIdx.x < places ? args.kept[threadIdx.x] : Kept{};
    const uint32_t num_kept = min(args.nms_counts[0].num_kept, places);
    const uint32_t limit =
        min(args.max_detections, static_cast<uint32_t>(args.published.len / num_words));
    uint32_t base = 0;
    for (uint32_t start = 0; start < num_kept; start += kThreads) {
        const uint32_t own = start + threadIdx.x;
        if (start != 0 && own < num_kept) survivor = args.kept[own];
        const bool stays = own < num_kept && survivor.index < args.candidates.len;
        const uint32_t votes = __ballot_sync(kAllLanes, stays);
        if (lane == 0) sums[warp] = __popc(votes);
        __syncthreads();
        uint32_t before = __popc(votes & ((1u << lane) - 1));
        uint32_t total = 0;
        for (uint32_t i = 0; i < kWarps; ++i) {
            before += i < warp ? sums[i] : 0;
            total += sums[i];
        }
        if (stays) write_detection(args, survivor, staged + before * num_words);
        __syncthreads();
        // Side by side: the way to the host is narrow.
        const uint32_t num_out = min(total, limit - min(base, limit));
        uint32_t* to = args.published.data + static_cast<uint64_t>(base) * num_words;
        for (uint32_t i = threadIdx.x; i < num_out * num_words; i += kThreads) to[i] = staged[i];
        base += total;
        __syncthreads();
    }
    LidarCounts& counts = args.published_counts[0];
    if (threadIdx.x == 0) {
        const uint32_t num = min(base, limit);
        counts = {{args.decode_counts[0], num_kept, num, base - num},
                  args.nms_counts[0],
                  words_or_zero(args.unpacked),
                  words_or_zero(args.densified),
                  words_or_zero(args.voxelized)};
    }
}
