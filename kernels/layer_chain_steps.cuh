// The steps of a chain: layer_chain.cuh. All steps run the same code, which is kept short: a loop that
// does not fit the instruction cache is fetched again with every step.
#pragma once

#include "layer_chain_products.cuh"

namespace layer_chain {

// A thread block of a cluster.
template <uint32_t kRows>
struct Chain : Products<kRows> {
    using P = Products<kRows>;
    using R = Ring<kRows>;
    using P::args;
    using P::fetch;
    using P::first_row;
    using P::is_skipped;
    using P::num_columns;
    using P::pitch_of;
    using P::place_of;
    using P::rank;
    using P::shared;
    // Rows that a thread block stores of results that all have.
    static constexpr uint32_t kOwnRows = kRows / kBlocks;

    cluster::Inbox inbox;

    __device__ Chain(const Args& args, Shared<kRows>& shared) : P(args, shared), inbox(shared.inbox) {}

    // Begins to copy rows, which are there when as many units of weights as the ring has have been read.
    __device__ void load_rows(uint32_t index) const {
        const Load& load = args.loads[index];
        const uint32_t log_quads = load.log_len - 3;
#pragma unroll 2
        for (uint32_t at = threadIdx.x; at < kRows << log_quads; at += kThreads) {
            const uint32_t r = at >> log_quads, c = (at & ((1u << log_quads) - 1)) * row::kGroup;
            const bool exists = first_row + r < load.num_rows;
            const __half* from = load.rows.data + static_cast<uint64_t>(exists ? first_row + r : 0) * load.stride + c;
            linear::copy_async(place_of(r, load.column + c), from, exists);
        }
    }

    // Four neighbouring results of a row: the sum of the parts, of which there are 1, 2 or 4.
    __device__ float4 sum_of_parts(const Step& step, uint32_t r, uint32_t column) const {
        const uint32_t part_len = kRows * pitch_of(step);
        const float* from = shared.parts + r * pitch_of(step) + column;
        float4 v[4];
#pragma unroll
        for (uint32_t p = 0; p < 4; ++p) {
            v[p] = make_float4(0, 0, 0, 0);
            if (p < kWarps / 2 >> step.log_pairs) v[p] = *reinterpret_cast<const float4*>(from + p * part_len);
        }
        return make_float4((v[0].x + v[1].x) + (v[2].x + v[3].x), (v[0].y + v[1].y) + (v[2].y + v[3].y),
                           (v[0].z + v[1].z) + (v[2].z + v[3].z), (v[0].w + v[1].w) + (v[2].w + v[3].w));
    }

