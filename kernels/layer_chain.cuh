// Linear layers that follow each other, by clusters: src/ops/layer_chain/mod.rs. A cluster of four
// thread blocks has 16, 24 or 32 rows and runs a list of steps over them: each is a layer of which a
// thread block has a quarter of the outputs. All rows are in the shared memory of each thread block;
// results go to all four. The time is mostly that of reading all weights once per cluster: one thread
// copies them to a ring in shared memory, several steps ahead.
//
// The first warpgroup multiplies: the outputs are the 64 rows of its matrix instructions, the rows of
// the chain their columns. Other warps normalize; they read their parameters while it multiplies. A
// thread block that has received a step's results knows that the other three have read what the step
// multiplied. Results may therefore replace all columns but those that the step itself, or a step
// after the last one that was shared, reads.
#pragma once

#include "cluster.cuh"
#include "linear_products.cuh"
#include "overlap.cuh"
#include "warpgroup.cuh"

namespace layer_chain {

// A warpgroup that multiplies, warps that normalize, and one that copies weights.
constexpr uint32_t kFirstRowWarp = warpgroup::kThreads / kLanes;
constexpr uint32_t kRowWarps = 11;
constexpr uint32_t kWarps = kFirstRowWarp + kRowWarps;
constexpr uint32_t kThreads = 512;
static_assert(kThreads == (kWarps + 1) * kLanes);
// Thread blocks of a cluster.
constexpr uint32_t kBlocks = 4;
constexpr uint32_t kChannels = 256;
// Columns of the rows in shared memory.
constexpr uint32_t kColumns = 2048;
constexpr uint32_t kMaxSteps = 20;
constexpr uint32_t kMaxLoads = 4;
// Values of an anchor, the most inputs of a part of the encoder, and the parts.
constexpr uint32_t kBoxLen = 11;
constexpr uint32_t kAnchorLen = 12;
constexpr uint32_t kParts = 4;
// Outputs of a matrix instruction, and inputs whose weights a stage of the ring has.
constexpr uint32_t kTileOutputs = 64;
constexpr uint32_t kStageInputs = 128;
constexpr uint32_t kStageBytes = 2 * kTileOutputs * kStageInputs;

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
    Slice<const uint8_t> weights;  // by thread block, 64 outputs, 8 inputs: src/ops/layer_chain/pack.rs
    Slice<const float> bias;
    After after;              // with kToAll and kToEncode
    Slice<__half> rows;
    Slice<float> values;
    uint32_t input;           // the first column
    uint32_t num_inputs;
    uint32_t num_tiles;       // of 64 outputs of a thread block
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

// A thread block's shared memory.
template <uint32_t kRows>
struct Shared {
    static constexpr uint32_t kStages = kRows == 16 ? 9 : kRows == 24 ? 7 : 5;
    // Values from 8 columns of all rows to the next 8: a row's are in different banks.
    static constexpr uint32_t kGroupLen = (kRows + 1) * 8;

    uint8_t ring[kStages][kStageBytes];
    __half rows[kColumns / 8 * kGroupLen];
    // Of each warp that multiplies 16 results per row, to be sent.
    __half results[warpgroup::kThreads / kLanes][2 * 8 * kRows];
    float anchors[kRows * kAnchorLen];
    // A copy of those of the parameters, which is read faster.
    Step steps[kMaxSteps];
    uint64_t inbox[2];
    uint64_t full[kStages], empty[kStages];
};
// For Rust.
constexpr uint32_t kBytes16 = 223264;
constexpr uint32_t kBytes24 = 224640;
constexpr uint32_t kBytes32 = 226016;
static_assert(sizeof(Shared<16>) == kBytes16);
static_assert(sizeof(Shared<24>) == kBytes24);
static_assert(sizeof(Shared<32>) == kBytes32);

}  // namespace layer_chain
