// Device pointers and streams: detections and results of operations are those of host memory.
// Prints `no failures`, `no GPU`, or what failed.
// Arguments: a parameter file with the channels `camera` and `lidar`, assignments of parameters;
// without arguments, only operations are run.

#include "cuda.hpp"
#include "expect.hpp"

#include <det_post.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

namespace {

// Work that keeps a stream busy for milliseconds.
constexpr std::size_t num_busy_bytes = std::size_t{1} << 28;
Cuda::Address busy = 0;

void keep_busy(Cuda & cuda, void * stream)
{
  for (int i = 0; i < 40; ++i) {cuda.fill(busy, static_cast<unsigned char>(i), num_busy_bytes, stream);}
}

const uint8_t * pointer(Cuda::Address address)
{
  return reinterpret_cast<const uint8_t *>(static_cast<uintptr_t>(address));
}

const float * floats(Cuda::Address address)
{
  return reinterpret_cast<const float *>(static_cast<uintptr_t>(address));
}

// The detections of a frame as text with the bits of their numbers.
std::string text_of(const det_post_detections & found)
{
  std::string text;
  const auto add = [&](const void * values, std::size_t num_bytes) {
    const auto * bytes = static_cast<const unsigned char *>(values);
    char byte[3];
    for (std::size_t i = 0; i < num_bytes; ++i) {
      std::snprintf(byte, sizeof byte, "%02x", bytes[i]);
      text += byte;
    }
    text += '\n';
  };
  for (std::size_t i = 0; i < found.num_detections; ++i) {
    if (found.boxes_2d) {add(&found.boxes_2d[i], sizeof found.boxes_2d[i]);}
    if (found.boxes_3d) {add(&found.boxes_3d[i], sizeof found.boxes_3d[i]);}
  }
  return text;
}

det_post_detector open(const char * channel, char ** arguments, int num_arguments)
{
  const char * files[] = {arguments[0]};
  std::vector<const char *> overrides(arguments + 1, arguments + num_arguments);
  overrides.push_back("device:=cuda:0");
  overrides.push_back("camera.score_threshold:=0.001");
  det_post_configuration configuration{};
  configuration.files = files;
  configuration.num_files = 1;
  configuration.overrides = overrides.data();
  configuration.num_overrides = overrides.size();
  configuration.channel = channel;
  det_post_detector detector{};
  expect(
    det_post_detector_open(&configuration, &detector) == DET_POST_OK, message_of(0).c_str());
  return detector;
}

std::string detect(det_post_detector detector, const det_post_input & input)
{
  const det_post_frame frame{&input, 1, {}};
  const det_post_detections * found = nullptr;
  if (det_post_detector_detect(detector, &frame, &found) != DET_POST_OK) {
    return "failed: " + message_of(detector.id);
  }
  return text_of(*found);
}

// Payloads on a GPU, written by work that is queued behind milliseconds of other work.
void payloads(
  Cuda & cuda, det_post_detector detector, det_post_input & input, det_post_bytes & bytes,
  const char * what)
{
  const auto * host = bytes.data;
  const auto expected = detect(detector, input);
  expect(!expected.empty() && expected.compare(0, 6, "failed") != 0, what);
  const auto ready = cuda.allocate(bytes.num_bytes), target = cuda.allocate(bytes.num_bytes);
  auto * stream = cuda.stream();
  cuda.upload(ready, host, bytes.num_bytes, stream);
  cuda.wait(stream);
  for (void * of : {stream, static_cast<void *>(nullptr)}) {
    for (int frame = 0; frame < 5; ++frame) {
      cuda.fill(target, 0, bytes.num_bytes, of);
      keep_busy(cuda, of);
      cuda.copy(target, ready, bytes.num_bytes, of);
      bytes.data = pointer(target);
      input.is_on_device = 1;
      input.stream = of;
      expect(detect(detector, input) == expected, what);
      // The bytes have been read: they may be overwritten at once.
    }
  }
  // Not aligned to anything.
  const auto odd = cuda.allocate(bytes.num_bytes + 16) + 1;
  cuda.copy(odd, ready, bytes.num_bytes, stream);
  bytes.data = pointer(odd);
  input.stream = stream;
  expect(detect(detector, input) == expected, "an odd address");
  bytes.data = host;
  expect(detect(detector, input).compare(0, 6, "failed") == 0, "a host pointer is refused");
  // The allocation ends before the payload does.
  bytes.data = pointer(odd + bytes.num_bytes - 1);
  expect(detect(detector, input).compare(0, 6, "failed") == 0, "more than the allocation");
  input.is_on_device = 0;
  bytes.data = host;
  expect(detect(detector, input) == expected, "host memory after it");
}

void camera(Cuda & cuda, char ** arguments, int num_arguments)
{
  constexpr uint32_t width = 640, height = 360;
  std::vector<uint8_t> pixels(3 * width * height);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const auto x = i / 3 % width, y = i / 3 / width;
    pixels[i] = static_cast<uint8_t>((x / 40 + y / 40) % 2 * 120 + i % 3 * 40 + x % 17);
  }
  det_post_image image{width, height, 3 * width, "rgb8", 0, {pixels.data(), pixels.size()}};
  det_post_input input{};
  input.kind = DET_POST_INPUT_IMAGE;
  input.frame_id = "camera";
  input.image = &image;
  const auto detector = open("camera", arguments, num_arguments);
  payloads(cuda, detector, input, image.bytes, "an image on the GPU");
  det_post_detector_close(detector);
}

