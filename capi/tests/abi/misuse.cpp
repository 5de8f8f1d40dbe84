// Misuse of the ABI gives statuses and messages. Prints `no failures`, or what failed.
// Argument: a parameter file with the channels `camera` and `lidar`.

#include "expect.hpp"

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

det_post_detector open(const char * file, const char * channel)
{
  det_post_configuration configuration{};
  configuration.files = &file;
  configuration.num_files = 1;
  configuration.channel = channel;
  const char * overrides[] = {"device:=cpu"};
  configuration.overrides = overrides;
  configuration.num_overrides = 1;
  det_post_detector detector{};
  const auto status = det_post_detector_open(&configuration, &detector);
  expect(status == DET_POST_OK, message_of(0).c_str());
  return detector;
}

// An image of one colour, and a frame of it.
struct TestImage
{
  TestImage(uint32_t width, uint32_t height, uint8_t value) : pixels(3u * width * height, value)
  {
    image.width = width;
    image.height = height;
    image.step = 3u * width;
    image.encoding = "rgb8";
    image.bytes = {pixels.data(), pixels.size()};
    input.kind = DET_POST_INPUT_IMAGE;
    input.frame_id = "camera";
    input.image = &image;
    frame.inputs = &input;
    frame.num_inputs = 1;
  }
  TestImage(const TestImage &) = delete;
  TestImage & operator=(const TestImage &) = delete;

  std::vector<uint8_t> pixels;
  det_post_image image{};
  det_post_input input{};
  det_post_frame frame{};
};

void configurations(const char * file)
{
  det_post_configuration configuration{};
  det_post_detector detector{};
  expect_error(
    det_post_detector_open(nullptr, &detector), DET_POST_ERROR_NULL, 0, "configuration is null",
    "no configuration");
  expect_error(
    det_post_detector_open(&configuration, nullptr), DET_POST_ERROR_NULL, 0, "detector is null",
    "no detector");
  expect_error(
    det_post_detector_open(&configuration, &detector), DET_POST_ERROR_CONFIG, 0, "channels",
    "no channel");
  configuration.num_files = 1;
  expect_error(
    det_post_detector_open(&configuration, &detector), DET_POST_ERROR_NULL, 0,
    "configuration.files is null", "no files");
  configuration.num_files = SIZE_MAX;
  configuration.files = &file;
  expect_error(
    det_post_detector_open(&configuration, &detector), DET_POST_ERROR_ARGUMENT, 0,
    "cannot have", "more files than memory");
  configuration.num_files = 1;
  expect_error(
    det_post_detector_open(&configuration, &detector), DET_POST_ERROR_CONFIG, 0,
    "camera, lidar", "which channel");
  configuration.channel = "radar";
  expect_error(
    det_post_detector_open(&configuration, &detector), DET_POST_ERROR_CONFIG, 0,
    "\"radar\"", "no such channel");
  configuration.channel = "camera";
  configuration.reserved[3] = 1;
  expect_error(
    det_post_detector_open(&configuration, &detector), DET_POST_ERROR_ARGUMENT, 0,
    "reserved", "a field of a later version");
  configuration.reserved[3] = 0;
  const char * overrides[] = {"camera.score_treshold:=0.5"};
  configuration.overrides = overrides;
  configuration.num_overrides = 1;
  expect_error(
    det_post_detector_open(&configuration, &detector), DET_POST_ERROR_CONFIG, 0,
    "did you mean `camera.score_threshold`", "a wrong key");
  overrides[0] = "device:=cuda:99";
  expect_error(
    det_post_detector_open(&configuration, &detector), DET_POST_ERROR_DEVICE, 0, "device",
    "a GPU that there is not");
  overrides[0] = "camera.isolate:=true";
  expect_error(
    det_post_detector_open(&configuration, &detector), DET_POST_ERROR_CONFIG, 0, "program",
    "a process of its own without the program");
  overrides[0] = "\xff";
  expect_error(
    det_post_detector_open(&configuration, &detector), DET_POST_ERROR_ARGUMENT, 0, "UTF-8",
    "a text that is none");
  configuration.num_overrides = 0;
  configuration.like = "no_package";
  expect_error(
    det_post_detector_open(&configuration, &detector), DET_POST_ERROR_CONFIG, 0,
    "configuration.like",
    "a package that is not known");
  expect(detector.id == 0, "a failed call writes no detector");
}

