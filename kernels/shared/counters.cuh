// The counters of a frame: how many of what it dropped, by reason. The host side
// is crates/ops/src/shared/counters.rs, the reasons are `Count` in crates/types/src/report.rs.
//
// A kernel that drops something adds to the entry of the reason. The last kernel
// of the frame (decode/gather.cu) copies all entries to memory that the host reads,
// without knowing their meaning, and clears them for the next frame. The kernels
// of a frame run one after another on one stream, and one thread of a kernel adds
// to an entry: no addition is atomic, except to kScoresNan, kBoxesInvalid,
// kClassesUnknown, and the counters of cloud/unpack.cu, to which each cloud of a launch adds.
#pragma once

#include "shared/slice.cuh"

// The counters that kernels add to. The host counts the others.
enum Count : uint32_t {
    kPointsNotFinite = 0,
    kPointsOutOfRange = 1,
    kPointsOverCapacity = 2,
    kSweepsDropped = 3,
    kPointsOverVoxel = 4,
    kPointsOverVoxelCapacity = 5,
    kVoxelsOverCapacity = 6,
    kCandidatesOverCapacity = 9,
    kCandidatesOverTopK = 10,
    kDetectionsOverLimit = 11,
    kScoresNan = 13,
    kBoxesInvalid = 14,
    kClassesUnknown = 15,
    kPointsCropped = 20,
    kPointsWithoutTime = 21,
};
constexpr uint32_t kMaxCounters = 64;

using Counters = Slice<uint32_t>;

// The entry of a reason. It is read by the constructor: constructed early, a
// kernel adds to it later without waiting for the memory.
struct Counter {
    uint32_t* entry;
    uint32_t before;

    __device__ Counter(const Counters& counters, Count reason)
        : entry(&counters[reason]), before(*entry) {}

    // For one thread of the kernel, once.
    __device__ void add(uint32_t num) const { *entry = before + num; }
};