    // Stores four values of this thread in all thread blocks of the cluster: neighbouring threads
    // store 8 values together, each in two of the blocks.
    __device__ void share(__half* to, float4 v, bool exists) const {
        const uint2 mine = make_uint2(row::pack(v.x, v.y), row::pack(v.z, v.w));
        const uint2 other = make_uint2(__shfl_xor_sync(kAllLanes, mine.x, 1), __shfl_xor_sync(kAllLanes, mine.y, 1));
        const uint32_t is_odd = lane_of() % 2;
        const uint4 words = is_odd ? make_uint4(other.x, other.y, mine.x, mine.y) : make_uint4(mine.x, mine.y, other.x, other.y);
        if (!exists) return;
        const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to - 4 * is_odd));
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
            const uint32_t block = 2 * is_odd + i;
            if (block == rank) *reinterpret_cast<uint4*>(to - 4 * is_odd) = words;
            else inbox.send(address, block, words);
        }
    }

    // The results of a step, from the parts. A thread has the same columns of all its rows.
    __device__ void finish(const Step& step, float4 bias) {
        if (step.target == kToColumns) return finish_columns(step);
        const uint32_t log_threads = 3 + step.log_pairs, num_together = kThreads >> log_threads;
        const uint32_t own = (threadIdx.x & ((1u << log_threads) - 1)) * 4, column = rank * num_columns(step) + own;
#pragma unroll 1
        for (uint32_t first = 0; first < kRows; first += num_together) {
            const uint32_t r = first + (threadIdx.x >> log_threads);
            const bool exists = r < kRows;
            float4 v = sum_of_parts(step, exists ? r : 0, own);
            v.x += bias.x, v.y += bias.y, v.z += bias.z, v.w += bias.w;
            if (step.has_relu) v = make_float4(row::relu(v.x), row::relu(v.y), row::relu(v.z), row::relu(v.w));
            if (step.target == kToAll) {
                share(place_of(r, step.output + column), v, exists);
            } else if (exists) {
                store(step, r, step.target == kToAnchors ? own : column, v);
            }
        }
    }

    // Results that are not shared.
    __device__ void store(const Step& step, uint32_t r, uint32_t column, float4 v) const {
        const uint32_t row = first_row + r;
        const bool exists = row < step.num_rows;
        const uint64_t at = static_cast<uint64_t>(row) * step.stride + column;
        if (step.target == kToRows) {
            if (exists && column < step.num_values) row::store4(v, step.rows.data + at);
            return;
        }
        float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t c = column + i;
            if (c >= step.num_values) return;
            if (step.target == kToAnchors) {
                // All thread blocks have a copy of the anchors.
                if (c >= args.first_divided) values[i] = __fdividef(values[i], args.interval.data[0]);
                values[i] += shared.anchors[r * kAnchorLen + c];
                shared.anchors[r * kAnchorLen + c] = values[i];
            }
            if (exists && (step.target != kToAnchors || r / kOwnRows == rank)) step.values.data[at + i] = values[i];
        }
    }

    // A row per output: a thread has a column of 8 rows.
    __device__ void finish_columns(const Step& step) const {
        const uint32_t columns = num_columns(step), pitch = pitch_of(step);
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < columns * (kRows / 8); i += kThreads) {
            const uint32_t column = i & (columns - 1), first = i >> (5 + step.log_pairs) << 3;
            if (first_row + first >= step.stride) continue;
            const float* from = shared.parts + first * pitch + column;
            float v[row::kGroup];
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) v[k] = step.bias.data[rank * columns + column];
#pragma unroll 1
            for (uint32_t p = 0; p < kWarps / 2 >> step.log_pairs; ++p, from += kRows * pitch) {
#pragma unroll
                for (uint32_t k = 0; k < row::kGroup; ++k) v[k] += from[k * pitch];
            }
            row::store(v, step.rows.data + static_cast<uint64_t>(rank * columns + column) * step.stride + first_row + first);
        }
    }

    // The part of the encoder that this lane's channels belong to, and the part's lanes.
    __device__ uint32_t encoder_part() const {
        uint32_t part = 0;
#pragma unroll
        for (uint32_t i = 0; i + 1 < kParts; ++i) part += lane_of() >= args.encoder_ends[i];
        return part;
    }
    __device__ uint32_t encoder_lanes() const {
        const uint32_t part = encoder_part();
        return args.encoder_ends[part] - (part == 0 ? 0 : args.encoder_ends[part - 1]);
    }

    // The sum over this lane and its neighbours.
    __device__ static float sum_of(float sum, uint32_t lanes) {
#pragma unroll
        for (uint32_t step = 1; step < kLanes; step *= 2) {
            const float other = __shfl_xor_sync(kAllLanes, sum, step);
            if (step < lanes) sum += other;
        }
        return sum;
    }

    // A lane's factors and summands of a normalization.
    struct Norm {
        float gamma[row::kGroup], beta[row::kGroup];

        // Here and not where they are used: they arrive while results are shared.
        __device__ void load(const float* from) {
            float* to[4] = {gamma, gamma + 4, beta, beta + 4};
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) {
                asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];"
                             : "=f"(to[i][0]), "=f"(to[i][1]), "=f"(to[i][2]), "=f"(to[i][3])
                             : "l"(from + i * kLanes * 4 + lane_of() * 4));
            }
        }
    };

    // Normalizes the rows, a warp a row, stores and adds. A lane has 8 channels, of 512 twice as many.
    __device__ void finish_rows(const After& after, Norm& norm) {
        constexpr uint32_t kEach = (kRows + kWarps - 1) / kWarps;
        const bool has_norm = after.norm.len != 0;
        const uint32_t groups = after.norm_parts == 2 ? 2 : 1, lanes = after.norm_parts == 0 ? encoder_lanes() : kLanes;
        const float inverse = __fdividef(1.0f, static_cast<float>(lanes * groups * row::kGroup));
        float mean[kEach] = {}, scale[kEach] = {}, v[kEach][row::kGroup];
        __half* at = place_of(warp_of(), after.column + lane_of() * row::kGroup);
        const auto load = [&](uint32_t group) {
#pragma unroll
            for (uint32_t i = 0; i < kEach; ++i) row::load(at + i * kWarps * kPitch + group * kChannels, v[i]);
        };
        if (has_norm) {
#pragma unroll 1
            for (uint32_t group = groups; group != 0; --group) {
                load(group - 1);
#pragma unroll
                for (uint32_t i = 0; i < kEach; ++i) mean[i] += ((v[i][0] + v[i][1]) + (v[i][2] + v[i][3])) + ((v[i][4] + v[i][5]) + (v[i][6] + v[i][7]));
            }
#pragma unroll
            for (uint32_t i = 0; i < kEach; ++i) mean[i] = sum_of(mean[i], lanes) * inverse;
#pragma unroll 1
            for (uint32_t group = groups; group != 0; --group) {
                load(group - 1);
#pragma unroll
                for (uint32_t i = 0; i < kEach; ++i) {
#pragma unroll
                    for (uint32_t k = 0; k < row::kGroup; ++k) scale[i] = fmaf(v[i][k] - mean[i], v[i][k] - mean[i], scale[i]);
                }
            }
#pragma unroll
            for (uint32_t i = 0; i < kEach; ++i) scale[i] = rsqrtf(sum_of(scale[i], lanes) * inverse + args.epsilon);
        }
#pragma unroll 1
        for (uint32_t group = 0; group < groups; ++group) {
            load(group);
            if (group != 0) norm.load(after.norm.data + 2 * kChannels);
#pragma unroll
            for (uint32_t i = 0; i < kEach; ++i) {
                const uint32_t r = i * kWarps + warp_of();
                if (r >= kRows) continue;
                if (has_norm) {
#pragma unroll
                    for (uint32_t k = 0; k < row::kGroup; ++k) v[i][k] = fmaf((v[i][k] - mean[i]) * scale[i], norm.gamma[k], norm.beta[k]);
                    row::store(v[i], at + i * kWarps * kPitch + group * kChannels);
                }
                if (after.rows.len != 0 && r / kOwnRows == rank && first_row + r < after.num_rows) {
                    row::store(v[i], after.rows.data + static_cast<uint64_t>(first_row + r) * after.stride + lane_of() * row::kGroup);
                }
                if (after.sum != 0) {
                    float more[row::kGroup];
                    row::load(place_of(r, after.addend + lane_of() * row::kGroup), more);
#pragma unroll
                    for (uint32_t k = 0; k < row::kGroup; ++k) more[k] += v[i][k];
                    row::store(more, place_of(r, after.sum + lane_of() * row::kGroup));
                }
            }
        }
        __syncthreads();
    }

    // The first layer of the encoder: the anchors in f32, ReLU. A warp has the rows that it normalizes.
    __device__ void encode(uint32_t column) {
        const auto* weights = reinterpret_cast<const float4*>(args.encoder.data) + lane_of();
        float4 w[row::kGroup];
#pragma unroll
        for (uint32_t k = 0; k < row::kGroup; ++k) w[k] = weights[k * kLanes];
        // The parts read 3, 3, 2 and 3 values.
        const uint32_t part = encoder_part(), first = part * 3 - part / 3;
#pragma unroll 1
        for (uint32_t r = warp_of(); r < kRows; r += kWarps) {
            const float* anchor = shared.anchors + r * kAnchorLen + first;
            const float x = anchor[0], y = anchor[1], z = part == 2 ? 0.0f : anchor[2];
            float v[row::kGroup];
#pragma unroll
            for (uint32_t k = 0; k < row::kGroup; ++k) v[k] = row::relu(fmaf(z, w[k].z, fmaf(y, w[k].y, x * w[k].x)) + w[k].w);
            row::store(v, place_of(r, column + lane_of() * row::kGroup));
        }
        __syncwarp();
    }

    __device__ void run_step(uint32_t index) {
        const Step step = shared.steps[index];
        if (is_skipped(step)) return;
        if (step.load != 0) load_rows(step.load - 1);
        const After& after = step.after;
        Norm norm;
        const auto load_norm = [&] {
            if (after.norm.len != 0) norm.load(after.norm.data);
        };
        if (step.target == kToEncode) {
            load_norm();
            encode(after.column);
        } else {
            // Loaded before it is needed.
            float4 bias = make_float4(0, 0, 0, 0);
            if (step.target != kToColumns) {
                const uint32_t first = step.target == kToAnchors ? 0 : rank * num_columns(step);
                bias = *reinterpret_cast<const float4*>(step.bias.data + first + (threadIdx.x & ((8u << step.log_pairs) - 1)) * 4);
            }
            P::multiply(step);
            load_norm();
            __syncthreads();
            finish(step, bias);
            if (step.target != kToAll) return __syncthreads();
            inbox.receive(kRows * num_columns(step) * (kBlocks - 1) * static_cast<uint32_t>(sizeof(__half)));
            __syncthreads();
        }
        if (after.norm.len + after.rows.len + after.sum != 0) finish_rows(after, norm);
    }

    // Copies the steps from the parameters.
    __device__ void copy_steps() const {
        constexpr uint32_t kQuads = sizeof(Args::steps) / 16;
        static_assert(kQuads <= kThreads && sizeof(Args::steps) % 16 == 0);
        if (threadIdx.x >= kQuads) return;
        uint4 v;
        asm volatile("ld.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "l"(reinterpret_cast<const uint4*>(args.steps) + threadIdx.x));
        reinterpret_cast<uint4*>(shared.steps)[threadIdx.x] = v;
    }

    __device__ void run() {
        if (threadIdx.x == 0) inbox.init();
        cluster::arrive();
        copy_steps();
        overlap::allow_next();
        overlap::wait_for_earlier();
        for (uint32_t i = 0; i < args.num_loads; ++i) load_rows(i);
        asm volatile("cp.async.commit_group;" ::: "memory");
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = 0; i < R::kUnits; ++i) fetch();
        if (args.anchors.len != 0) {
#pragma unroll 1
            for (uint32_t i = threadIdx.x; i < kRows * kBoxLen; i += kThreads) {
                const uint32_t r = i / kBoxLen, c = i % kBoxLen;
                shared.anchors[r * kAnchorLen + c] = first_row + r < args.num_rows ? args.anchors.data[(first_row + r) * kBoxLen + c] : 0.0f;
            }
        }
        P::template wait_for_units<R::kUnits>();
        // The barriers of the other thread blocks exist.
        cluster::wait();
        __syncthreads();
#pragma unroll 1
        for (uint32_t i = 0; i < args.num_steps; ++i) run_step(i);
    }
};

}  // namespace layer_chain
