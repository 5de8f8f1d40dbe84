// Device pointers and streams: detections and results of operations are those of host memory.
// Prints `no failures`, `no GPU`, or what failed.
// Arguments: a parameter file with the channels `camera` and `lidar`, assignments of parameters.

#include "cuda.hpp"
#include "expect.hpp"

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
  bytes.data = pointer(odd);
  bytes.num_bytes += std::size_t{1} << 30;
  expect(detect(detector, input).compare(0, 6, "failed") == 0, "more than the allocation");
  bytes.num_bytes -= std::size_t{1} << 30;
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
  const auto picture = cuda.allocate(pixels.size()), ready_picture = cuda.allocate(pixels.size());
  cuda.upload(ready_picture, pixels.data(), pixels.size(), stream);
  image.bytes.data = pointer(picture);
  for (int call = 0; call < 5; ++call) {
    cuda.fill(picture, 0, pixels.size(), stream);
    keep_busy(cuda, stream);
    cuda.copy(picture, ready_picture, pixels.size(), stream);
    expect(
      det_post_workspace_letterbox(gpu, &to, &image, &done) == DET_POST_OK,
      message_of(gpu.id).c_str());
    std::vector<float> values(done->num_values);
    cuda.download(values.data(), done->values, 4 * values.size(), stream);
    expect(
      std::memcmp(values.data(), on_cpu->values, 4 * values.size()) == 0, "the same pixels");
  }
  const det_post_voxel_grid grid{{1, 1, 1}, {0, 0, 0, 2, 2, 2}, 2, 0, {}};
  const det_post_points points{floats(device_boxes), 5, 3};
  const det_post_voxels * voxels = nullptr;
  expect_error(
    det_post_workspace_voxelize(gpu, &grid, &points, &voxels), DET_POST_ERROR_ARGUMENT, gpu.id,
    "on a GPU", "voxels on a GPU");
  expect(det_post_workspace_close(gpu) == DET_POST_OK, "closing");
  expect(det_post_workspace_close(host) == DET_POST_OK, "closing");
}

}  // namespace

int main(int argc, char ** argv)
{
  if (argc < 2) return 2;
  Cuda cuda;
  if (!cuda.open()) {
    std::printf("no GPU\n");
    return 0;
  }
  busy = cuda.allocate(num_busy_bytes);
  operations(cuda);
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