void frames(const char * file)
{
  const auto detector = open(file, "camera");
  const uint64_t id = detector.id;
  const det_post_detections * found = nullptr;
  const auto detect = [&](const det_post_frame & frame) {
    return det_post_detector_detect(detector, &frame, &found);
  };
  expect(message_of(id).empty(), "no message before a failure");
  expect_error(
    det_post_detector_detect(detector, nullptr, &found), DET_POST_ERROR_NULL, id,
    "frame is null", "no frame");
  TestImage sample(96, 64, 90);
  expect_error(
    det_post_detector_detect(detector, &sample.frame, nullptr), DET_POST_ERROR_NULL, id,
    "found is null", "no result");
  expect(detect(sample.frame) == DET_POST_OK && found != nullptr, "a good frame");
  expect(found->kind == DET_POST_DETECTIONS_2D, "boxes in an image");
  expect(found->boxes_3d == nullptr && std::strcmp(found->frame_id, "camera") == 0, "its frame");

  sample.image.bytes.num_bytes -= 1;
  expect_error(detect(sample.frame), DET_POST_ERROR_LAYOUT, id, "bytes", "too few bytes");
  sample.image.bytes.num_bytes += 1;
  sample.image.step = 3;
  expect_error(detect(sample.frame), DET_POST_ERROR_LAYOUT, id, "step", "a short step");
  sample.image.step = 3 * 96;
  sample.image.encoding = "rgb9";
  expect_error(detect(sample.frame), DET_POST_ERROR_ENCODING, id, "rgb9", "an encoding");
  sample.image.encoding = nullptr;
  expect_error(detect(sample.frame), DET_POST_ERROR_NULL, id, "image.encoding", "no encoding");
  sample.image.encoding = "rgb8";
  sample.image.bytes.data = nullptr;
  expect_error(detect(sample.frame), DET_POST_ERROR_NULL, id, "bytes.data", "no pixels");
  sample.image.bytes.data = sample.pixels.data();
  sample.image.width = 0;
  expect_error(detect(sample.frame), DET_POST_ERROR_LAYOUT, id, "0x64", "no width");
  sample.image.width = 96;
  sample.input.kind = 77;
  expect_error(detect(sample.frame), DET_POST_ERROR_ARGUMENT, id, "77", "an unknown kind");
  sample.input.kind = DET_POST_INPUT_CLOUD;
  expect_error(detect(sample.frame), DET_POST_ERROR_NULL, id, "input.cloud", "no cloud");
  det_post_cloud cloud{};
  cloud.width = 1;
  cloud.height = 1;
  cloud.point_step = 12;
  sample.input.cloud = &cloud;
  expect_error(detect(sample.frame), DET_POST_ERROR_LAYOUT, id, "12", "a cloud without points");
  cloud.width = 0;
  expect_error(
    detect(sample.frame), DET_POST_ERROR_ARGUMENT, id, "another sensor", "a cloud to a camera");
  sample.input.kind = DET_POST_INPUT_NONE;
  expect_error(
    detect(sample.frame), DET_POST_ERROR_ARGUMENT, id, "reference", "without its reference");
  sample.input.kind = DET_POST_INPUT_COMPRESSED_IMAGE;
  det_post_compressed_image file_of{"jpeg", {sample.pixels.data(), sample.pixels.size()}};
  sample.input.compressed_image = &file_of;
  expect_error(detect(sample.frame), DET_POST_ERROR_CODEC, id, "", "no JPEG");
  sample.input.kind = DET_POST_INPUT_IMAGE;
  sample.frame.num_inputs = 2;
  std::vector<det_post_input> two(17, sample.input);
  sample.frame.inputs = two.data();
  expect_error(
    detect(sample.frame), DET_POST_ERROR_ARGUMENT, id, "another sensor", "two inputs");
  sample.frame.num_inputs = 17;
  expect_error(detect(sample.frame), DET_POST_ERROR_ARGUMENT, id, "17", "too many inputs");
  sample.frame.num_inputs = 1;
  expect(detect(sample.frame) == DET_POST_OK, "a good frame after bad ones");
  sample.frame.inputs = &sample.input;
  sample.input.is_on_device = 1;
  expect_error(
    detect(sample.frame), DET_POST_ERROR_ARGUMENT, id, "memory of a GPU", "a GPU's image on a CPU");
  sample.input.is_on_device = 2;
  expect_error(detect(sample.frame), DET_POST_ERROR_ARGUMENT, id, "is_on_device", "neither 0 nor 1");
  sample.input.is_on_device = 1;
  sample.input.kind = DET_POST_INPUT_COMPRESSED_IMAGE;
  expect_error(
    detect(sample.frame), DET_POST_ERROR_ARGUMENT, id, "is_on_device", "a file on a GPU");
  sample.input.kind = DET_POST_INPUT_IMAGE;
  sample.input.is_on_device = 0;

  char cut[8];
  det_post_detector_detect(detector, nullptr, &found);
  const size_t length = det_post_error_message(id, cut, sizeof cut);
  expect(length > 7 && std::strlen(cut) == 7, "a message is cut to its buffer");
  expect(det_post_detector_close(detector) == DET_POST_OK, "closing");
}