void lidar(Cuda & cuda, char ** arguments, int num_arguments)
{
  std::mt19937 random(7);
  std::uniform_real_distribution<float> unit(0.0f, 1.0f);
  std::vector<float> values;
  for (int i = 0; i < 20000; ++i) {
    // Boxes of points around the sensor.
    const float angle = static_cast<float>(i % 40) * 0.157f, range = 8.0f + static_cast<float>(i % 7) * 4;
    values.insert(
      values.end(), {range * std::cos(angle) + unit(random) * 4, range * std::sin(angle) + unit(random) * 2,
        unit(random) * 1.6f - 1.6f, unit(random)});
  }
  const det_post_point_field fields[] = {
    {"x", 0, 7, 1}, {"y", 4, 7, 1}, {"z", 8, 7, 1}, {"intensity", 12, 7, 1}};
  det_post_cloud cloud{};
  cloud.width = static_cast<uint32_t>(values.size() / 4);
  cloud.height = 1;
  cloud.point_step = 16;
  cloud.row_step = 16 * cloud.width;
  cloud.fields = fields;
  cloud.num_fields = 4;
  cloud.bytes = {reinterpret_cast<const uint8_t *>(values.data()), 4 * values.size()};
  det_post_input input{};
  input.kind = DET_POST_INPUT_CLOUD;
  input.frame_id = "lidar";
  input.cloud = &cloud;
  const auto detector = open("lidar", arguments, num_arguments);
  payloads(cuda, detector, input, cloud.bytes, "a cloud on the GPU");
  det_post_detector_close(detector);
}

