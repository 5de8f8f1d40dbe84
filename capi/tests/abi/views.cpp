// A view decoder on the frames of a folder: writes the queries of each to the folder. Prints
// `no failures`, `no GPU`, or what failed.
// Arguments: a parameter file, the folder, `cpu` or `cuda:0`.

#include "cuda.hpp"
#include "expect.hpp"

#include <det_post.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

namespace {

template<typename T>
std::vector<T> read(const std::string & path)
{
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<T> values(static_cast<std::size_t>(file.tellg()) / sizeof(T));
  file.seekg(0);
  file.read(reinterpret_cast<char *>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  return values;
}

void write(const std::string & path, const std::vector<float> & values)
{
  std::ofstream file(path, std::ios::binary);
  const auto num_bytes = static_cast<std::streamsize>(values.size() * sizeof(float));
  file.write(reinterpret_cast<const char *>(values.data()), num_bytes);
}

struct Frame
{
  bool has_motion;
  det_post_view_motion motion;
  std::vector<std::vector<std::size_t>> shapes;
  std::vector<std::vector<float>> maps;
};

// boxes, logits, quality
using Found = std::vector<std::vector<float>>;

std::vector<Frame> frames_of(const std::string & folder)
{
  std::ifstream plan(folder + "/frames.txt");
  std::size_t num_frames = 0, num_maps = 0;
  plan >> num_frames >> num_maps;
  std::vector<Frame> frames(num_frames);
  for (std::size_t i = 0; i < num_frames; ++i) {
    auto & frame = frames[i];
    plan >> frame.motion.interval_s;
    for (auto & value : frame.motion.current_from_past) {plan >> value;}
    frame.has_motion = frame.motion.interval_s > 0;
    for (std::size_t map = 0; map < num_maps; ++map) {
      std::vector<std::size_t> shape(4);
      for (auto & side : shape) {plan >> side;}
      frame.shapes.push_back(shape);
      frame.maps.push_back(read<float>(folder + "/frame" + std::to_string(i) + ".map" + std::to_string(map)));
    }
  }
  return frames;
}

class Decoder
{
public:
  Decoder(const char * file, const char * device, const std::vector<std::string> & overrides = {})
  : decoder_(configuration(file, device, overrides))
  {
    if (std::strcmp(device, "cpu") != 0) {
      cuda_.open();
      stream_ = cuda_.stream();
      decoder_.set_stream(stream_);
    }
  }

  Found run(const Frame & frame)
  {
    return run(frame, frame.maps, 9);
  }

  // With the maps of the frame as int8.
  Found run_integers(const Frame & frame, float scale)
  {
    std::vector<std::vector<int8_t>> maps;
    for (const auto & map : frame.maps) {
      std::vector<int8_t> integers;
      for (const float value : map) {
        const float rounded = std::nearbyint(value / scale);
        integers.push_back(static_cast<int8_t>(std::fmax(std::fmin(rounded, 127.0f), -127.0f)));
      }
      maps.push_back(integers);
    }
    return run(frame, maps, 1);
  }

  template<typename T>
  Found run(const Frame & frame, const std::vector<std::vector<T>> & maps, uint32_t element)
  {
    std::vector<det_post_tensor> tensors;
    for (std::size_t i = 0; i < maps.size(); ++i) {
      const auto & map = maps[i];
      const void * data = map.data();
      const std::size_t num_bytes = map.size() * sizeof(T);
      if (stream_ != nullptr) {
        const auto address = cuda_.allocate(num_bytes);
        cuda_.upload(address, data, num_bytes, stream_);
        data = reinterpret_cast<const void *>(static_cast<uintptr_t>(address));
      }
      tensors.push_back({nullptr, element, 4, frame.shapes[i].data(), {static_cast<const uint8_t *>(data), num_bytes}});
    }
    const auto & queries = decoder_.run(tensors, frame.has_motion ? &frame.motion : nullptr);
    Found found;
    found.push_back(copied(queries.boxes, queries.num_queries * queries.box_len));
    found.push_back(copied(queries.logits, queries.num_queries * queries.num_classes));
    found.push_back(copied(queries.quality, queries.quality == nullptr ? 0 : queries.num_queries * 2));
    return found;
  }

  det_post::ViewDecoder & get() {return decoder_;}

private:
  static det_post::Configuration configuration(
    const char * file, const char * device, const std::vector<std::string> & overrides)
  {
    det_post::Configuration configuration;
    configuration.files = {file};
    configuration.overrides = {std::string("device:=") + device, "rig.engine.kind:=rten"};
    for (const auto & more : overrides) {configuration.overrides.push_back(more);}
    return configuration;
  }

  std::vector<float> copied(const float * values, std::size_t num)
  {
    std::vector<float> copy(num);
    if (num == 0) {return copy;}
    if (stream_ == nullptr) {
      std::memcpy(copy.data(), values, num * sizeof(float));
    } else {
      cuda_.download(copy.data(), values, num * sizeof(float), stream_);
    }
    return copy;
  }

  Cuda cuda_;
  void * stream_ = nullptr;
  det_post::ViewDecoder decoder_;
};

bool are_same(const Found & a, const Found & b)
{
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) {return false;}
    if (!a[i].empty() && std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) {return false;}
  }
  return true;
}

