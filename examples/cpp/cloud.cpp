// Boxes in a file of x, y, z, intensity as 32-bit floats, such as KITTI's:
//   cloud config/demo.param.yaml lidar scan.bin

#include <det_post.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>

int main(int argc, char ** argv)
try {
  if (argc != 4) {
    std::fprintf(stderr, "usage: cloud PARAMETERS CHANNEL POINTS\n");
    return 2;
  }
  det_post::Configuration configuration;
  configuration.files = {argv[1]};
  configuration.channel = argv[2];
  det_post::Detector detector(configuration);

  std::ifstream file(argv[3], std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  constexpr uint32_t float32 = 7, point_step = 16;
  const det_post_point_field fields[] = {
    {"x", 0, float32, 1}, {"y", 4, float32, 1}, {"z", 8, float32, 1}, {"intensity", 12, float32, 1}};
  det_post_cloud cloud{};
  cloud.width = static_cast<uint32_t>(bytes.size() / point_step);
  cloud.height = 1;
  cloud.point_step = point_step;
  cloud.row_step = cloud.width * point_step;
  cloud.fields = fields;
  cloud.num_fields = 4;
  cloud.bytes = {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()};
  const auto found = detector.detect(det_post::input(cloud, 0, "lidar"));
  const auto & info = detector.info();
  for (const auto & box : found.boxes_3d()) {
    std::printf(
      "%s %.3f  at %.2f %.2f %.2f  size %.2f %.2f %.2f  yaw %.3f\n", info.class_names[box.class_id],
      box.score, box.center[0], box.center[1], box.center[2], box.length_m, box.width_m,
      box.height_m, box.yaw_rad);
  }
  return 0;
} catch (const det_post::Error & error) {
  std::fprintf(stderr, "%s: %s\n", error.name(), error.what());
  return 1;
}