// Suppression and letterbox in the memory of the GPU, on a stream that is busy.
void operations(Cuda & cuda)
{
  det_post_workspace host{}, gpu{};
  expect(det_post_workspace_open("cpu", &host) == DET_POST_OK, "a workspace");
  expect(det_post_workspace_open("cuda:0", &gpu) == DET_POST_OK, "a workspace on the GPU");
  auto * stream = cuda.stream();
  expect(det_post_workspace_set_stream(gpu, stream) == DET_POST_OK, "its stream");

  constexpr std::size_t num = 3000;
  std::mt19937 random(5);
  std::uniform_real_distribution<float> unit(0.0f, 1.0f);
  std::vector<float> boxes, scores;
  std::vector<uint32_t> classes;
  for (std::size_t i = 0; i < num; ++i) {
    const float x = unit(random) * 600, y = unit(random) * 400;
    boxes.insert(boxes.end(), {x, y, x + 10 + unit(random) * 40, y + 10 + unit(random) * 40});
    scores.push_back(unit(random));
    classes.push_back(static_cast<uint32_t>(i % 3));
  }
  const float half = 0.5f;
  det_post_suppression how{};
  how.kind = DET_POST_SUPPRESS_IOU;
  how.class_mode = DET_POST_CLASSES_AWARE;
  how.thresholds = &half;
  how.num_thresholds = 1;
  const det_post_survivors * expected = nullptr, * found = nullptr;
  const det_post_boxes on_host{boxes.data(), scores.data(), classes.data(), num, 4};
  expect(det_post_workspace_suppress(host, &how, &on_host, &expected) == DET_POST_OK, "host boxes");
  const auto device_boxes = cuda.allocate(4 * boxes.size()), ready = cuda.allocate(4 * boxes.size());
  const auto device_scores = cuda.allocate(4 * num), device_classes = cuda.allocate(4 * num);
  cuda.upload(ready, boxes.data(), 4 * boxes.size(), stream);
  cuda.upload(device_scores, scores.data(), 4 * num, stream);
  cuda.upload(device_classes, classes.data(), 4 * num, stream);
  const det_post_boxes on_gpu{
    floats(device_boxes), floats(device_scores),
    reinterpret_cast<const uint32_t *>(static_cast<uintptr_t>(device_classes)), num, 4};
  for (int call = 0; call < 5; ++call) {
    cuda.fill(device_boxes, 0, 4 * boxes.size(), stream);
    keep_busy(cuda, stream);
    cuda.copy(device_boxes, ready, 4 * boxes.size(), stream);
    expect(
      det_post_workspace_suppress(gpu, &how, &on_gpu, &found) == DET_POST_OK,
      message_of(gpu.id).c_str());
    expect(found->num_survivors == expected->num_survivors, "as many survivors");
    std::vector<int64_t> indices(found->num_survivors);
    std::vector<float> kept_scores(found->num_survivors);
    cuda.download(indices.data(), found->indices, 8 * indices.size(), stream);
    cuda.download(kept_scores.data(), found->scores, 4 * kept_scores.size(), stream);
    expect(
      std::memcmp(indices.data(), expected->indices, 8 * indices.size()) == 0, "the same ones");
    expect(
      std::memcmp(kept_scores.data(), expected->scores, 4 * kept_scores.size()) == 0,
      "with their scores");
  }
  expect_error(
    det_post_workspace_suppress(gpu, &how, &on_host, &found), DET_POST_ERROR_ARGUMENT, gpu.id,
    "not in memory of", "host pointers");

  std::vector<uint8_t> pixels(3 * 321 * 199);
  for (auto & pixel : pixels) {pixel = static_cast<uint8_t>(random());}
  det_post_image image{321, 199, 3 * 321, "bgr8", 0, {pixels.data(), pixels.size()}};
  det_post_letterbox to{};
  to.width = 320;
  to.height = 256;
  to.std[0] = to.std[1] = to.std[2] = 255.0f;
  const det_post_letterboxed * on_cpu = nullptr, * done = nullptr;
  expect(det_post_workspace_letterbox(host, &to, &image, &on_cpu) == DET_POST_OK, "a letterbox");
  const auto late_pixels = cuda.allocate(pixels.size()), ready_pixels = cuda.allocate(pixels.size());
  cuda.upload(ready_pixels, pixels.data(), pixels.size(), stream);
  image.bytes.data = pointer(late_pixels);
  for (int call = 0; call < 5; ++call) {
    cuda.fill(late_pixels, 0, pixels.size(), stream);
    keep_busy(cuda, stream);
    cuda.copy(late_pixels, ready_pixels, pixels.size(), stream);
    expect(
      det_post_workspace_letterbox(gpu, &to, &image, &done) == DET_POST_OK,
      message_of(gpu.id).c_str());
    std::vector<float> values(done->num_values);
    cuda.download(values.data(), done->values, 4 * values.size(), stream);
    expect(
      std::memcmp(values.data(), on_cpu->values, 4 * values.size()) == 0, "the same pixels");
  }
  expect(det_post_workspace_close(gpu) == DET_POST_OK, "closing");
  expect(det_post_workspace_close(host) == DET_POST_OK, "closing");
}