// A copy of a memory, which outlives calls.
struct Memory
{
  std::vector<std::string> names;
  std::vector<std::vector<float>> values;

  explicit Memory(const det_post_view_memory & memory)
  {
    for (std::size_t i = 0; i < memory.num_parts; ++i) {
      const auto & part = memory.parts[i];
      names.push_back(part.name);
      values.emplace_back(part.values, part.values + part.num_values);
    }
  }

  void give_to(det_post::ViewDecoder & decoder) const
  {
    std::vector<det_post_view_memory_part> parts;
    for (std::size_t i = 0; i < names.size(); ++i) {
      parts.push_back({names[i].c_str(), values[i].data(), values[i].size(), 0});
    }
    decoder.set_memory({parts.data(), parts.size()});
  }
};

// Maps of int8 give the queries of floats that the decoder quantizes by the same scales.
void integers(
  const char * file, const char * device, const Frame & frame, const std::vector<det_post_view_camera> & cameras)
{
  Decoder decoder(
    file, device, {"rig.decoder.map_scales:=[0.03125, 0.03125, 0.03125, 0.03125]", "rig.decoder.precision:=auto"});
  decoder.get().set_cameras(cameras);
  const auto expected = decoder.run(frame);
  expect(are_same(decoder.run_integers(frame, 0.03125f), expected), "maps of int8");
}

void misuse(Decoder & decoder, const Frame & frame, std::vector<det_post_view_camera> cameras)
{
  const auto object = decoder.get().get();
  const auto set = [&](std::size_t num) {
    return det_post_view_decoder_set_cameras(object, cameras.data(), num);
  };
  expect_error(set(cameras.size() - 1), DET_POST_ERROR_ARGUMENT, object.id, "cameras; the network has", "cameras");
  const auto before = cameras[0].image_from_base[3];
  cameras[0].image_from_base[3] = std::numeric_limits<double>::quiet_NaN();
  expect_error(set(cameras.size()), DET_POST_ERROR_ARGUMENT, object.id, "camera 0: ", "a matrix");
  cameras[0].image_from_base[3] = before;
  cameras[0].is_present = 2;
  expect_error(set(cameras.size()), DET_POST_ERROR_ARGUMENT, object.id, "is_present", "a flag");
  const det_post_queries * queries = nullptr;
  expect_error(
    det_post_view_decoder_run(object, nullptr, 0, nullptr, &queries), DET_POST_ERROR_ARGUMENT, object.id,
    "before the cameras are set", "no cameras");
  det_post_view_motion motion = frame.motion;
  motion.interval_s = 0;
  expect_error(
    det_post_view_decoder_run(object, nullptr, 0, &motion, &queries), DET_POST_ERROR_ARGUMENT, object.id,
    "interval_s above 0", "no interval");
  const float one = 1;
  const det_post_view_memory_part part{"other", &one, 1, 0};
  const det_post_view_memory memory{&part, 1};
  expect(det_post_view_decoder_set_memory(object, &memory) == DET_POST_ERROR_ARGUMENT, "an unknown memory");
  expect_error(
    det_post_view_decoder_run({object.id + 1}, nullptr, 0, nullptr, &queries), DET_POST_ERROR_HANDLE,
    object.id + 1, "view decoder", "another number");
}

}  // namespace

int main(int, char ** arguments)
{
  const std::string folder = arguments[2];
  if (std::strcmp(arguments[3], "cpu") != 0 && !Cuda{}.open()) {
    std::puts("no GPU");
    return 0;
  }
  const auto frames = frames_of(folder);
  const auto numbers = read<double>(folder + "/cameras");
  std::vector<det_post_view_camera> cameras(numbers.size() / 21);
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    std::memcpy(cameras[i].image_from_base, &numbers[21 * i], 12 * sizeof(double));
    std::memcpy(cameras[i].intrinsics, &numbers[21 * i + 12], 9 * sizeof(double));
    cameras[i].is_present = 1;
  }
  Decoder decoder(arguments[1], arguments[3]);
  expect(decoder.get().info().num_cameras == cameras.size(), "the number of cameras");
  misuse(decoder, frames[0], cameras);
  decoder.get().set_cameras(cameras);
  std::vector<Memory> memories;
  std::vector<Found> all;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    memories.emplace_back(decoder.get().memory());
    all.push_back(decoder.run(frames[i]));
    const char * names[] = {"boxes", "logits", "quality"};
    for (std::size_t part = 0; part < 3; ++part) {
      write(folder + "/frame" + std::to_string(i) + "." + names[part], all.back()[part]);
    }
  }
  // The last frame again from the memory before it, and from none.
  memories.back().give_to(decoder.get());
  expect(are_same(decoder.run(frames.back()), all.back()), "a frame from its memory");
  if (decoder.get().info().has_memory == 1) {
    expect(!memories.back().names.empty(), "a memory");
    decoder.get().set_memory({nullptr, 0});
    expect(!are_same(decoder.run(frames.back()), all.back()), "a frame without its memory");
  }
  if (decoder.get().info().needs_intrinsics == 0) {integers(arguments[1], arguments[3], frames[0], cameras);}
  if (num_failures == 0) {std::puts("no failures");}
  return 0;
}
