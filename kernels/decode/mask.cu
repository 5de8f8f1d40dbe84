// Masks of instances from coefficients and prototypes, or from a map for each row:
// crates/ops/src/decode/mask/mod.rs.
//
// `mask_plan`, one block, gives each detection its window, its words and its tiles, up to the
// capacity. In `mask_bits_*` resident blocks take tiles of kTileWords words of one mask: they
// compute the cells below the tile once, in shared memory, then a warp a word, a lane a pixel.
// Operations are in the order of the CPU, without contraction.

#include <cuda_fp16.h>

#include "decode/logit.cuh"
#include "decode/mask.cuh"

namespace mask {

// The values of the cells of a mask.
template <typename T>
struct Values {
    const float* coefficients;
    const T* maps;
    uint32_t num;
    bool has_sigmoid;
    bool has_ring;  // A cell of zeros is around the map.
};

struct Tap {
    uint32_t first;
    uint32_t second;
    float weight;
};

__device__ inline float widened(float value) { return value; }
__device__ inline float widened(__half value) { return __half2float(value); }

// As f32::clamp: zeros keep their sign, NaN remains NaN.
__device__ inline float clamped(float value, float high) {
    if (value < 0.0f) return 0.0f;
    return value > high ? high : value;
}

__device__ inline uint32_t pixel(float edge, uint32_t side) {
    return static_cast<uint32_t>(clamped(ceilf(edge), static_cast<float>(side)));
}

__device__ inline Window window_of(const float (&box)[4], const Settings& settings) {
    if (settings.extent == kExtentImage) return {0, 0, settings.width, settings.height, 0};
    const bool is_touched = settings.extent == kExtentTouched;
    const uint32_t left = pixel(is_touched ? floorf(box[0]) : box[0], settings.width);
    const uint32_t top = pixel(is_touched ? floorf(box[1]) : box[1], settings.height);
    const uint32_t right = pixel(box[2], settings.width);
    const uint32_t bottom = pixel(box[3], settings.height);
    const bool is_finite =
        isfinite(box[0]) && isfinite(box[1]) && isfinite(box[2]) && isfinite(box[3]);
    if (left >= right || top >= bottom || !is_finite) return {};
    return {left, top, right - left, bottom - top, 0};
}

__device__ inline uint32_t words_per_row(const Window& window) {
    return (window.width + kLanes - 1) / kLanes;
}

// For all threads of a block: the sum of the values up to the thread's, and of all.
struct Sums {
    uint64_t up_to;
    uint64_t total;
};

__device__ inline Sums sums_of(uint64_t value) {
    __shared__ uint64_t of_warps[kPlanThreads / kLanes];
    const uint32_t lane = threadIdx.x % kLanes;
    const uint32_t warp = threadIdx.x / kLanes;
    for (uint32_t step = 1; step < kLanes; step *= 2) {
        const uint64_t before = __shfl_up_sync(kAllLanes, value, step);
        if (lane >= step) value += before;
    }
    if (lane == kLanes - 1) of_warps[warp] = value;
    __syncthreads();
    Sums sums = {value, 0};
    for (uint32_t i = 0; i < kPlanThreads / kLanes; ++i) {
        sums.up_to += i < warp ? of_warps[i] : 0;
        sums.total += of_warps[i];
    }
    __syncthreads();
    return sums;
}

__device__ inline Tap tap(const Axis& axis, uint32_t pixel) {
    const uint32_t last = axis.count - 1;
    float position = (static_cast<float>(pixel) + 0.5f) * axis.scale + axis.shift;
    position = clamped(position, static_cast<float>(last));
    const uint32_t cell = static_cast<uint32_t>(position);
    return {axis.first + cell, axis.first + min(cell + 1, last),
            position - static_cast<float>(cell)};
}

// A map of `cells` from `low` to `high`, with a cell of zeros at either end.
__device__ inline Axis axis_of(float low, float high, uint32_t cells) {
    const float scale = static_cast<float>(cells) / (high - low);
    return {scale, 0.5f - low * scale, 0, cells + 2};
}

__device__ inline float mix(float a, float b, float weight) { return a + (b - a) * weight; }

template <typename T>
__device__ float cell_value(const BitsArgs<T>& args, const Values<T>& values, uint32_t x,
                            uint32_t y) {
    if (values.has_ring) {
        if (x == 0 || y == 0 || x > args.map_width || y > args.map_height) return 0.0f;
        --x;
        --y;
    }
    // Settings are in device memory: positions stay within the map whatever they are.
    const uint64_t at = static_cast<uint64_t>(min(y, args.map_height - 1)) * args.map_width +
                        min(x, args.map_width - 1);
    const uint64_t plane = static_cast<uint64_t>(args.map_width) * args.map_height;
    const T* prototype = values.maps + at;
    float sum = 0.0f;
#pragma unroll 8
    for (uint32_t i = 0; i < values.num; ++i) {
        sum = sum + values.coefficients[i] * widened(prototype[i * plane]);
    }
    return values.has_sigmoid ? sigmoid(sum) : sum;
}

// The cells below a tile.
struct Cells {
    const float* values;
    uint32_t x, y;
    uint32_t width;