// Values in the memory of the GPU, written by work that is queued behind milliseconds of other work.
template<typename T>
class Late
{
public:
  Late(Cuda & cuda, void * stream, const std::vector<T> & values)
  : cuda_(cuda), stream_(stream), num_bytes_(sizeof(T) * values.size()),
    ready_(cuda.allocate(num_bytes_ + 16)), target_(cuda.allocate(num_bytes_ + 16))
  {
    cuda.upload(ready_, values.data(), num_bytes_, stream);
  }

  const T * queue()
  {
    cuda_.fill(target_, 0, num_bytes_, stream_);
    keep_busy(cuda_, stream_);
    cuda_.copy(target_, ready_, num_bytes_, stream_);
    return reinterpret_cast<const T *>(static_cast<uintptr_t>(target_));
  }

private:
  Cuda & cuda_;
  void * stream_;
  std::size_t num_bytes_;
  Cuda::Address ready_, target_;
};

// Whether values on the GPU are those in host memory; floats up to a share of themselves.
template<typename T>
bool same(
  Cuda & cuda, void * stream, const T * found, const T * expected, std::size_t num, double share = 0)
{
  std::vector<T> values(num);
  cuda.download(values.data(), found, sizeof(T) * num, stream);
  for (std::size_t i = 0; i < num; ++i) {
    const double of = static_cast<double>(expected[i]), off = static_cast<double>(values[i]) - of;
    if (!(std::fabs(off) <= share * (std::fabs(of) + 1))) {return false;}
  }
  return true;
}

void voxels(Cuda & cuda, det_post_workspace host, det_post_workspace gpu, void * stream)
{
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0.0f, 8.0f);
  std::vector<float> values(20000 * 5);
  for (auto & value : values) {value = normal(random);}
  Late<float> late(cuda, stream, values);
  for (const std::size_t num : {std::size_t{20000}, std::size_t{700}, std::size_t{0}}) {
    for (const std::size_t limit : {std::size_t{0}, std::size_t{6}}) {
      const det_post_voxel_grid grid{
        {0.5f, 0.5f, 4}, {-20, -20, -4, 20, 20, 4}, limit, 4 * limit * limit * limit, {}};
      const det_post_voxels * expected = nullptr, * found = nullptr;
      const det_post_points on_host{values.data(), num, 5};
      expect(
        det_post_workspace_voxelize(host, &grid, &on_host, &expected) == DET_POST_OK, "voxels");
      const det_post_points on_gpu{late.queue(), num, 5};
      expect(
        det_post_workspace_voxelize(gpu, &grid, &on_gpu, &found) == DET_POST_OK,
        message_of(gpu.id).c_str());
      const auto num_voxels = expected->num_voxels, num_points = expected->num_point_indices;
      expect(
        found->num_voxels == num_voxels && found->num_point_indices == num_points &&
          found->num_out_of_range == expected->num_out_of_range &&
          found->num_voxels_over_capacity == expected->num_voxels_over_capacity &&
          found->num_points_over_voxel == expected->num_points_over_voxel &&
          found->num_points_over_voxel_capacity == expected->num_points_over_voxel_capacity,
        "as many voxels");
      expect(
        same(cuda, stream, found->cells, expected->cells, 3 * num_voxels) &&
          same(
          cuda, stream, found->num_points_per_voxel, expected->num_points_per_voxel, num_voxels) &&
          same(cuda, stream, found->point_indices, expected->point_indices, num_points),
        "the same voxels");
    }
  }
  const det_post_voxel_grid grid{{1, 1, 1}, {0, 0, 0, 2, 2, 2}, 2, 0, {}};
  const det_post_voxels * found = nullptr;
  det_post_points points{values.data(), 5, 3};
  expect_error(
    det_post_workspace_voxelize(gpu, &grid, &points, &found), DET_POST_ERROR_ARGUMENT, gpu.id,
    "not in memory of", "points in host memory");
  points.values = nullptr;
  expect(det_post_workspace_voxelize(gpu, &grid, &points, &found) != DET_POST_OK, "no points");
}

