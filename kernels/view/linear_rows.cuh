// The input rows of a block of linear layers in shared memory, and what precedes the layers:
// linear.cuh.
#pragma once

#include "view/linear_products.cuh"

namespace linear {

// Values between the starts of two rows in shared memory: rows begin in different banks.
template <typename T>
__host__ __device__ uint32_t pitch_of(uint32_t len) {
    return len + 16 / sizeof(T);
}

// The rows of a block in shared memory. Of each 16, a warp brings and normalizes four, eight
// lanes a row.
template <typename T, uint32_t kTiles>
struct Rows {
    T* values;
    uint32_t pitch;
    uint32_t first_row;
    uint32_t num_rows;  // of the job

    __device__ void copy(Slice<const T> from, uint32_t stride, uint32_t len,
                         uint32_t column) const {
        constexpr uint32_t kQuad = 16 / sizeof(T);
#pragma unroll 1
        for (uint32_t m = 0; m < kTiles; ++m) {
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) {
                const uint32_t r = m * 16 + warp_of() * 4 + i;
                const bool exists = first_row + r < num_rows;
                const T* row =
                    from.data + static_cast<uint64_t>(exists ? first_row + r : 0) * stride;
                for (uint32_t c = lane_of() * kQuad; c < len; c += kLanes * kQuad) {
                    copy_async(values + r * pitch + column + c, row + c, exists);
                }
            }
        }
    }

    // W inverse_sigmoid(point) + bias: the first layer of the position encoder.
    __device__ void encode(Slice<const float> points, Slice<const float> encoder,
                           uint32_t len) const {
        const auto* weights = reinterpret_cast<const float4*>(encoder.data);
#pragma unroll 1
        for (uint32_t m = 0; m < kTiles; ++m) {
            const uint32_t r = m * 16 + warp_of() * 4 + lane_of() / 8;
            float point[3];
#pragma unroll
            for (uint32_t i = 0; i < 3; ++i) {
                point[i] = points.data[3 * (first_row + r < num_rows ? first_row + r : 0) + i];
            }
#pragma unroll
            for (uint32_t i = 0; i < 3; ++i) point[i] = refine::inverse_sigmoid<T>(point[i]);
#pragma unroll 1
            for (uint32_t c = lane_of() % 8 * row::kGroup; c < len; c += 8 * row::kGroup) {
                float v[row::kGroup];
#pragma unroll
                for (uint32_t k = 0; k < row::kGroup; ++k) {
                    const float4 w = weights[c + k];
                    v[k] = fmaf(point[2], w.z, fmaf(point[1], w.y, fmaf(point[0], w.x, w.w)));
                }
                row::store(v, values + r * pitch + c);
            }
        }
    }

    __device__ static float sum_of_eight(float v) {
        v += __shfl_xor_sync(kAllLanes, v, 4);
        v += __shfl_xor_sync(kAllLanes, v, 2);
        return v + __shfl_xor_sync(kAllLanes, v, 1);
    }

    // Layer normalization of `len` columns, ReLU, the copy that is kept, the addend; each if asked
    // for.
    __device__ void finish(const float* norm, uint32_t len, bool has_relu, float epsilon,
                           Slice<T> kept, uint32_t kept_stride, Slice<const T> addend) const {
        const float inverse = 1.0f / static_cast<float>(len);
        const uint32_t first = lane_of() % 8 * row::kGroup;
#pragma unroll 1
        for (uint32_t m = 0; m < kTiles; ++m) {
            const uint32_t r = m * 16 + warp_of() * 4 + lane_of() / 8;
            const uint64_t row = first_row + r;
            T* at = values + r * pitch;
            float mean = 0, scale = 0;
            if (norm != nullptr) {
#pragma unroll 2
                for (uint32_t c = first; c < len; c += 8 * row::kGroup) {
                    float v[row::kGroup];
                    row::load(at + c, v);
                    mean += ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
                }
                mean = sum_of_eight(mean) * inverse;
#pragma unroll 2
                for (uint32_t c = first; c < len; c += 8 * row::kGroup) {
                    float v[row::kGroup];
                    row::load(at + c, v);
#pragma unroll
                    for (uint32_t k = 0; k < row::kGroup; ++k) v[k] -= mean;
                    scale = fmaf(v[0], v[0], fmaf(v[1], v[1], scale)) +
                            fmaf(v[2], v[2], v[3] * v[3]) +
                            (fmaf(v[4], v[4], v[5] * v[5]) + fmaf(v[6], v[6], v[7] * v[7]));
                }
                scale = rsqrtf(sum_of_eight(scale) * inverse + epsilon);
            }
#pragma unroll 1
            for (uint32_t c = first; c < len; c += 8 * row::kGroup) {
                float v[row::kGroup];
                row::load(at + c, v);
                if (norm != nullptr) {
                    float gamma[row::kGroup], beta[row::kGroup];
                    row::load(norm + c, gamma);
                    row::load(norm + len + c, beta);
#pragma unroll
                    for (uint32_t k = 0; k < row::kGroup; ++k)
                        v[k] = fmaf((v[k] - mean) * scale, gamma[k], beta[k]);
                }
                if (has_relu) {
#pragma unroll
                    for (uint32_t k = 0; k < row::kGroup; ++k) v[k] = row::relu(v[k]);
                }
                if (kept.len != 0 && row < num_rows)
                    row::store(v, kept.data + row * kept_stride + c);
                if (addend.len != 0 && row < num_rows) {
                    float more[row::kGroup];
                    row::load(addend.data + row * len + c, more);
#pragma unroll
                    for (uint32_t k = 0; k < row::kGroup; ++k) v[k] += more[k];
                }
                row::store(v, at + c);
            }
        }
    }
};

}  // namespace linear
