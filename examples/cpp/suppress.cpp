// Suppression of boxes that are in the memory of a GPU, on a stream of the program. Needs the CUDA
// toolkit's runtime library:
//   suppress

#include <det_post.hpp>

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

namespace
{

void check(cudaError_t result)
{
  if (result != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(result));
    std::exit(1);
  }
}

template<typename T>
T * upload(const std::vector<T> & values, cudaStream_t stream)
{
  T * memory = nullptr;
  const auto num_bytes = values.size() * sizeof(T);
  check(cudaMalloc(reinterpret_cast<void **>(&memory), num_bytes));
  check(cudaMemcpyAsync(memory, values.data(), num_bytes, cudaMemcpyHostToDevice, stream));
  return memory;
}

}  // namespace

int main()
try {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  // The second box overlaps the first by two thirds.
  const std::vector<float> boxes{0, 0, 10, 10, 2, 0, 12, 10, 30, 0, 40, 10}, scores{0.9f, 0.8f, 0.7f};
  auto * device_boxes = upload(boxes, stream);
  auto * device_scores = upload(scores, stream);

  det_post::Workspace workspace("cuda:0");
  workspace.set_stream(stream);
  const float iou_threshold = 0.5f;
  det_post_suppression suppression{};
  suppression.kind = DET_POST_SUPPRESS_IOU;
  suppression.thresholds = &iou_threshold;
  suppression.num_thresholds = 1;
  const auto & kept = workspace.suppress(suppression, {device_boxes, device_scores, nullptr, 3, 4});

  std::vector<int64_t> indices(kept.num_survivors);
  check(
    cudaMemcpyAsync(
      indices.data(), kept.indices, 8 * indices.size(), cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));
  for (const auto index : indices) {
    std::printf("%lld\n", static_cast<long long>(index));
  }
  check(cudaFree(device_boxes));
  check(cudaFree(device_scores));
  check(cudaStreamDestroy(stream));
  return 0;
} catch (const det_post::Error & error) {
  std::fprintf(stderr, "%s: %s\n", error.name(), error.what());
  return 1;
}