void same_candidates(
  Cuda & cuda, void * stream, const det_post_decoded & found, const det_post_decoded & expected,
  const char * what)
{
  const auto num = expected.num_candidates;
  expect(
    found.num_candidates == num && found.box_len == expected.box_len &&
      found.num_over_capacity == expected.num_over_capacity &&
      found.num_nan_scores == expected.num_nan_scores &&
      found.num_invalid_boxes == expected.num_invalid_boxes &&
      found.num_unknown_classes == expected.num_unknown_classes &&
      (found.velocities_mps == nullptr) == (expected.velocities_mps == nullptr),
    what);
  if (found.num_candidates != num) {return;}
  // Exponentials may round to the next number.
  expect(
    same(cuda, stream, found.sources, expected.sources, num) &&
      same(cuda, stream, found.classes, expected.classes, num) &&
      same(cuda, stream, found.scores, expected.scores, num, 3e-7) &&
      same(cuda, stream, found.boxes, expected.boxes, num * expected.box_len, 3e-7), what);
  if (expected.velocities_mps != nullptr) {
    expect(same(cuda, stream, found.velocities_mps, expected.velocities_mps, 2 * num), what);
  }
}

void decoders(Cuda & cuda, det_post_workspace host, det_post_workspace gpu, void * stream)
{
  std::mt19937 random(12);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  const auto values = [&](std::size_t num) {
    std::vector<float> made(num);
    for (auto & value : made) {value = normal(random);}
    return made;
  };
  const auto tensor = [](const float * data, const std::size_t * shape, std::size_t rank, std::size_t num) {
    return det_post_tensor{
      "", 9, static_cast<uint32_t>(rank), shape, {reinterpret_cast<const uint8_t *>(data), 4 * num}};
  };
  const det_post_decoded * expected = nullptr, * found = nullptr;

  const std::size_t rows[] = {1, 3000, 9};
  const auto yolo_values = values(3000 * 9);
  Late<float> late_yolo(cuda, stream, yolo_values);
  det_post_yolo_decoding yolo{};
  yolo.layout = DET_POST_YOLO_V5;
  yolo.input_width = yolo.input_height = 64;
  yolo.num_classes = 4;
  yolo.score_threshold = 0.5f;
  for (const std::size_t capacity : {std::size_t{3000}, std::size_t{50}}) {
    yolo.capacity = capacity;
    auto output = tensor(yolo_values.data(), rows, 3, yolo_values.size());
    expect(
      det_post_workspace_decode_yolo(host, &yolo, &output, 1, &expected) == DET_POST_OK, "rows");
    output.bytes.data = reinterpret_cast<const uint8_t *>(late_yolo.queue());
    expect(
      det_post_workspace_decode_yolo(gpu, &yolo, &output, 1, &found) == DET_POST_OK,
      message_of(gpu.id).c_str());
    expect(expected->num_candidates > 20, "candidates");
    same_candidates(cuda, stream, *found, *expected, "rows on the GPU");
  }
  auto wrong = tensor(yolo_values.data(), rows, 3, yolo_values.size());
  expect_error(
    det_post_workspace_decode_yolo(gpu, &yolo, &wrong, 1, &found), DET_POST_ERROR_ARGUMENT, gpu.id,
    "not in memory of", "a tensor in host memory");
  wrong.bytes.data = nullptr;
  expect_error(
    det_post_workspace_decode_yolo(gpu, &yolo, &wrong, 1, &found), DET_POST_ERROR_ARGUMENT, gpu.id,
    "NULL", "no tensor");
  wrong = tensor(late_yolo.queue(), rows, 3, yolo_values.size() - 1);
  expect_error(
    det_post_workspace_decode_yolo(gpu, &yolo, &wrong, 1, &found), DET_POST_ERROR_ARGUMENT, gpu.id,
    "the tensor has", "a tensor that ends early");
  wrong.element = 5;
  expect_error(
    det_post_workspace_decode_yolo(gpu, &yolo, &wrong, 1, &found), DET_POST_ERROR_ARGUMENT, gpu.id,
    "found 5", "integers");
  yolo.capacity = 0;
  expect_error(
    det_post_workspace_decode_yolo(gpu, &yolo, &wrong, 1, &found), DET_POST_ERROR_ARGUMENT, gpu.id,
    "capacity", "no capacity");

  constexpr std::size_t height = 40, width = 56, num_cells = height * width;
  const std::size_t channels[] = {2, 2, 1, 3, 2, 2};
  std::size_t shapes[6][4];
  std::vector<std::vector<float>> maps;
  std::vector<Late<float>> late_maps;
  std::vector<det_post_tensor> on_host, on_gpu;
  for (std::size_t map = 0; map < 6; ++map) {
    const std::size_t shape[] = {1, channels[map], height, width};
    std::copy(shape, shape + 4, shapes[map]);
    maps.push_back(values(channels[map] * num_cells));
    late_maps.emplace_back(cuda, stream, maps[map]);
    on_host.push_back(tensor(maps[map].data(), shapes[map], 4, maps[map].size()));
    on_gpu.push_back(tensor(late_maps[map].queue(), shapes[map], 4, maps[map].size()));
  }
  const uint32_t num_classes = 2;
  const float threshold = 0.7f;
  det_post_center_decoding center{};
  center.cell_size_m[0] = center.cell_size_m[1] = 0.5f;
  center.num_classes_of_tasks = &num_classes;
  center.num_tasks = 1;
  center.has_logits = center.has_log_sizes = center.has_velocity = 1;
  center.score_thresholds = &threshold;
  center.num_score_thresholds = 1;
  center.capacity = 200;
  expect(
    det_post_workspace_decode_center(host, &center, on_host.data(), 6, &expected) == DET_POST_OK,
    "maps");
  expect(
    det_post_workspace_decode_center(gpu, &center, on_gpu.data(), 6, &found) == DET_POST_OK,
    message_of(gpu.id).c_str());
  expect(expected->num_candidates > 20, "centres");
  same_candidates(cuda, stream, *found, *expected, "maps on the GPU");
  expect(
    det_post_workspace_decode_center(gpu, &center, on_gpu.data(), 5, &found) != DET_POST_OK,
    "too few maps");

  // Two anchors of a class: their logits are the maps of two channels.
  const det_post_anchor_size anchor{{4, 2, 1.5f}, -1};
  const float rotations[] = {0, 1.57f};
  const std::size_t box_shape[] = {1, 14, height, width};
  const auto box_values = values(14 * num_cells);
  Late<float> late_boxes(cuda, stream, box_values);
  det_post_anchor_decoding anchors{};
  const float range[] = {0, 0, -3, 28, 20, 1};
  std::copy(range, range + 6, anchors.range_m);
  anchors.anchors = &anchor;
  anchors.num_anchors = 1;
  anchors.rotations_rad = rotations;
  anchors.num_rotations = 2;
  anchors.score_thresholds = &threshold;
  anchors.num_score_thresholds = 1;
  anchors.capacity = 300;
  det_post_tensor outputs[] = {
    on_host[0], tensor(box_values.data(), box_shape, 4, box_values.size())};
  expect(
    det_post_workspace_decode_anchor(host, &anchors, outputs, 2, &expected) == DET_POST_OK,
    "anchors");
  outputs[0] = on_gpu[0];
  outputs[1].bytes.data = reinterpret_cast<const uint8_t *>(late_boxes.queue());
  expect(
    det_post_workspace_decode_anchor(gpu, &anchors, outputs, 2, &found) == DET_POST_OK,
    message_of(gpu.id).c_str());
  expect(expected->num_candidates > 20, "anchors that pass");
  same_candidates(cuda, stream, *found, *expected, "anchors on the GPU");
}