    __device__ float at(uint32_t column, uint32_t row) const {
        return values[(row - y) * width + column - x];
    }
};

// The value of a pixel from its four cells.
template <typename At>
__device__ float value_of(const Tap& x, const Tap& y, const At& at) {
    const float left = mix(at(x.first, y.first), at(x.first, y.second), y.weight);
    const float right = mix(at(x.second, y.first), at(x.second, y.second), y.weight);
    return mix(left, right, x.weight);
}

// For a warp: a word from its lanes' pixels. Sets `is_invalid` where the value of one is not
// finite.
template <typename Value>
__device__ uint32_t word_of(const Settings& settings, const Planned& mask, uint32_t word,
                            const Value& value, bool& is_invalid) {
    const Window& window = mask.window;
    const uint32_t per_row = words_per_row(window);
    const uint32_t row = word / per_row;
    const uint32_t column = word % per_row * kLanes + threadIdx.x % kLanes;
    bool is_set = false;
    if (column < window.width) {
        const Tap x = tap(mask.x, window.left + column);
        const Tap y = tap(mask.y, window.top + row);
        const float found = value(x, y);
        is_invalid |= !isfinite(found);
        is_set = found > settings.level;
    }
    return __ballot_sync(kAllLanes, is_set);
}

// For all threads of a block: the words of a mask from `first` to `end`, at most kTileWords.
template <typename T>
__device__ void write_tile(const BitsArgs<T>& args, const Settings& settings, const Planned& mask,
                           uint32_t first, uint32_t end, const Values<T>& values,
                           float (&staged)[kMaxCells], bool& is_invalid) {
    const Window& window = mask.window;
    const uint32_t per_row = words_per_row(window);
    const uint32_t rows[2] = {first / per_row, (end - 1) / per_row};
    uint32_t columns[2] = {0, window.width - 1};
    if (rows[0] == rows[1]) {
        columns[0] = first % per_row * kLanes;
        columns[1] = min(columns[1], (end - 1) % per_row * kLanes + kLanes - 1);
    }
    const uint32_t x = tap(mask.x, window.left + columns[0]).first;
    const uint32_t y = tap(mask.y, window.top + rows[0]).first;
    const uint32_t width = tap(mask.x, window.left + columns[1]).second - x + 1;
    const uint32_t height = tap(mask.y, window.top + rows[1]).second - y + 1;
    const uint64_t num_cells = static_cast<uint64_t>(width) * height;
    const bool is_staged = num_cells <= kMaxCells;
    if (is_staged) {
        for (uint32_t i = threadIdx.x; i < num_cells; i += kThreads) {
            staged[i] = cell_value(args, values, x + i % width, y + i / width);
        }
    }
    __syncthreads();
    const Cells cells = {staged, x, y, width};
    const uint32_t start = first + threadIdx.x / kLanes * kWordsOfWarp;
    const uint32_t lane = threadIdx.x % kLanes;
    uint32_t own = 0;
    for (uint32_t i = 0; i < kWordsOfWarp && start + i < end; ++i) {
        const auto value = [&](const Tap& x, const Tap& y) {
            if (is_staged) {
                return value_of(
                    x, y, [&](uint32_t column, uint32_t row) { return cells.at(column, row); });
            }
            return value_of(x, y, [&](uint32_t column, uint32_t row) {
                return cell_value(args, values, column, row);
            });
        };
        const uint32_t word = word_of(settings, mask, start + i, value, is_invalid);
        if (i == lane) own = word;
    }
    const uint64_t at = static_cast<uint64_t>(window.first_word) + start + lane;
    if (start + lane < end && at < args.words.len) args.words[at] = own;
}

template <typename T>
__device__ void write_bits(const BitsArgs<T>& args) {
    __shared__ float staged[kMaxCells];
    __shared__ float coefficients[kMaxPrototypes];
    __shared__ Planned found;
    __shared__ uint32_t found_at;
    const Settings settings = args.settings[0];
    const uint32_t num_masks =
        min(args.totals[0].num_masks, static_cast<uint32_t>(args.planned.len));
    const uint32_t num_tiles = args.totals[0].num_tiles;
    for (uint32_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
        for (uint32_t i = threadIdx.x; i < num_masks; i += kThreads) {
            const Planned planned = args.planned[i];
            // Below the first tile the difference is large.
            if (tile - planned.first_tile < planned.num_tiles) {
                found = planned;
                found_at = i;
            }
        }
        __syncthreads();
        const Planned mask = found;
        const uint32_t mask_at = found_at;
        bool is_invalid = false;
        const bool has_row = mask.source < args.num_rows;
        const bool are_maps = args.are_maps != 0;
        for (uint32_t i = threadIdx.x; i < args.num_prototypes; i += kThreads) {
            const uint64_t at = args.first +
                                static_cast<uint64_t>(mask.source) * args.row_distance +
                                static_cast<uint64_t>(i) * args.distance;
            const bool is_there = has_row && !are_maps && at < args.predictions.len;
            coefficients[i] = is_there ? widened(args.predictions[at]) : are_maps ? 1.0f : 0.0f;
            is_invalid |= !isfinite(coefficients[i]);
        }
        const uint64_t plane = static_cast<uint64_t>(args.map_width) * args.map_height;
        const T* maps = args.prototypes.data + (are_maps && has_row ? mask.source * plane : 0);
        const uint32_t num = are_maps && !has_row ? 0 : args.num_prototypes;
        const Values<T> values = {coefficients, maps, num, settings.sigmoid != 0,
                                  settings.extent == kExtentTouched};
        __syncthreads();
        const uint32_t first = (tile - mask.first_tile) * kTileWords;
        const uint32_t num_words = words_per_row(mask.window) * mask.window.height;
        const uint32_t end = min(first + kTileWords, num_words);
        if (first < end) write_tile(args, settings, mask, first, end, values, staged, is_invalid);
        // Tiles of one mask write the same value.
        if (__syncthreads_or(is_invalid) && threadIdx.x == 0 && mask_at < args.invalid.len) {
            args.invalid[mask_at] = 1;
        }
    }
}

}  // namespace mask

