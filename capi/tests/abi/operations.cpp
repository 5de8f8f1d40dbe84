// Operations on arrays in host memory: results that were worked out by hand, and misuse.
// Prints `no failures`, or what failed.

#include "expect.hpp"

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

namespace {

det_post_workspace workspace{};

// The positions of the survivors, as text.
template<std::size_t Num>
std::string kept(
  const det_post_suppression & suppression, const float (&boxes)[Num], std::size_t box_len,
  const float * scores, const uint32_t * classes)
{
  const det_post_boxes all{boxes, scores, classes, Num / box_len, box_len};
  const det_post_survivors * found = nullptr;
  const auto status = det_post_workspace_suppress(workspace, &suppression, &all, &found);
  if (status != DET_POST_OK) {return message_of(workspace.id);}
  std::string text;
  for (std::size_t i = 0; i < found->num_survivors; ++i) {
    text += std::to_string(found->indices[i]) + " ";
  }
  return text;
}

void expect_kept(const std::string & found, const char * expected, const char * what)
{
  if (found != expected) {
    std::printf("failed: %s: %s expected, found %s\n", what, expected, found.c_str());
    ++num_failures;
  }
}

det_post_suppression of_kind(uint32_t kind, const float * threshold)
{
  det_post_suppression suppression{};
  suppression.kind = kind;
  suppression.thresholds = threshold;
  suppression.num_thresholds = 1;
  return suppression;
}

void suppression()
{
  const float half = 0.5f, one = 1.0f;
  // 1 overlaps 0 by two thirds and 2 by a third; 2 overlaps 0 not at all.
  const float aligned[] = {0, 0, 10, 10, 2, 0, 12, 10, 7, 0, 17, 10};
  const float scores[] = {0.6f, 0.9f, 0.8f};
  const uint32_t classes[] = {0, 1, 1};
  auto iou = of_kind(DET_POST_SUPPRESS_IOU, &half);
  expect_kept(kept(iou, aligned, 4, scores, nullptr), "1 2 ", "IoU");
  iou.class_mode = DET_POST_CLASSES_AWARE;
  expect_kept(kept(iou, aligned, 4, scores, classes), "1 2 0 ", "IoU by class");
  iou.max_num = 1;
  expect_kept(kept(iou, aligned, 4, scores, classes), "1 ", "at most one");
  const uint32_t groups[] = {3, 3};
  iou.max_num = 0;
  iou.class_mode = DET_POST_CLASSES_GROUPS;
  iou.class_groups = groups;
  iou.num_class_groups = 2;
  expect_kept(kept(iou, aligned, 4, scores, classes), "1 2 ", "IoU by group");
  iou.has_score_threshold = 1;
  iou.score_threshold = 0.85f;
  expect_kept(kept(iou, aligned, 4, scores, classes), "1 ", "eligible by score");

  // 0 suppresses 1, which suppresses 2 only in one pass.
  const float chain[] = {0, 0, 10, 10, 2, 0, 12, 10, 4, 0, 14, 10};
  const float falling[] = {0.9f, 0.8f, 0.7f};
  expect_kept(
    kept(of_kind(DET_POST_SUPPRESS_IOU, &half), chain, 4, falling, nullptr), "0 2 ", "greedy");
  expect_kept(
    kept(of_kind(DET_POST_SUPPRESS_FAST, &half), chain, 4, falling, nullptr), "0 ", "one pass");

  auto soft = of_kind(DET_POST_SUPPRESS_SOFT_LINEAR, &half);
  soft.min_score = 0.3f;
  expect_kept(kept(soft, chain, 4, falling, nullptr), "0 2 ", "soft");
  const det_post_boxes boxes{chain, falling, nullptr, 3, 4};
  const det_post_survivors * found = nullptr;
  soft.min_score = 0.0f;
  det_post_workspace_suppress(workspace, &soft, &boxes, &found);
  // By 0 (two thirds), then, lowered, no more by 2.
  expect(found->num_survivors == 3 && found->indices[2] == 1, "soft keeps all");
  expect(found->scores[2] < 0.1f && found->scores[2] > 0.0f, "soft lowers scores");

  const float rotated[] = {0, 0, 4, 2, 0, 0, 0, 4, 2, 1.5708f, 9, 9, 4, 2, 0};
  expect_kept(
    kept(of_kind(DET_POST_SUPPRESS_ROTATED, &half), rotated, 5, falling, nullptr), "0 1 2 ",
    "a quarter turn");

  const float cars[] = {0, 0, 0, 4, 2, 1.5f, 0, 0.9f, 0, 0, 4, 2, 1.5f, 0, 1, 0, 5, 4, 2, 1.5f, 0};
  expect_kept(
    kept(of_kind(DET_POST_SUPPRESS_CIRCLE, &one), cars, 7, falling, nullptr), "0 2 ", "circle");
  expect_kept(
    kept(of_kind(DET_POST_SUPPRESS_CIRCLE_SQUARED, &one), cars, 7, falling, nullptr), "0 ",
    "squared circle");
  expect_kept(
    kept(of_kind(DET_POST_SUPPRESS_BEV, &half), cars, 7, falling, nullptr), "0 ", "footprints");
  expect_kept(
    kept(of_kind(DET_POST_SUPPRESS_IOU_3D, &half), cars, 7, falling, nullptr), "0 2 ", "volumes");
  auto pairs = of_kind(DET_POST_SUPPRESS_BEV_FAST, &half);
  const uint32_t forbidden[] = {1, 0};
  pairs.forbidden_pairs = forbidden;
  pairs.num_forbidden_pairs = 1;
  expect_kept(kept(pairs, cars, 7, falling, classes), "0 1 ", "a pair that is not compared");

}

void suppression_misuse()
{
  const auto id = workspace.id;
  const float half = 0.5f;
  const float aligned[] = {0, 0, 10, 10};
  const float scores[] = {0.6f};
  const auto iou = of_kind(DET_POST_SUPPRESS_IOU, &half);
  const det_post_boxes boxes{aligned, scores, nullptr, 1, 4};
  const det_post_survivors * found = nullptr;
  const auto suppress = [&](const det_post_suppression & how, const det_post_boxes & all) {
    return det_post_workspace_suppress(workspace, &how, &all, &found);
  };
  expect_error(
    det_post_workspace_suppress(workspace, nullptr, &boxes, &found), DET_POST_ERROR_NULL, id,
    "suppression is null", "no suppression");
  expect_error(
    det_post_workspace_suppress(workspace, &iou, nullptr, &found), DET_POST_ERROR_NULL, id,
    "boxes is null", "no boxes");
  expect_error(
    det_post_workspace_suppress(workspace, &iou, &boxes, nullptr), DET_POST_ERROR_NULL, id,
    "survivors is null", "no result");
  auto bad = boxes;
  bad.box_len = 7;
  expect_error(suppress(iou, bad), DET_POST_ERROR_ARGUMENT, id, "takes 4", "boxes of 7");
  bad = boxes;
  bad.scores = nullptr;
  expect_error(suppress(iou, bad), DET_POST_ERROR_NULL, id, "boxes.scores", "no scores");
  bad = boxes;
  bad.num_boxes = SIZE_MAX / 2;
  expect_error(suppress(iou, bad), DET_POST_ERROR_ARGUMENT, id, "2^32", "too many boxes");
  auto how = iou;
  how.num_thresholds = 0;
  expect_error(suppress(how, boxes), DET_POST_ERROR_ARGUMENT, id, "thresholds", "no threshold");
  how = iou;
  how.kind = 77;
  expect_error(suppress(how, boxes), DET_POST_ERROR_ARGUMENT, id, "kind 77", "an unknown kind");
  how = iou;
  how.class_mode = 77;
  expect_error(suppress(how, boxes), DET_POST_ERROR_ARGUMENT, id, "class_mode 77", "a mode");
  how = iou;
  how.reserved[0] = 1;
  expect_error(suppress(how, boxes), DET_POST_ERROR_ARGUMENT, id, "reserved", "reserved");
  expect(suppress(iou, {nullptr, nullptr, nullptr, 0, 4}) == DET_POST_OK, "no boxes at all");
  expect(found->num_survivors == 0, "none survives");
}

void letterbox()
{
  const auto id = workspace.id;
  // Two pixels: red, blue; each becomes 2x2 pixels of 4x4, with a bar above and below.
  const uint8_t pixels[] = {255, 0, 0, 0, 0, 255};
  const det_post_image image{2, 1, 6, "rgb8", 0, {pixels, sizeof pixels}};
  det_post_letterbox to{};
  to.width = to.height = 4;
  to.pad_value = 51.0f;
  to.std[0] = to.std[1] = to.std[2] = 255.0f;
  const det_post_letterboxed * done = nullptr;
  expect(
    det_post_workspace_letterbox(workspace, &to, &image, &done) == DET_POST_OK, "a letterbox");
  expect(done->num_values == 48 && done->values && !done->half_values, "its values");
  expect(std::fabs(done->values[0] - 0.2f) < 1e-6f && done->values[4] == 1.0f, "bar and red");
  expect(done->values[32 + 7] == 1.0f && done->values[32 + 4] == 0.0f, "blue");
  expect(done->scale[0] == 2.0f && done->offset[1] == 1.0f, "the placement");
  to.is_half = 1;
  expect(det_post_workspace_letterbox(workspace, &to, &image, &done) == DET_POST_OK, "halves");
  expect(done->half_values && done->half_values[4] == 0x3c00 && !done->values, "1 as float16");

  expect_error(
    det_post_workspace_letterbox(workspace, &to, nullptr, &done), DET_POST_ERROR_NULL, id,
    "image is null", "no image");
  auto bad = to;
  bad.placement = 9;
  expect_error(
    det_post_workspace_letterbox(workspace, &bad, &image, &done), DET_POST_ERROR_ARGUMENT, id,
    "placement 9", "a placement");
  bad = to;
  bad.std[1] = 0.0f;
  expect_error(
    det_post_workspace_letterbox(workspace, &bad, &image, &done), DET_POST_ERROR_ARGUMENT, id,
    "std", "a division by 0");
  bad = to;
  bad.width = UINT32_MAX;
  expect_error(
    det_post_workspace_letterbox(workspace, &bad, &image, &done), DET_POST_ERROR_ARGUMENT, id,
    "4294967295x4", "a giant input");
  auto cut = image;
  cut.bytes.num_bytes = 5;
  expect_error(
    det_post_workspace_letterbox(workspace, &to, &cut, &done), DET_POST_ERROR_LAYOUT, id, "5 bytes",
    "an image that ends early");
}

void voxels()
{
  const auto id = workspace.id;
  const float values[] = {0.1f, 0.1f, 0.1f, 1.5f, 0.5f, 0.5f, 0.9f, 0.9f, 0.9f, 0.2f, 0.2f, 0.2f, 9, 9, 9};
  const det_post_points points{values, 5, 3};
  det_post_voxel_grid grid{{1, 1, 1}, {0, 0, 0, 2, 2, 2}, 2, 0, {}};
  const det_post_voxels * found = nullptr;
  expect(det_post_workspace_voxelize(workspace, &grid, &points, &found) == DET_POST_OK, "voxels");
  expect(found->num_voxels == 2 && found->num_out_of_range == 1, "two voxels, one point outside");
  expect(found->cells[0] == 0 && found->cells[3] == 1 && found->cells[4] == 0, "their cells");
  expect(found->num_points_per_voxel[0] == 2 && found->num_points_over_voxel == 1, "a full voxel");
  expect(found->num_point_indices == 3, "indices");
  expect(found->point_indices[1] == 2 && found->point_indices[2] == 1, "voxel by voxel");
  grid.max_voxels = 1;
  expect(det_post_workspace_voxelize(workspace, &grid, &points, &found) == DET_POST_OK, "one");
  expect(found->num_voxels == 1 && found->num_voxels_over_capacity == 1, "one voxel too many");
  const det_post_points none{nullptr, 0, 3};
  expect(det_post_workspace_voxelize(workspace, &grid, &none, &found) == DET_POST_OK, "no points");
  expect(found->num_voxels == 0, "no voxels");

  auto bad = points;
  bad.num_channels = 2;
  expect_error(
    det_post_workspace_voxelize(workspace, &grid, &bad, &found), DET_POST_ERROR_ARGUMENT, id,
    "5 points of 2", "points without z");
  bad = points;
  bad.values = nullptr;
  expect_error(
    det_post_workspace_voxelize(workspace, &grid, &bad, &found), DET_POST_ERROR_NULL, id,
    "points.values", "no values");
  auto empty = grid;
  empty.voxel_size_m[2] = 0.0f;
  expect_error(
    det_post_workspace_voxelize(workspace, &empty, &points, &found), DET_POST_ERROR_ARGUMENT, id,
    "grid", "voxels without height");
}

det_post_tensor tensor(const float * values, const size_t * shape, uint32_t rank)
{
  size_t num = sizeof(float);
  for (uint32_t i = 0; i < rank; ++i) {num *= shape[i];}
  return {"", 9, rank, shape, {reinterpret_cast<const uint8_t *>(values), num}};
}

void decoders()
{
  const auto id = workspace.id;
  const det_post_decoded * found = nullptr;
  // Two rows of YOLOv5: the first has the better second class.
  const size_t shape[] = {1, 2, 7};
  const float rows[] = {10, 20, 4, 6, 0.5f, 0.2f, 0.8f, 50, 60, 10, 10, 1.0f, 0.9f, 0.1f};
  const auto output = tensor(rows, shape, 3);
  det_post_yolo_decoding yolo{};
  yolo.layout = DET_POST_YOLO_V5;
  yolo.input_width = yolo.input_height = 64;
  yolo.num_classes = 2;
  yolo.score_threshold = 0.3f;
  yolo.capacity = 100;
  const auto decode = [&](const det_post_tensor & of) {
    return det_post_workspace_decode_yolo(workspace, &yolo, &of, 1, &found);
  };
  expect(decode(output) == DET_POST_OK, "YOLOv5");
  expect(found->num_candidates == 2 && found->box_len == 4, "two candidates");
  expect(found->scores[0] == 0.9f && found->sources[0] == 1, "the better one first");
  expect(found->boxes[4] == 8.0f && found->boxes[7] == 23.0f, "corners");
  expect(found->classes[1] == 1 && std::fabs(found->scores[1] - 0.4f) < 1e-6f, "its class");
  // What decoders find is what suppressions take.
  const float half = 0.5f;
  const auto iou = of_kind(DET_POST_SUPPRESS_IOU, &half);
  const det_post_boxes boxes{
    found->boxes, found->scores, found->classes, found->num_candidates, found->box_len};
  const det_post_survivors * survivors = nullptr;
  expect(
    det_post_workspace_suppress(workspace, &iou, &boxes, &survivors) == DET_POST_OK &&
      survivors->num_survivors == 2, "decoded boxes are suppressed");
  yolo.capacity = 1;
  expect(decode(output) == DET_POST_OK && found->num_over_capacity == 1, "one over the capacity");
  auto bad = output;
  bad.bytes.num_bytes -= 4;
  expect_error(decode(bad), DET_POST_ERROR_ARGUMENT, id, "13 values", "a tensor that ends early");
  bad = output;
  bad.element = 2;
  expect_error(decode(bad), DET_POST_ERROR_ARGUMENT, id, "element 2", "bytes");
  bad = output;
  bad.bytes.data += 1;
  expect_error(decode(bad), DET_POST_ERROR_ARGUMENT, id, "aligned", "floats at an odd address");
  yolo.capacity = 0;
  expect_error(decode(output), DET_POST_ERROR_ARGUMENT, id, "capacity", "no capacity");
  yolo.capacity = 9;
  yolo.layout = 99;
  expect_error(decode(output), DET_POST_ERROR_ARGUMENT, id, "layout 99", "a layout");
  yolo.layout = DET_POST_YOLO_X;
  expect(decode(output) != DET_POST_OK, "YOLOX without strides");

  // A map of one cell: offset (0.25, 0.5), height 1, size 2 4 1.5, yaw 0, velocity (3, 0).
  const size_t one[] = {1, 1, 1, 1}, two[] = {1, 2, 1, 1}, three[] = {1, 3, 1, 1};
  const float heat[] = {0.7f}, offset[] = {0.25f, 0.5f}, height[] = {1}, size[] = {2, 4, 1.5f};
  const float rotation[] = {0, 1}, velocity[] = {3, 0};
  const det_post_tensor maps[] = {
    tensor(heat, one, 4), tensor(offset, two, 4), tensor(height, one, 4),
    tensor(size, three, 4), tensor(rotation, two, 4), tensor(velocity, two, 4)};
  const uint32_t of_tasks[] = {1};
  const float threshold = 0.5f;
  det_post_center_decoding center{};
  center.origin_m[0] = -10;
  center.cell_size_m[0] = center.cell_size_m[1] = 2;
  center.num_classes_of_tasks = of_tasks;
  center.num_tasks = 1;
  center.has_velocity = 1;
  center.score_thresholds = &threshold;
  center.num_score_thresholds = 1;
  center.capacity = 10;
  expect(
    det_post_workspace_decode_center(workspace, &center, maps, 6, &found) == DET_POST_OK,
    "CenterPoint");
  expect(found->num_candidates == 1 && found->box_len == 7, "one object");
  expect(found->boxes[0] == -9.5f && found->boxes[1] == 1.0f && found->boxes[2] == 1.0f, "centre");
  expect(found->boxes[3] == 4.0f && found->boxes[4] == 2.0f && found->boxes[6] == 0.0f, "size");
  expect(found->velocities_mps && found->velocities_mps[0] == 3.0f, "velocity");
  expect_error(
    det_post_workspace_decode_center(workspace, &center, maps, 5, &found), DET_POST_ERROR_ARGUMENT,
    id, "5 tensors", "a map is missing");

  // An anchor head with one class of one rotation on one cell: logit 0 is a score of 0.5.
  const size_t seven[] = {1, 7, 1, 1};
  const float logit[] = {0}, residual[] = {0, 0, 0, 0, 0, 0, 0};
  const det_post_tensor outputs[] = {tensor(logit, one, 4), tensor(residual, seven, 4)};
  const det_post_anchor_size car{{4, 2, 1.5f}, -1};
  const float forward = 0.0f;
  det_post_anchor_decoding anchor{};
  const float range[] = {0, -10, -3, 20, 10, 1};
  std::memcpy(anchor.range_m, range, sizeof range);
  anchor.anchors = &car;
  anchor.num_anchors = 1;
  anchor.rotations_rad = &forward;
  anchor.num_rotations = 1;
  anchor.has_centered_anchors = 1;
  anchor.score_thresholds = &threshold;
  anchor.num_score_thresholds = 1;
  anchor.capacity = 10;
  expect(
    det_post_workspace_decode_anchor(workspace, &anchor, outputs, 2, &found) == DET_POST_OK,
    "an anchor head");
  expect(found->num_candidates == 1 && found->scores[0] == 0.5f, "one anchor");
  expect(found->boxes[0] == 10.0f && found->boxes[3] == 4.0f && !found->velocities_mps, "its box");
  expect_error(
    det_post_workspace_decode_anchor(workspace, &anchor, outputs, 1, &found),
    DET_POST_ERROR_ARGUMENT, id, "1 tensors", "boxes are missing");
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

// Two neighbours along the last axis; every tap adds up, so that both see 3.
void sparse()
{
  const int32_t cells[] = {0, 1, 1, 2, 0, 1, 1, 1, 0, 9, 9, 9, 0, 1, 1, 1};
  const float features[] = {2, 1, 7, 8};
  const det_post_site_rows rows{cells, 4, 1, {4, 4, 4}, 0, {}};
  det_post_sites sites{}, coarse{};
  expect(det_post_sites_open(workspace, &rows, &sites) == DET_POST_OK, "sites");
  const det_post_sites_info * info = nullptr;
  expect(det_post_sites_get_info(sites, &info) == DET_POST_OK, "what they are");
  expect(info->num_sites == 2 && info->num_outside == 1 && info->num_duplicates == 1, "counts");
  expect(info->coordinates[3] == 1 && info->coordinates[7] == 2, "in ascending order");
  expect(info->rows[0] == 1 && info->rows[1] == 0 && info->num_rows == 4, "rows");
  auto geometry = geometry_of(DET_POST_SPARSE_SUBMANIFOLD, 3, 1);
  det_post_rulebook rulebook{}, strided{}, inverse{};
  expect(det_post_rulebook_open(sites, &geometry, &rulebook) == DET_POST_OK, "a rulebook");
  float values[27];
  for (auto & value : values) {value = 1;}
  const float bias = -4, scale = 2, shift = 1;
  det_post_sparse_parameters parameters{};
  parameters.num_output_channels = parameters.num_input_channels = 1;
  parameters.num_taps = 27;
  parameters.weights = values;
  det_post_sparse_weights ones{}, folded{};
  expect(det_post_sparse_weights_open(workspace, &parameters, &ones) == DET_POST_OK, "weights");
  parameters.bias = &bias;
  parameters.scale = &scale;
  parameters.shift = &shift;
  expect(det_post_sparse_weights_open(workspace, &parameters, &folded) == DET_POST_OK, "folded");
  const det_post_sparse_features by_rows{features, 4, 1, DET_POST_ORDER_COORDINATES, 0};
  const float sorted[] = {1, 2};
  const det_post_sparse_features by_sites{sorted, 2, 1, DET_POST_ORDER_SITES, 0};
  const det_post_sparse_result * found = nullptr;
  const auto convolve = [&](det_post_sparse_convolution how, const det_post_sparse_features & of) {
    return det_post_workspace_sparse_convolve(workspace, &how, &of, &found);
  };
  for (const auto & of : {by_rows, by_sites}) {
    expect(convolve({rulebook, ones, nullptr, 0, 0}, of) == DET_POST_OK, "a convolution");
    expect(found->features[0] == 3.0f && found->features[1] == 3.0f, "sums");
  }
  // (3 - 4) * 2 + 1, a residual, ReLU; with the layer before as input: (3 + 3 - 4) * 2 + 1.
  const auto before = *found;
  const float residual[] = {4, 0};
  expect(convolve({rulebook, folded, residual, 1, 0}, by_sites) == DET_POST_OK, "a residual");
  expect(found->features[0] == 3.0f && found->features[1] == 0.0f, "its sums");
  const det_post_sparse_features of_layer{before.features, 2, 1, DET_POST_ORDER_SITES, 0};
  expect(convolve({rulebook, folded, nullptr, 0, 0}, of_layer) == DET_POST_OK, "a second layer");
  expect(found->features[0] == 5.0f && found->num_sites == 2, "shares the rulebook");
  // Weights on their own result.
  expect(convolve({rulebook, ones, nullptr, 0, 0}, of_layer) == DET_POST_OK, "the same weights");
  expect(found->features[1] == 6.0f, "twice");

  geometry = geometry_of(DET_POST_SPARSE_STRIDED, 3, 2);
  expect(det_post_rulebook_open(sites, &geometry, &strided) == DET_POST_OK, "a strided rulebook");
  expect(det_post_rulebook_get_sites(strided, &coarse) == DET_POST_OK, "its sites");
  expect(det_post_sites_get_info(coarse, &info) == DET_POST_OK, "what they are");
  expect(info->grid_size[0] == 2 && info->num_sites == 8 && info->rows == nullptr, "coarser");
  expect(det_post_rulebook_open_inverse(strided, &inverse) == DET_POST_OK, "an inverse");
  const det_post_sparse_pairs * pairs = nullptr, * back = nullptr;
  expect(det_post_workspace_sparse_pairs(workspace, strided, &pairs) == DET_POST_OK, "its pairs");
  std::size_t num_pairs = 0, num_back = 0;
  for (std::size_t tap = 0; tap < pairs->num_taps; ++tap) {num_pairs += pairs->num_pairs[tap];}
  // The first site is under all 8 kernels, the second one under 4.
  expect(num_pairs == 12 && pairs->num_sites == 8 && pairs->num_input_sites == 2, "as many");
  expect(det_post_workspace_sparse_pairs(workspace, inverse, &back) == DET_POST_OK, "and back");
  for (std::size_t tap = 0; tap < back->num_taps; ++tap) {num_back += back->num_pairs[tap];}
  expect(num_back == 12 && back->num_sites == 2 && back->num_input_sites == 8, "exchanged");
  expect(convolve({strided, ones, nullptr, 0, 0}, by_sites) == DET_POST_OK, "strided");
  const auto of_coarse = *found;
  const det_post_sparse_features coarse_features{of_coarse.features, 8, 1, 0, 0};
  const det_post_sparse_mapping mapping{coarse, {0, 1, 2}, 0};
  const det_post_sparse_map * map = nullptr;
  expect(
    det_post_workspace_sparse_to_map(workspace, &mapping, &coarse_features, &map) == DET_POST_OK,
    "a map");
  expect(map->shape[1] == 2 && map->shape[3] == 2 && map->values[0] == 1.0f, "of all cells");
  expect(map->values[1] == 3.0f, "its last axis");
  expect(
    det_post_workspace_sparse_max_pool(workspace, strided, &by_rows, &found) == DET_POST_OK,
    "pooling");
  expect(found->features[0] == 1.0f && found->features[1] == 2.0f, "the largest");
  geometry.max_sites = 1;
  det_post_rulebook limited{};
  expect(det_post_rulebook_open(sites, &geometry, &limited) == DET_POST_OK, "at most one site");
  det_post_sites one{};
  det_post_rulebook_get_sites(limited, &one);
  det_post_sites_get_info(one, &info);
  expect(info->num_sites == 1 && info->num_over_capacity == 7, "the others are counted");
  // Rulebooks keep their sites.
  expect(det_post_sites_close(sites) == DET_POST_OK, "closing");
  expect(convolve({rulebook, ones, nullptr, 0, 0}, by_rows) == DET_POST_OK, "closed sites");
  for (const auto of : {one, coarse}) {det_post_sites_close(of);}
  for (const auto of : {rulebook, strided, inverse, limited}) {det_post_rulebook_close(of);}
  for (const auto of : {ones, folded}) {det_post_sparse_weights_close(of);}
}

void sparse_misuse()
{
  const int32_t cells[] = {0, 1, 1, 2};
  const float features[] = {2, 3};
  const float weight = 1;
  det_post_site_rows rows{cells, 1, 1, {4, 4, 4}, 0, {}};
  det_post_sites sites{};
  const auto id = workspace.id;
  const auto open = [&] {return det_post_sites_open(workspace, &rows, &sites);};
  rows.coordinates = nullptr;
  expect_error(open(), DET_POST_ERROR_NULL, id, "rows.coordinates", "no coordinates");
  rows.num_rows = 0;
  expect(open() == DET_POST_OK && det_post_sites_close(sites) == DET_POST_OK, "no rows");
  rows.num_rows = SIZE_MAX;
  expect_error(open(), DET_POST_ERROR_ARGUMENT, id, "2^32", "too many rows");
  rows = {cells, 1, 1, {4, 0, 4}, 0, {}};
  expect_error(open(), DET_POST_ERROR_ARGUMENT, id, "0 cells", "a grid without cells");
  rows.grid_size[1] = 4;
  rows.reserved[3] = 1;
  expect_error(open(), DET_POST_ERROR_ARGUMENT, id, "reserved", "reserved");
  rows.reserved[3] = 0;
  expect(open() == DET_POST_OK, "sites");
  auto geometry = geometry_of(DET_POST_SPARSE_SUBMANIFOLD, 1, 1);
  det_post_rulebook rulebook{}, other{};
  geometry.mode = 8;
  expect_error(
    det_post_rulebook_open(sites, &geometry, &rulebook), DET_POST_ERROR_ARGUMENT, sites.id, "mode 8",
    "a mode");
  geometry.mode = DET_POST_SPARSE_SUBMANIFOLD;
  geometry.kernel[1] = 0;
  expect_error(
    det_post_rulebook_open(sites, &geometry, &rulebook), DET_POST_ERROR_ARGUMENT, sites.id, "kernel",
    "no taps");
  geometry.kernel[1] = 1;
  expect(det_post_rulebook_open(sites, &geometry, &rulebook) == DET_POST_OK, "a rulebook");
  expect_error(
    det_post_rulebook_open_inverse(rulebook, &other), DET_POST_ERROR_ARGUMENT, rulebook.id,
    "no inverse", "the inverse of a submanifold rulebook");
  det_post_sparse_parameters parameters{};
  parameters.num_output_channels = parameters.num_input_channels = parameters.num_taps = 1;
  det_post_sparse_weights weights{};
  const auto pack = [&] {return det_post_sparse_weights_open(workspace, &parameters, &weights);};
  expect_error(pack(), DET_POST_ERROR_NULL, id, "parameters.weights", "no weights");
  parameters.weights = &weight;
  parameters.precision = 8;
  expect_error(pack(), DET_POST_ERROR_ARGUMENT, id, "precision 8", "a precision");
  parameters.precision = DET_POST_PRECISION_F16;
  const float large = 70000;
  parameters.scale = &large;
  expect_error(pack(), DET_POST_ERROR_ARGUMENT, id, "float16", "weights beyond float16");
  parameters.scale = nullptr;
  expect(pack() == DET_POST_OK, "weights");
  det_post_sparse_convolution convolution{rulebook, weights, nullptr, 0, 0};
  det_post_sparse_features of{features, 1, 1, 0, 0};
  const det_post_sparse_result * found = nullptr;
  const auto convolve = [&] {
    return det_post_workspace_sparse_convolve(workspace, &convolution, &of, &found);
  };
  of.num_rows = 2;
  expect_error(convolve(), DET_POST_ERROR_ARGUMENT, id, "1 rows of 1 are", "another number of rows");
  of = {features, 1, 2, 0, 0};
  expect_error(convolve(), DET_POST_ERROR_ARGUMENT, id, "1 rows of 2", "another number of channels");
  of = {features, 1, 1, 2, 0};
  expect_error(convolve(), DET_POST_ERROR_ARGUMENT, id, "order 2", "an order");
  of = {nullptr, 1, 1, 0, 0};
  expect_error(convolve(), DET_POST_ERROR_NULL, id, "features.features", "no features");
  of.features = features;
  convolution.has_relu = 2;
  expect_error(convolve(), DET_POST_ERROR_ARGUMENT, id, "has_relu", "a flag");
  convolution.has_relu = 0;
  convolution.weights.id = sites.id;
  expect_error(convolve(), DET_POST_ERROR_HANDLE, id, "weights", "sites are no weights");
  convolution.weights = weights;
  convolution.rulebook.id = 0;
  expect_error(convolve(), DET_POST_ERROR_HANDLE, id, "rulebook", "no rulebook");
  const det_post_sparse_mapping mapping{sites, {0, 1, 1}, 0};
  const det_post_sparse_map * map = nullptr;
  expect_error(
    det_post_workspace_sparse_to_map(workspace, &mapping, &of, &map), DET_POST_ERROR_ARGUMENT, id,
    "axes", "an axis twice");
  of.num_channels = 0;
  expect_error(
    det_post_workspace_sparse_max_pool(workspace, rulebook, &of, &found), DET_POST_ERROR_ARGUMENT, id,
    "channels", "no channels");
  // Other workspaces.
  det_post_workspace second{};
  expect(det_post_workspace_open("cpu", &second) == DET_POST_OK, "a second workspace");
  convolution.rulebook = rulebook;
  of = {features, 1, 1, 0, 0};
  expect_error(
    det_post_workspace_sparse_convolve(second, &convolution, &of, &found), DET_POST_ERROR_ARGUMENT,
    second.id, "of another workspace", "a rulebook of another workspace");
  expect(det_post_workspace_close(second) == DET_POST_OK, "closing");
  expect(convolve() == DET_POST_OK && found->features[0] == 2.0f, "its own");
  det_post_rulebook_close(rulebook);
  det_post_sites_close(sites);
  det_post_sparse_weights_close(weights);
  expect_error(det_post_sites_close(sites), DET_POST_ERROR_HANDLE, 0, "sites", "closed twice");
}

void handles()
{
  det_post_workspace other{};
  expect_error(
    det_post_workspace_open("tpu", &other), DET_POST_ERROR_CONFIG, 0, "tpu", "an unknown device");
  expect_error(
    det_post_workspace_open(nullptr, &other), DET_POST_ERROR_NULL, 0, "device is null", "none");
  expect_error(
    det_post_workspace_open("cpu", nullptr), DET_POST_ERROR_NULL, 0, "workspace is null", "null");
  expect_error(
    det_post_workspace_open("cuda:77", &other), DET_POST_ERROR_DEVICE, 0, "", "a GPU that is not");
  expect(det_post_workspace_open("cpu", &other) == DET_POST_OK, "a second workspace");
  expect_error(
    det_post_workspace_set_stream(other, nullptr), DET_POST_ERROR_ARGUMENT, other.id, "no stream",
    "a stream of the CPU");
  expect(other.id != workspace.id, "numbers of their own");
  expect_error(
    det_post_detector_reset({other.id}), DET_POST_ERROR_HANDLE, other.id, "detector",
    "a workspace is no detector");
  expect(det_post_workspace_close(other) == DET_POST_OK, "closing");
  expect_error(det_post_workspace_close(other), DET_POST_ERROR_HANDLE, 0, "workspace", "twice");
}

// Two threads on one workspace: each call succeeds or is refused as busy.
void threads()
{
  std::vector<float> boxes, scores;
  for (int i = 0; i < 3000; ++i) {
    const float x = static_cast<float>(i % 50) * 4, y = static_cast<float>(i / 50) * 4;
    boxes.insert(boxes.end(), {x, y, x + 10, y + 10});
    scores.push_back(static_cast<float>(i % 97) / 97);
  }
  const float half = 0.5f;
  const auto iou = of_kind(DET_POST_SUPPRESS_IOU, &half);
  const det_post_boxes all{boxes.data(), scores.data(), nullptr, scores.size(), 4};
  std::atomic<int> num_good{0}, num_busy{0}, num_other{0};
  const auto work = [&] {
    while ((num_good < 3 || num_busy < 1) && num_other == 0) {
      const det_post_survivors * found = nullptr;
      switch (det_post_workspace_suppress(workspace, &iou, &all, &found)) {
        case DET_POST_OK: ++num_good; break;
        case DET_POST_ERROR_BUSY: ++num_busy; break;
        default: ++num_other;
      }
    }
  };
  std::thread first(work), second(work);
  first.join();
  second.join();
  expect(num_other == 0, "two threads on one workspace");
}

}  // namespace

int main()
{
  expect(det_post_workspace_open("cpu", &workspace) == DET_POST_OK, "a workspace");
  suppression();
  suppression_misuse();
  letterbox();
  voxels();
  decoders();
  sparse();
  sparse_misuse();
  handles();
  threads();
  expect(det_post_workspace_close(workspace) == DET_POST_OK, "closing");
  if (num_failures == 0) std::printf("no failures\n");
  return num_failures != 0;
}
