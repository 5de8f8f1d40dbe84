// Sampling of feature maps: sample.cuh.

#include "view/sample.cuh"

#define VIEW_SAMPLE_REFERENCES(T, M, kBlocks, name)                                                \
    extern "C" __global__ void __launch_bounds__(view_sample::kReferenceThreads, kBlocks)          \
        name(const __grid_constant__ view_sample::ReferenceAndLinearArgs<T> args) {                \
        extern __shared__ uint4 shared[];                                                          \
        view_sample::sample_references_and_linear<T, M>(args, reinterpret_cast<uint8_t*>(shared)); \
    }

VIEW_SAMPLE_REFERENCES(__half, __half, 6, view_sample_references_f16)
VIEW_SAMPLE_REFERENCES(__half, int8_t, 6, view_sample_references_f16_i8)
VIEW_SAMPLE_REFERENCES(float, float, 5, view_sample_references_f32)
VIEW_SAMPLE_REFERENCES(float, __half, 5, view_sample_references_f32_f16)

// Key points of anchors, f32: sample_points.cuh.

#include "view/sample_points.cuh"

#define VIEW_SAMPLE_POINTS(M, kBlocks, name)                                           \
    extern "C" __global__ void __launch_bounds__(view_sample::kPointsThreads, kBlocks) \
        name(const __grid_constant__ view_sample::PointsArgs<float> args) {            \
        extern __shared__ uint4 shared[];                                              \
        view_sample::sample_points<M>(args, reinterpret_cast<float*>(shared));         \
    }

VIEW_SAMPLE_POINTS(float, 3, view_sample_points_f32)
VIEW_SAMPLE_POINTS(__half, 3, view_sample_points_f32_f16)

// Key points of anchors, f16: sample_cells.cuh.

#include "view/sample_cells.cuh"

#define VIEW_SAMPLE_CELLS(M, kBlocks, name)                                          \
    extern "C" __global__ void __launch_bounds__(view_sample::kCellThreads, kBlocks) \
        name(const __grid_constant__ view_sample::PointsArgs<__half> args) {         \
        view_sample::sample_cells<M>(args);                                          \
    }

VIEW_SAMPLE_CELLS(__half, 4, view_sample_points_f16)
VIEW_SAMPLE_CELLS(int8_t, 4, view_sample_points_f16_i8)