extern "C" __global__ void __launch_bounds__(mask::kPlanThreads)
    mask_plan(const __grid_constant__ mask::PlanArgs args) {
    using namespace mask;
    const Settings settings = args.settings[0];
    const uint64_t places = min(min(min(args.detections.len, args.sources.len), args.invalid.len),
                                min(args.planned.len, args.published.len));
    const uint32_t num = min(args.num_detections[0], static_cast<uint32_t>(places));
    uint64_t num_words = 0;
    uint64_t num_written = 0;
    uint32_t num_tiles = 0;
    uint32_t num_masks = 0;
    for (uint32_t start = 0; start < num; start += kPlanThreads) {
        const uint32_t own = start + threadIdx.x;
        Window window = {};
        if (own < num) window = window_of(args.detections[own].bbox, settings);
        const uint64_t words = static_cast<uint64_t>(words_per_row(window)) * window.height;
        const Sums sums = sums_of(words);
        const uint64_t end = num_words + sums.up_to;
        const bool has_mask = own < num && end <= args.word_capacity;
        const uint32_t tiles =
            has_mask ? static_cast<uint32_t>((words + kTileWords - 1) / kTileWords) : 0;
        const Sums of_tiles = sums_of(tiles);
        const Sums of_words = sums_of(has_mask ? words : 0);
        if (has_mask) {
            window.first_word = static_cast<uint32_t>(end - words);
            const uint32_t first_tile = num_tiles + static_cast<uint32_t>(of_tiles.up_to) - tiles;
            const auto& box = args.detections[own].bbox;
            const bool is_touched = settings.extent == kExtentTouched;
            const Axis x = is_touched ? axis_of(box[0], box[2], settings.x.count) : settings.x;
            const Axis y = is_touched ? axis_of(box[1], box[3], settings.y.count) : settings.y;
            args.planned[own] = {window, args.sources[own], first_tile, tiles, x, y};
            args.published[own] = window;
            args.invalid[own] = 0;
        }
        num_words += sums.total;
        num_written += of_words.total;
        num_tiles += static_cast<uint32_t>(of_tiles.total);
        num_masks += __syncthreads_count(has_mask);
    }
    if (threadIdx.x == 0) {
        const Totals totals = {num_masks, num - num_masks, static_cast<uint32_t>(num_written),
                               num_tiles};
        args.totals[0] = totals;
        args.published_totals[0] = totals;
    }
}

extern "C" __global__ void __launch_bounds__(mask::kThreads)
    mask_bits_f32(const __grid_constant__ mask::BitsArgs<float> args) {
    mask::write_bits(args);
}

extern "C" __global__ void __launch_bounds__(mask::kThreads)
    mask_bits_f16(const __grid_constant__ mask::BitsArgs<__half> args) {
    mask::write_bits(args);
}
