// Gathers the survivors of suppression into detections in mapped host memory:
// crates/ops/src/decode/gather/mod.rs. One block processes the survivors in their order. As the
// last kernel of a frame it also publishes the frame's counters.

#include "nms/args.cuh"
#include "nms/rectangle.cuh"
#include "shared/candidate.cuh"
#include "shared/counters.cuh"

namespace gather {

constexpr uint32_t kThreads = 512;
constexpr uint32_t kWarps = kThreads / kLanes;

// The structs in Rust: crates/ops/src/decode/gather/kernels.rs.
struct Settings {
    float scale[2];
    float offset[2];
    float size[2];
    uint32_t max_detections;
    float mean_scale;
};

// The result for the host, beside the detections.
struct Gathered {
    NmsCounts suppressed;
    uint32_t num_detections;
};

static_assert(kMaxCounters <= kThreads, "a thread per counter");

template <typename Candidate, typename Detection>
struct Args {
    Slice<const Candidate> candidates;
    Slice<const Kept> kept;
    Slice<const NmsCounts> nms_counts;
    Slice<const Settings> settings;
    Counters counters;
    // In mapped host memory.
    Slice<Detection> published;
    Slice<Gathered> gathered;
    Slice<uint32_t> published_counters;
    // For kernels that compute more of each detection: the same in device memory, the row of each
    // among the network's, and their number. Empty where there are none.
    Slice<Detection> copied;
    Slice<uint32_t> sources;
    Slice<uint32_t> num_copied;
};

// The thread's counter, loaded before it is needed.
__device__ inline uint32_t read_counter(const Counters& counters) {
    return threadIdx.x < counters.len ? counters[threadIdx.x] : 0;
}

// Writes the thread's counter to the host and clears it for the next frame.
// `num_over_limit`, `num_invalid`: the detections and boxes that this kernel drops.
__device__ inline void publish_counter(const Counters& counters, const Slice<uint32_t>& published,
                                       uint32_t counted, uint32_t num_over_limit,
                                       uint32_t num_invalid) {
    if (threadIdx.x >= counters.len) return;
    if (threadIdx.x == kDetectionsOverLimit) counted += num_over_limit;
    if (threadIdx.x == kBoxesInvalid) counted += num_invalid;
    published[threadIdx.x] = counted;
    counters[threadIdx.x] = 0;
}

// As f32::clamp: zeros keep their sign, NaN remains NaN.
__device__ inline float clamped(float value, float high) {
    if (value < 0.0f) return 0.0f;
    return value > high ? high : value;
}

// Transforms a box to source pixels and clips it. False if it has no area inside the
// image or is not finite there.
__device__ inline bool to_source_image(const Settings& settings, const Candidate2d& c, float* box,
                                       bool& is_finite) {
    const float corners[4] = {c.x1, c.y1, c.x2, c.y2};
    is_finite = true;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
        const float value = settings.scale[i % 2] * corners[i] + settings.offset[i % 2];
        is_finite &= isfinite(value);
        box[i] = clamped(value, settings.size[i % 2]);
    }
    return is_finite && box[0] < box[2] && box[1] < box[3];
}

// The same for a rotated box, which is not clipped.
__device__ inline bool to_source_image(const Settings& settings, const CandidateRotated& c,
                                       float* box, bool& is_finite) {
    box[0] = settings.scale[0] * c.x + settings.offset[0];
    box[1] = settings.scale[1] * c.y + settings.offset[1];
    box[2] = settings.mean_scale * c.width;
    box[3] = settings.mean_scale * c.height;
    box[4] = c.angle;
    is_finite = are_finite(box[0], box[1], box[2], box[3]) && isfinite(box[4]);
    if (!is_finite) return false;
    const float width = settings.size[0];
    const float height = settings.size[1];
    const Rectangle image = make_rectangle(width * 0.5f, height * 0.5f, width, height, 0.0f);
    return intersection(image, make_rectangle(box[0], box[1], box[2], box[3], box[4])) > 0.0f;
}

