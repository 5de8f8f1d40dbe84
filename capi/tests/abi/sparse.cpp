// A sparse network of layers that share rulebooks, on the arrays of a folder: writes what every layer finds
// to the folder. Prints `no failures`, `no GPU`, or what failed.
// Arguments: the folder, `cpu` or `cuda:0`, the number of a precision.

#include "cuda.hpp"
#include "expect.hpp"

#include <det_post.hpp>

#include <cstring>
#include <fstream>

namespace {

std::string folder;

template<typename T>
std::vector<T> read(const std::string & name)
{
  std::ifstream file(folder + "/" + name, std::ios::binary | std::ios::ate);
  std::vector<T> values(static_cast<std::size_t>(file.tellg()) / sizeof(T));
  file.seekg(0);
  file.read(reinterpret_cast<char *>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  return values;
}

// Arrays on the device of a workspace.
class Arrays
{
public:
  explicit Arrays(bool is_on_gpu)
  {
    if (is_on_gpu) {
      cuda_.open();
      stream = cuda_.stream();
    }
  }

  template<typename T>
  const T * put(const std::vector<T> & values)
  {
    if (stream == nullptr) {return values.data();}
    const auto address = cuda_.allocate(values.size() * sizeof(T));
    cuda_.upload(address, values.data(), values.size() * sizeof(T), stream);
    return reinterpret_cast<const T *>(static_cast<uintptr_t>(address));
  }

  template<typename T>
  void write(const std::string & name, const T * values, std::size_t num)
  {
    std::vector<T> copy(num);
    if (num > 0 && stream == nullptr) {std::memcpy(copy.data(), values, num * sizeof(T));}
    if (num > 0 && stream != nullptr) {cuda_.download(copy.data(), values, num * sizeof(T), stream);}
    std::ofstream file(folder + "/" + name, std::ios::binary);
    file.write(reinterpret_cast<const char *>(copy.data()), static_cast<std::streamsize>(num * sizeof(T)));
  }

  void * stream = nullptr;

private:
  Cuda cuda_;
};

det_post::SparseWeights weights_of(
  det_post::Workspace & workspace, const std::string & name, uint32_t precision, std::size_t num_outputs,
  std::size_t num_inputs)
{
  const auto weights = read<float>(name + ".weights"), bias = read<float>(name + ".bias");
  const auto scale = read<float>(name + ".scale"), shift = read<float>(name + ".shift");
  det_post_sparse_parameters parameters{};
  parameters.precision = precision;
  parameters.num_output_channels = num_outputs;
  parameters.num_taps = 27;
  parameters.num_input_channels = num_inputs;
  parameters.weights = weights.data();
  parameters.bias = bias.data();
  parameters.scale = scale.data();
  parameters.shift = shift.data();
  return workspace.weights(parameters);
}

det_post_sparse_geometry geometry_of(uint32_t mode, uint32_t kernel, uint32_t stride)
{
  det_post_sparse_geometry geometry{};
  geometry.mode = mode;
  for (int axis = 0; axis < 3; ++axis) {
    geometry.kernel[axis] = kernel;
    geometry.stride[axis] = stride;
    geometry.padding[axis] = kernel / 2;
    geometry.dilation[axis] = 1;
  }
  return geometry;
}

det_post_sparse_features features_of(const det_post_sparse_result & result)
{
  return {result.features, result.num_sites, result.num_channels, DET_POST_ORDER_SITES, 0};
}

void run(det_post::Workspace & workspace, Arrays & arrays, uint32_t precision)
{
  const auto cells = read<int32_t>("cells");
  const auto values = read<float>("features");
  const std::size_t num_rows = cells.size() / 4;
  auto sites = workspace.sites({arrays.put(cells), num_rows, 2, {9, 33, 40}, 0, {}});
  const auto & info = sites.info();
  const std::size_t counts[] = {info.num_sites, info.num_outside, info.num_duplicates, info.num_over_capacity};
  std::ofstream(folder + "/counts", std::ios::binary).write(reinterpret_cast<const char *>(counts), sizeof counts);
  arrays.write("coordinates", info.coordinates, 4 * info.num_sites);
  arrays.write("rows", info.rows, info.num_sites);

  const det_post::Rulebook same(sites, geometry_of(DET_POST_SPARSE_SUBMANIFOLD, 3, 1));
  const det_post::Rulebook down(sites, geometry_of(DET_POST_SPARSE_STRIDED, 3, 2));
  const det_post::Rulebook pooling(sites, geometry_of(DET_POST_SPARSE_STRIDED, 2, 2));
  const auto up = down.inverse();
  const auto coarse = down.sites();
  {
    // Rulebooks keep their sites.
    const auto closed = std::move(sites);
  }
  const det_post::Rulebook of_coarse(coarse, geometry_of(DET_POST_SPARSE_SUBMANIFOLD, 3, 1));
  const auto w1 = weights_of(workspace, "w1", precision, 16, 5), w2 = weights_of(workspace, "w2", precision, 16, 16);
  const auto w3 = weights_of(workspace, "w3", precision, 32, 16), w4 = weights_of(workspace, "w4", precision, 32, 32);
  const auto w5 = weights_of(workspace, "w5", precision, 16, 32);
  // Twice, so that memory is used again.
  for (int call = 0; call < 2; ++call) {
    const auto & out1 = workspace.convolve(
      {same.get(), w1.get(), nullptr, 1, 0}, {arrays.put(values), num_rows, 5, DET_POST_ORDER_COORDINATES, 0});
    const auto & out2 = workspace.convolve({same.get(), w2.get(), out1.features, 1, 0}, features_of(out1));
    const auto & out3 = workspace.convolve({down.get(), w3.get(), nullptr, 1, 0}, features_of(out2));
    const auto & out4 = workspace.convolve({of_coarse.get(), w4.get(), out3.features, 0, 0}, features_of(out3));
    const auto & out5 = workspace.convolve({up.get(), w5.get(), out2.features, 1, 0}, features_of(out4));
    int number = 0;
    for (const auto * out : {&out1, &out2, &out3, &out4, &out5}) {
      arrays.write("out" + std::to_string(++number), out->features, out->num_sites * out->num_channels);
    }
    const auto & pooled = workspace.max_pool(pooling, features_of(out2));
    arrays.write("pooled", pooled.features, pooled.num_sites * pooled.num_channels);
    const auto & map = workspace.to_map({coarse.get(), {2, 1, 0}, 0}, features_of(out4));
    arrays.write("map", map.values, map.shape[0] * map.shape[1] * map.shape[2] * map.shape[3]);
    int of = 0;
    for (const auto * rulebook : {&same, &down, &up}) {
      const auto & pairs = workspace.pairs(*rulebook);
      const auto name = "pairs" + std::to_string(of++);
      arrays.write(name, pairs.table, pairs.num_taps * pairs.num_sites);
      std::ofstream file(folder + "/" + name + ".num", std::ios::binary);
      file.write(
        reinterpret_cast<const char *>(pairs.num_pairs), static_cast<std::streamsize>(pairs.num_taps * sizeof(size_t)));
    }
  }
}

}  // namespace

int main(int, char ** arguments)
{
  folder = arguments[1];
  const bool is_on_gpu = std::strcmp(arguments[2], "cpu") != 0;
  if (is_on_gpu && !Cuda{}.open()) {
    std::puts("no GPU");
    return 0;
  }
  try {
    det_post::Workspace workspace(arguments[2]);
    Arrays arrays(is_on_gpu);
    if (is_on_gpu) {workspace.set_stream(arrays.stream);}
    run(workspace, arrays, static_cast<uint32_t>(std::atoi(arguments[3])));
  } catch (const det_post::Error & error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
  std::puts("no failures");
  return 0;
}
