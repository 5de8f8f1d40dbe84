// Boxes in a JPEG or PNG file:
//   image config/demo.param.yaml camera image.png

#include <det_post.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>

int main(int argc, char ** argv)
try {
  if (argc != 4) {
    std::fprintf(stderr, "usage: image PARAMETERS CHANNEL IMAGE\n");
    return 2;
  }
  det_post::Configuration configuration;
  configuration.files = {argv[1]};
  configuration.channel = argv[2];
  det_post::Detector detector(configuration);

  std::ifstream file(argv[3], std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  // An empty format: the first bytes say which it is.
  const det_post_compressed_image image{
    "", {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}};
  const auto found = detector.detect(det_post::input(image, 0, "camera"));
  const auto & info = detector.info();
  for (const auto & box : found.boxes_2d()) {
    std::printf(
      "%s %.3f  %.1f %.1f %.1f %.1f\n", info.class_names[box.class_id], box.score, box.x1, box.y1,
      box.x2, box.y2);
  }
  return 0;
} catch (const det_post::Error & error) {
  std::fprintf(stderr, "%s: %s\n", error.name(), error.what());
  return 1;
}