// A layer on sites of rows, in a workspace: the sites of its output and what it found.
struct SparseLayer
{
  det_post::Sites sites;
  det_post::Rulebook rulebook;
  det_post::Sites output;
  const det_post_sparse_result & result;

  SparseLayer(
    det_post::Workspace & workspace, const det_post_site_rows & rows, const float * features,
    const det_post_sparse_geometry & geometry, const det_post::SparseWeights & weights,
    std::size_t num_channels)
  : sites(workspace.sites(rows)), rulebook(sites, geometry), output(rulebook.sites()),
    result(
      workspace.convolve(
        {rulebook.get(), weights.get(), nullptr, 1, 0},
        {features, rows.num_rows, num_channels, DET_POST_ORDER_COORDINATES, 0}))
  {
  }
};

void same_layer(
  Cuda & cuda, void * stream, const SparseLayer & found, const SparseLayer & expected, double share)
{
  for (const auto of : {&SparseLayer::sites, &SparseLayer::output}) {
    const auto a = (found.*of).info(), b = (expected.*of).info();
    expect(
      a.num_sites == b.num_sites && a.num_outside == b.num_outside &&
        a.num_duplicates == b.num_duplicates && a.num_over_capacity == b.num_over_capacity &&
        std::equal(a.grid_size, a.grid_size + 3, b.grid_size), "counts of sites");
    if (a.num_sites != b.num_sites) {return;}
    expect(same(cuda, stream, a.coordinates, b.coordinates, 4 * b.num_sites), "coordinates");
    if (b.rows != nullptr) {expect(same(cuda, stream, a.rows, b.rows, b.num_sites), "rows");}
  }
  const auto num = expected.result.num_sites * expected.result.num_channels;
  std::vector<float> values(num);
  cuda.download(values.data(), found.result.features, 4 * num, stream);
  float largest = 0, apart = 0;
  for (std::size_t i = 0; i < num; ++i) {
    largest = std::max(largest, std::fabs(expected.result.features[i]));
    apart = std::max(apart, std::fabs(values[i] - expected.result.features[i]));
  }
  expect(static_cast<double>(apart) <= share * static_cast<double>(largest), "a sparse convolution");
}

