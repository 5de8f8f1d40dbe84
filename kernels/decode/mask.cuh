// What Rust and the kernels of masks share: constants, plan and parameters of `mask.cu`.

#pragma once

#include <cuda_fp16.h>

#include "shared/candidate.cuh"
#include "shared/slice.cuh"

namespace mask {

constexpr uint32_t kPlanThreads = 512;
constexpr uint32_t kThreads = 256;
constexpr uint32_t kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr uint32_t kTileWords = 256;
constexpr uint32_t kWordsOfWarp = kTileWords / (kThreads / kLanes);
// Cells of a tile in shared memory. Of a tile with more, as of an image smaller than the map, each
// pixel computes its four.
constexpr uint32_t kMaxCells = 4096;
constexpr uint32_t kMaxPrototypes = 256;
// The pixels that may be set, other than those in the box: all, and those that the box touches.
constexpr uint32_t kExtentImage = 1;
constexpr uint32_t kExtentTouched = 2;

static_assert(kWordsOfWarp == kLanes, "a lane keeps a word of its warp");

// The structs in Rust: crates/ops/src/decode/mask/kernels.rs, `MaskAxis` in
// crates/ops/src/decode/mask/mapping.rs, `MaskWindow` in crates/types/src/mask.rs.
struct Axis {
    float scale;
    float shift;
    uint32_t first;
    uint32_t count;
};

struct Settings {
    Axis x;
    Axis y;
    uint32_t width;
    uint32_t height;
    uint32_t sigmoid;
    float level;
    uint32_t extent;
    uint32_t reserved;
};

struct Window {
    uint32_t left;
    uint32_t top;
    uint32_t width;
    uint32_t height;
    uint32_t first_word;
};

struct Planned {
    Window window;
    uint32_t source;
    uint32_t first_tile;
    uint32_t num_tiles;
    Axis x;
    Axis y;
};

struct Totals {
    uint32_t num_masks;
    uint32_t num_over_capacity;
    uint32_t num_words;
    uint32_t num_tiles;
};

struct PlanArgs {
    Slice<const Detection> detections;
    Slice<const uint32_t> sources;
    Slice<const uint32_t> num_detections;
    Slice<const Settings> settings;
    Slice<Planned> planned;
    Slice<Totals> totals;
    // In mapped host memory.
    Slice<Window> published;
    Slice<Totals> published_totals;
    // By mask, in mapped host memory: cleared here, set by `mask_bits_*`.
    Slice<uint32_t> invalid;
    uint32_t word_capacity;
    uint32_t reserved;
};

template <typename T>
struct BitsArgs {
    Slice<const T> predictions;
    Slice<const T> prototypes;
    Slice<const Settings> settings;
    Slice<const Planned> planned;
    Slice<const Totals> totals;
    Slice<uint32_t> words;
    Slice<uint32_t> invalid;
    uint32_t map_width;
    uint32_t map_height;
    uint32_t num_prototypes;
    uint32_t num_rows;
    // Of a coefficient: first + row * row_distance + index * distance.
    uint32_t first;
    uint32_t row_distance;
    uint32_t distance;
    // Not 0: `prototypes` has a map for each row, and there are no coefficients.
    uint32_t are_maps;
};

}  // namespace mask