void handles(const char * file)
{
  const auto camera = open(file, "camera");
  const auto lidar = open(file, "lidar");
  expect(camera.id != lidar.id, "detectors have numbers of their own");
  const det_post_detector_info * info = nullptr;
  expect(det_post_detector_describe(lidar, &info) == DET_POST_OK, "what a detector is");
  expect(info && std::strcmp(info->channel, "lidar") == 0, "its name");
  expect(info->num_inputs == 1 && info->inputs[0].kind == DET_POST_INPUT_CLOUD, "its input");
  expect(info->num_classes > 0 && info->class_names[0][0] != 0, "its classes");

  const char * wrong[] = {"camera.score_threshold:=7", "camera.model_path:=other.onnx"};
  expect_error(
    det_post_detector_reconfigure(camera, wrong, 1), DET_POST_ERROR_CONFIG, camera.id,
    "camera.score_threshold", "a threshold");
  expect_error(
    det_post_detector_reconfigure(camera, wrong + 1, 1), DET_POST_ERROR_CONFIG, camera.id,
    "read-only", "a fixed parameter");
  expect_error(
    det_post_detector_set_calibration(camera, 0, nullptr), DET_POST_ERROR_NULL, camera.id,
    "calibration is null", "no calibration");
  det_post_camera_calibration calibration{};
  calibration.distortion_model = "plumb_bob";
  expect_error(
    det_post_detector_set_calibration(camera, 1, &calibration), DET_POST_ERROR_ARGUMENT,
    camera.id, "input 1 of 1", "an input that there is not");
  det_post_transform transform{};
  transform.parent = "map";
  transform.child = "lidar";
  expect_error(
    det_post_detector_add_transforms(lidar, &transform, 1), DET_POST_ERROR_TRANSFORM, lidar.id,
    "norm", "no rotation");

  const uint64_t near[] = {0, 1, camera.id + 1, camera.id ^ (1ull << 56), UINT64_MAX};
  for (const uint64_t number : near) {
    expect_error(
      det_post_detector_reset({number}), DET_POST_ERROR_HANDLE, 0, "number", "a wrong number");
  }
  expect(det_post_detector_close(camera) == DET_POST_OK, "closing");
  expect_error(det_post_detector_close(camera), DET_POST_ERROR_HANDLE, 0, "number", "twice");
  const auto again = open(file, "camera");
  expect(again.id != camera.id, "numbers are never used again");
  const det_post_detections * found = nullptr;
  TestImage sample(64, 64, 1);
  expect_error(
    det_post_detector_detect(camera, &sample.frame, &found), DET_POST_ERROR_HANDLE, 0, "number",
    "a closed detector");
  expect(
    det_post_detector_detect(again, &sample.frame, &found) == DET_POST_OK, "the new detector");
  expect(det_post_detector_close(again) == DET_POST_OK, "closing the new one");
  expect(det_post_detector_close(lidar) == DET_POST_OK, "closing the other");
}

// Two threads on one detector: each call succeeds, or is refused as busy. One more closes it.
void threads(const char * file)
{
  const auto shared = open(file, "camera");
  std::atomic<int> num_good{0}, num_busy{0}, num_closed{0}, num_other{0};
  const auto work = [&] {
    TestImage sample(128, 96, 30);
    for (;;) {
      const det_post_detections * found = nullptr;
      switch (det_post_detector_detect(shared, &sample.frame, &found)) {
        case DET_POST_OK: ++num_good; break;
        case DET_POST_ERROR_BUSY: ++num_busy; std::this_thread::yield(); break;
        case DET_POST_ERROR_HANDLE: ++num_closed; return;
        default: ++num_other; return;
      }
    }
  };
  std::thread first(work), second(work);
  // A message may be read while other threads use the detector.
  while (num_good < 3 || num_busy < 3) {
    message_of(shared.id);
    std::this_thread::yield();
  }
  expect(det_post_detector_close(shared) == DET_POST_OK, "closing while in use");
  first.join();
  second.join();
  expect(num_closed == 2 && num_other == 0, "two threads on one detector");

  // Each thread has a detector of its own.
  std::atomic<int> num_frames{0};
  std::vector<std::thread> several;
  for (int index = 0; index < 3; ++index) {
    several.emplace_back([&, index] {
      const auto own = open(file, "camera");
      TestImage sample(64, 48, static_cast<uint8_t>(40 * index));
      for (int number = 0; number < 3; ++number) {
        const det_post_detections * found = nullptr;
        num_frames += det_post_detector_detect(own, &sample.frame, &found) == DET_POST_OK;
      }
      det_post_detector_close(own);
    });
  }
  for (auto & thread : several) thread.join();
  expect(num_frames == 9, "a detector for each thread");
}

}  // namespace

int main(int argc, char ** argv)
{
  if (argc != 2) return 2;
  expect(det_post_abi_version() == DET_POST_ABI_VERSION, "the version of the ABI");
  expect(std::strlen(det_post_version()) >= 5, "the version of the library");
  expect(std::strcmp(det_post_status_name(-5), "unknown") == 0, "an unknown status");
  configurations(argv[1]);
  frames(argv[1]);
  handles(argv[1]);
  threads(argv[1]);
  if (num_failures == 0) std::printf("no failures\n");
  return num_failures != 0;
}