void sparse(Cuda & cuda, void * stream)
{
  det_post::Workspace host("cpu"), gpu("cuda:0");
  gpu.set_stream(stream);
  std::mt19937 random(13);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  const auto values = [&](std::size_t num) {
    std::vector<float> made(num);
    for (auto & value : made) {value = normal(random);}
    return made;
  };
  constexpr std::size_t most_sites = 6000, num_inputs = 5, num_outputs = 33;
  std::vector<int32_t> cells;
  for (std::size_t i = 0; i < most_sites; ++i) {
    // Some are outside, some are there twice.
    for (int size : {2, 9, 33, 41}) {cells.push_back(static_cast<int32_t>(random() % (size + 1u)));}
  }
  const auto features = values(most_sites * num_inputs);
  const auto weights = values(num_outputs * 27 * num_inputs), bias = values(num_outputs);
  Late<int32_t> late_cells(cuda, stream, cells);
  Late<float> late_features(cuda, stream, features);
  det_post_sparse_parameters parameters{};
  parameters.num_output_channels = num_outputs;
  parameters.num_taps = 27;
  parameters.num_input_channels = num_inputs;
  parameters.weights = weights.data();
  parameters.bias = bias.data();
  det_post_sparse_geometry geometry{};
  for (int axis = 0; axis < 3; ++axis) {
    geometry.kernel[axis] = 3;
    geometry.dilation[axis] = geometry.padding[axis] = 1;
  }
  const double shares[] = {0, 1e-5, 1e-3, 8e-3};
  for (uint32_t precision = 0; precision < 4; ++precision) {
    parameters.precision = precision;
    const auto on_host = host.weights(parameters), on_gpu = gpu.weights(parameters);
    for (uint32_t mode = 0; mode < 3; ++mode) {
      geometry.mode = mode;
      for (auto & stride : geometry.stride) {stride = mode == DET_POST_SPARSE_SUBMANIFOLD ? 1 : 2;}
      // Fewer, more, none, one, with limits.
      std::size_t call = 0;
      for (const std::size_t num_rows : {1000, 6000, 0, 1, 3000}) {
        det_post_site_rows rows{cells.data(), num_rows, 2, {9, 33, 40}, 0, {}};
        geometry.max_sites = 0;
        if (++call == 5) {
          geometry.max_sites = 100;
          rows.max_sites = 2000;
        }
        const SparseLayer expected(host, rows, features.data(), geometry, on_host, num_inputs);
        rows.coordinates = late_cells.queue();
        const SparseLayer found(gpu, rows, late_features.queue(), geometry, on_gpu, num_inputs);
        same_layer(cuda, stream, found, expected, shares[precision]);
      }
    }
  }
  const det_post_site_rows rows{cells.data(), 10, 2, {9, 33, 40}, 0, {}};
  det_post_sites sites{};
  expect_error(
    det_post_sites_open(gpu.get(), &rows, &sites), DET_POST_ERROR_ARGUMENT, gpu.get().id,
    "not in memory of", "host pointers");
}

