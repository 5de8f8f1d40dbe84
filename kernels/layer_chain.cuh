// Linear layers that follow each other, by clusters: src/ops/layer_chain/mod.rs. A cluster of four
// thread blocks has 16, 24 or 32 rows and runs a list of steps over them: each is a layer of which a
// thread block has a quarter of the outputs. All rows are in the shared memory of each thread block;
// results go to all four. The time is mostly that of reading all weights once per cluster, so that
// weights are copied to a ring in shared memory several steps ahead.
//
// A thread block that has received a step's results knows that the other three have read what the
// step multiplied. Results may therefore replace all rows but those that the step itself, or a
// step after the last one that was shared, reads.
#pragma once

#include "cluster.cuh"
#include "linear_products.cuh"
#include "overlap.cuh"

namespace layer_chain {

constexpr uint32_t kThreads = 512;
constexpr uint32_t kLogWarps = 4;
constexpr uint32_t kWarps = kThreads / kLanes;
static_assert(kWarps == 1 << kLogWarps);
// Thread blocks of a cluster.
constexpr uint32_t kBlocks = 4;
constexpr uint32_t kChannels = 256;
// Columns of the rows in shared memory, and values from a row to the next.
constexpr uint32_t kColumns = 2048;
constexpr uint32_t kPitch = kColumns + 8;
constexpr uint32_t kMaxSteps = 20;
constexpr uint32_t kMaxLoads = 4;
// Values of an anchor, the most inputs of a part of the encoder, and the parts.
constexpr uint32_t kBoxLen = 11;
constexpr uint32_t kAnchorLen = 12;
constexpr uint32_t kParts = 4;
// Columns of a warp.
constexpr uint32_t kWarpColumns = 2 * linear::kWarpColumns;

// Rows of device memory that the chain reads: to the columns from `column` on.
struct Load {
    Slice<const __half> rows;
    uint32_t stride;
    uint32_t column;
    uint32_t num_rows;  // the others are zeros
    uint32_t log_len;   // 8 or 9
};
static_assert(sizeof(Load) == 32);

// What becomes of a step's results.
enum Target : uint32_t {
    // `rows`.
    kToRows = 0,
    // `rows`, a row per output.
    kToColumns = 1,
    // `values`.
    kToValues = 2,
    // `values`, added to the anchors.
    kToAnchors = 3,
    // The columns from `output` on, of all thread blocks.
    kToAll = 4,
    // No layer: the anchors through the encoder's first layer, to the columns of `after`.
    kToEncode = 5,
};

// What follows results that all thread blocks have, 256 channels of each row.
struct After {
    Slice<const float> norm;  // in the order of the lanes: src/ops/layer_chain/pack.rs; empty: none
    Slice<__half> rows;       // where the rows are stored after that; empty: nowhere
    uint32_t stride;          // of `rows`
    uint32_t num_rows;        // of these
    uint32_t column;          // where the channels begin
    uint32_t norm_parts;      // 1, 2 (512 channels) or 0: those of the encoder
    uint32_t addend;          // the first of the columns that are added
    uint32_t sum;             // where that sum is stored; 0: nowhere
};
static_assert(sizeof(After) == 56);

struct Step {
    Slice<const uint8_t> weights;  // by thread block, warp, 16 inputs: src/ops/layer_chain/pack.rs
    Slice<const float> bias;
    After after;              // with kToAll and kToEncode
    Slice<__half> rows;
    Slice<float> values;
    uint32_t input;           // the first column
    uint32_t num_inputs;
    uint32_t log_pairs;       // outputs: 128 << log_pairs, 1 to 3
    uint32_t target;
    uint32_t output;
    uint32_t has_relu;
    uint32_t stride;          // of `rows` or `values`
    uint32_t num_values;      // of a row of these
    uint32_t num_rows;        // of these; clusters without them skip the step
    uint32_t load;            // 1 + the rows that begin to be copied with it; 0: none
};
static_assert(sizeof(Step) == 160);

struct Args {
    Step steps[kMaxSteps];
    Load loads[kMaxLoads];
    Slice<const float> anchors;
    Slice<const float> interval;      // divides the deltas of the velocity
    Slice<const float> encoder;       // of each channel three weights and a bias, in the order of the lanes
    uint32_t encoder_ends[kParts];    // of the parts, in lanes of 8 channels
    uint32_t num_steps;
    uint32_t num_loads;               // when the chain begins
    uint32_t num_rows;
    uint32_t first_divided;
    float epsilon;
    uint32_t reserved;
};
static_assert(sizeof(Args) == 3416);

// The ring of a warp's weights: those of 32 columns and 16 inputs each.
template <uint32_t kRows>
struct Ring {
    static constexpr uint32_t kUnits = kRows == 16 ? 8 : kRows == 24 ? 6 : 3;
    static constexpr uint32_t kQuads = 2 * kLanes;
};

// A thread block's shared memory.
template <uint32_t kRows>
struct Shared {
    __half rows[kRows * kPitch];
    // Sums over parts of the inputs, whose rows are 4 floats longer than the outputs.
    float parts[kRows * (kChannels + 16)];
    uint4 ring[kWarps * Ring<kRows>::kUnits * Ring<kRows>::kQuads];
    float anchors[kRows * kAnchorLen];
    // Those of the parameters: they are read faster here.
    Step steps[kMaxSteps];
    uint64_t inbox[2];
};
// For Rust.
constexpr uint32_t kBytes16 = 218256;
constexpr uint32_t kBytes24 = 227472;
constexpr uint32_t kBytes32 = 220304;
static_assert(sizeof(Shared<16>) == kBytes16);
static_assert(sizeof(Shared<24>) == kBytes24);
static_assert(sizeof(Shared<32>) == kBytes32);

}  // namespace layer_chain