template <typename Candidate, typename Detection>
__device__ void gather_boxes(const Args<Candidate, Detection>& args) {
    __shared__ __align__(8) Detection staged[kThreads];
    __shared__ uint32_t sources[kThreads];
    __shared__ uint32_t sums[kWarps];
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    const Settings settings = args.settings[0];
    const uint32_t counted = read_counter(args.counters);
    const uint32_t places = static_cast<uint32_t>(args.kept.len);
    // Loaded before their number is known.
    Kept survivor = threadIdx.x < places ? args.kept[threadIdx.x] : Kept{};
    const uint32_t num_kept = min(args.nms_counts[0].num_kept, places);
    const uint32_t limit = min(settings.max_detections, static_cast<uint32_t>(args.published.len));
    uint32_t base = 0;
    uint32_t num_invalid = 0;
    for (uint32_t start = 0; start < num_kept; start += kThreads) {
        const uint32_t own = start + threadIdx.x;
        if (start != 0 && own < num_kept) survivor = args.kept[own];
        Detection detection;
        uint32_t source = 0;
        bool is_valid = own < num_kept && survivor.index < args.candidates.len;
        bool is_finite = true;
        if (is_valid) {
            const Candidate candidate = args.candidates[survivor.index];
            source = candidate.rank.source;
            detection.class_index = candidate.rank.class_index;
            detection.score = survivor.score;
            is_valid = to_source_image(settings, candidate, detection.bbox, is_finite);
        }
        const uint32_t votes = __ballot_sync(kAllLanes, is_valid);
        if (lane == 0) sums[warp] = __popc(votes);
        num_invalid += __syncthreads_count(!is_finite);
        uint32_t before = __popc(votes & ((1u << lane) - 1));
        uint32_t total = 0;
        for (uint32_t i = 0; i < kWarps; ++i) {
            before += i < warp ? sums[i] : 0;
            total += sums[i];
        }
        if (is_valid) {
            staged[before] = detection;
            sources[before] = source;
        }
        __syncthreads();
        // Coalesced wide stores: the bandwidth to the host is low.
        const uint32_t num_out = min(total, limit - min(base, limit));
        using Word = typename Detection::Word;
        const Word* from = reinterpret_cast<const Word*>(staged);
        Word* to = reinterpret_cast<Word*>(args.published.data + base);
        constexpr uint32_t kWords = sizeof(Detection) / sizeof(Word);
        for (uint32_t i = threadIdx.x; i < num_out * kWords; i += kThreads) to[i] = from[i];
        const uint64_t place = static_cast<uint64_t>(base) + threadIdx.x;
        if (threadIdx.x < num_out && place < min(args.copied.len, args.sources.len)) {
            args.copied[place] = staged[threadIdx.x];
            args.sources[place] = sources[threadIdx.x];
        }
        base += total;
        __syncthreads();
    }
    const uint32_t num = min(base, limit);
    if (threadIdx.x == 0) {
        args.gathered[0] = {args.nms_counts[0], num};
        if (args.num_copied.len != 0) args.num_copied[0] = num;
    }
    publish_counter(args.counters, args.published_counters, counted, base - num, num_invalid);
}

}  // namespace gather

extern "C" __global__ void __launch_bounds__(gather::kThreads)
    gather_2d(const __grid_constant__ gather::Args<Candidate2d, Detection> args) {
    gather::gather_boxes(args);
}

extern "C" __global__ void __launch_bounds__(gather::kThreads)
    gather_rotated(const __grid_constant__ gather::Args<CandidateRotated, RotatedDetection> args) {
    gather::gather_boxes(args);
}

namespace gather {

// Words of a detection: class, score, box; velocity and variances where the head has
// them.
constexpr uint32_t kBoxWords = 9;
constexpr uint32_t kVelocityWords = 2;
constexpr uint32_t kVarianceWords = 9;
constexpr uint32_t kMaxWords = kBoxWords + kVelocityWords + kVarianceWords;

struct Args3d {
    Slice<const Candidate3d> candidates;
    Slice<const Motion> motions;   // by found object
    Slice<const uint32_t> places;  // by candidate: its index among the found objects
    Slice<const Kept> kept;
    Slice<const NmsCounts> nms_counts;
    Counters counters;
    // In mapped host memory.
    Slice<uint32_t> published;
    Slice<Gathered> gathered;
    Slice<uint32_t> published_counters;
    uint32_t max_detections;
    uint32_t has_velocity;
    uint32_t has_variance;
    uint32_t reserved;
};

// Writes a detection as words.
__device__ inline void write_detection(const Args3d& args, const Kept& survivor, uint32_t* out) {
    const Candidate3d& c = args.candidates[survivor.index];
    const float box[7] = {c.center[0], c.center[1], c.center[2], c.length,
                          c.width,     c.height,    c.yaw};
    out[0] = c.rank.class_index;
    out[1] = __float_as_uint(survivor.score);
#pragma unroll
    for (uint32_t i = 0; i < 7; ++i) out[2 + i] = __float_as_uint(box[i]);
    out += kBoxWords;
    const uint32_t place = survivor.index < args.places.len ? args.places[survivor.index] : kNone;
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
    const uint32_t counted = read_counter(args.counters);
    const uint32_t places = static_cast<uint32_t>(args.kept.len);
    // Loaded before their number is known.
    Kept survivor = threadIdx.x < places ? args.kept[threadIdx.x] : Kept{};
    const uint32_t num_kept = min(args.nms_counts[0].num_kept, places);
    const uint32_t limit =
        min(args.max_detections, static_cast<uint32_t>(args.published.len / num_words));
    uint32_t base = 0;
    for (uint32_t start = 0; start < num_kept; start += kThreads) {
        const uint32_t own = start + threadIdx.x;
        if (start != 0 && own < num_kept) survivor = args.kept[own];
        const bool is_valid = own < num_kept && survivor.index < args.candidates.len;
        const uint32_t votes = __ballot_sync(kAllLanes, is_valid);
        if (lane == 0) sums[warp] = __popc(votes);
        __syncthreads();
        uint32_t before = __popc(votes & ((1u << lane) - 1));
        uint32_t total = 0;
        for (uint32_t i = 0; i < kWarps; ++i) {
            before += i < warp ? sums[i] : 0;
            total += sums[i];
        }
        if (is_valid) write_detection(args, survivor, staged + before * num_words);
        __syncthreads();
        // Coalesced stores: the bandwidth to the host is low.
        const uint32_t num_out = min(total, limit - min(base, limit));
        uint32_t* to = args.published.data + static_cast<uint64_t>(base) * num_words;
        for (uint32_t i = threadIdx.x; i < num_out * num_words; i += kThreads) to[i] = staged[i];
        base += total;
        __syncthreads();
    }
    const uint32_t num = min(base, limit);
    if (threadIdx.x == 0) args.gathered[0] = {args.nms_counts[0], num};
    publish_counter(args.counters, args.published_counters, counted, base - num, 0);
}