// Operations on clouds and outputs of networks in the memory of the GPU, on a stream that is busy.
void clouds_and_outputs(Cuda & cuda)
{
  det_post_workspace host{}, gpu{};
  expect(det_post_workspace_open("cpu", &host) == DET_POST_OK, "a workspace");
  expect(det_post_workspace_open("cuda:0", &gpu) == DET_POST_OK, "a workspace on the GPU");
  auto * stream = cuda.stream();
  expect(det_post_workspace_set_stream(gpu, stream) == DET_POST_OK, "its stream");
  voxels(cuda, host, gpu, stream);
  decoders(cuda, host, gpu, stream);
  sparse(cuda, stream);
  expect(det_post_workspace_close(gpu) == DET_POST_OK, "closing");
  expect(det_post_workspace_close(host) == DET_POST_OK, "closing");
}

}  // namespace

int main(int argc, char ** argv)
{
  Cuda cuda;
  if (!cuda.open()) {
    std::printf("no GPU\n");
    return 0;
  }
  busy = cuda.allocate(num_busy_bytes);
  operations(cuda);
  clouds_and_outputs(cuda);
  if (argc < 2) {
    if (num_failures == 0) std::printf("no failures\n");
    return num_failures != 0;
  }
  camera(cuda, argv + 1, argc - 1);
  lidar(cuda, argv + 1, argc - 1);
  // Detectors of two threads on one GPU.
  std::thread first([&] {
    Cuda own;
    own.open();
    camera(own, argv + 1, argc - 1);
  });
  Cuda own;
  own.open();
  lidar(own, argv + 1, argc - 1);
  first.join();
  if (num_failures == 0) std::printf("no failures\n");
  return num_failures != 0;
}
