// The C ABI of det_post for C++17: objects that close themselves, views of results, exceptions.
// Header-only; docs/cpp.md explains it. Without exceptions (-fno-exceptions) only the functions
// that are noexcept are declared: they return a status.
#ifndef DET_POST_HPP
#define DET_POST_HPP

#include <det_post.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions)
#include <stdexcept>
#endif

namespace det_post
{

/// The message of the last call that failed: on an object, or of this thread for 0.
inline std::string error_message(uint64_t id = 0)
{
  std::string message(det_post_error_message(id, nullptr, 0), '\0');
  // The last character is the 0 that every string has behind its text.
  det_post_error_message(id, message.data(), message.size() + 1);
  // Another thread may have put a shorter one in its place.
  message.resize(std::strlen(message.c_str()));
  return message;
}

#if defined(__cpp_exceptions)
/// A call that failed.
class Error : public std::runtime_error
{
public:
  Error(det_post_status status, const std::string & message)
  : std::runtime_error(message), status_(status) {}

  /// One of `DET_POST_ERROR_…`.
  det_post_status status() const noexcept {return status_;}
  /// Its name, such as `unsupported_encoding`.
  const char * name() const noexcept {return det_post_status_name(status_);}

private:
  det_post_status status_;
};

/// Throws the error of a status.
inline void check(det_post_status status, uint64_t id = 0)
{
  if (status != DET_POST_OK) {throw Error(status, error_message(id));}
}
#endif

/// Receives the log of the library as long as it exists: see `det_post_set_log`. One at a time.
class Log
{
public:
  /// Takes an entry; what it throws is dropped.
  using Function = std::function<void (uint32_t level, const char * target, const char * message)>;

  explicit Log(Function function)
  : function_(std::move(function)) {}
  Log(const Log &) = delete;
  Log & operator=(const Log &) = delete;
  ~Log()
  {
    if (is_started_) {det_post_set_log(nullptr, nullptr, 0);}
  }

  /// Starts with entries from a level on, or changes the level.
  det_post_status start(uint32_t level = DET_POST_LOG_INFO) noexcept
  {
    const auto status = det_post_set_log(&Log::write, this, level);
    is_started_ |= status == DET_POST_OK;
    return status;
  }

private:
  static void write(void * log, uint32_t level, const char * target, const char * message)
  {
#if defined(__cpp_exceptions)
    try {
      static_cast<Log *>(log)->function_(level, target, message);
    } catch (...) {
    }
#else
    static_cast<Log *>(log)->function_(level, target, message);
#endif
  }

  Function function_;
  bool is_started_ = false;
};

/// Values of the library, borrowed.
template<typename T>
class Span
{
public:
  Span() noexcept = default;
  Span(const T * data, std::size_t size) noexcept
  : data_(data), size_(data == nullptr ? 0 : size) {}

  const T * data() const noexcept {return data_;}
  std::size_t size() const noexcept {return size_;}
  bool empty() const noexcept {return size_ == 0;}
  const T * begin() const noexcept {return data_;}
  const T * end() const noexcept {return data_ + size_;}
  const T & operator[](std::size_t index) const noexcept {return data_[index];}

private:
  const T * data_ = nullptr;
  std::size_t size_ = 0;
};

/// The detections of a frame, valid until the next frame of their detector.
class Detections
{
public:
  explicit Detections(const det_post_detections & found) noexcept
  : found_(&found) {}

  /// Boxes in an image; none of a detector of other boxes.
  Span<det_post_detection_2d> boxes_2d() const noexcept
  {
    return {found_->boxes_2d, found_->num_detections};
  }
  /// Rotated boxes in an image; none of a detector of other boxes.
  Span<det_post_rotated_detection_2d> rotated_boxes_2d() const noexcept
  {
    return {found_->rotated_boxes_2d, found_->num_detections};
  }
  /// Boxes in space; none of a detector of other boxes.
  Span<det_post_detection_3d> boxes_3d() const noexcept
  {
    return {found_->boxes_3d, found_->num_detections};
  }
  /// Keypoints of a detection; none of a head without keypoints.
  Span<det_post_keypoint> keypoints(std::size_t detection) const noexcept
  {
    const std::size_t num = found_->num_keypoints;
    if (found_->keypoints == nullptr || detection >= found_->num_detections) {return {};}
    return {found_->keypoints + detection * num, num};
  }
  /// Masks of the first detections; none of a head without masks.
  Span<det_post_mask> masks() const noexcept {return {found_->masks, found_->num_masks};}
  /// Whether a mask covers a pixel of the image.
  bool covers(const det_post_mask & mask, std::uint32_t x, std::uint32_t y) const noexcept
  {
    if (x < mask.left || y < mask.top || x - mask.left >= mask.width || y - mask.top >= mask.height) {
      return false;
    }
    const std::uint32_t column = x - mask.left;
    const std::size_t row = y - mask.top;
    const std::size_t word = mask.first_word + row * ((mask.width + 31) / 32) + column / 32;
    return (found_->mask_words[word] >> (column % 32) & 1u) != 0;
  }
  /// Number of detections of any kind.
  std::size_t size() const noexcept {return found_->num_detections;}
  /// Stamp, coordinate frame and the rest.
  const det_post_detections & get() const noexcept {return *found_;}

private:
  const det_post_detections * found_;
};

namespace detail
{
inline std::vector<const char *> pointers(const std::vector<std::string> & texts)
{
  std::vector<const char *> pointers;
  for (const auto & text : texts) {pointers.push_back(text.c_str());}
  return pointers;
}

inline const char * or_null(const std::string & text) noexcept
{
  return text.empty() ? nullptr : text.c_str();
}
}  // namespace detail

/// From where a detector or a node is configured: see `det_post_configuration`.
struct Configuration
{
  std::string text;
  std::vector<std::string> files;
  /// `key:=value`.
  std::vector<std::string> overrides;
  std::string channel;
  std::string like;
  std::string node_namespace;
  std::string node_name;
  std::string program;

  /// Calls a function with this configuration for C, which is valid until it returns.
  template<typename Function>
  det_post_status with(Function function) const
  {
    const auto of_files = detail::pointers(files);
    const auto of_overrides = detail::pointers(overrides);
    det_post_configuration configuration{};
    configuration.text = detail::or_null(text);
    configuration.files = of_files.data();
    configuration.num_files = of_files.size();
    configuration.overrides = of_overrides.data();
    configuration.num_overrides = of_overrides.size();
    configuration.channel = detail::or_null(channel);
    configuration.like = detail::or_null(like);
    configuration.node_namespace = detail::or_null(node_namespace);
    configuration.node_name = detail::or_null(node_name);
    configuration.program = detail::or_null(program);
    return function(configuration);
  }
};

/// An input of a frame.
inline det_post_input input(
  const det_post_image & image, int64_t stamp_ns, const char * frame_id) noexcept
{
  det_post_input input{};
  input.kind = DET_POST_INPUT_IMAGE;
  input.stamp_ns = stamp_ns;
  input.frame_id = frame_id;
  input.image = &image;
  return input;
}

/// An input of a frame.
inline det_post_input input(
  const det_post_compressed_image & image, int64_t stamp_ns, const char * frame_id) noexcept
{
  det_post_input input{};
  input.kind = DET_POST_INPUT_COMPRESSED_IMAGE;
  input.stamp_ns = stamp_ns;
  input.frame_id = frame_id;
  input.compressed_image = &image;
  return input;
}

/// An input of a frame.
inline det_post_input input(
  const det_post_cloud & cloud, int64_t stamp_ns, const char * frame_id) noexcept
{
  det_post_input input{};
  input.kind = DET_POST_INPUT_CLOUD;
  input.stamp_ns = stamp_ns;
  input.frame_id = frame_id;
  input.cloud = &cloud;
  return input;
}

#if defined(__cpp_exceptions)
/// A view decoder, which is closed with this object: the networks of a surround channel behind its backbone.
/// One thread at a time.
class ViewDecoder
{
public:
  /// Loads the networks of a channel.
  explicit ViewDecoder(const Configuration & configuration)
  {
    check(configuration.with([this](const det_post_configuration & raw) {
        return det_post_view_decoder_open(&raw, &decoder_);
      }));
  }
  ViewDecoder(ViewDecoder && other) noexcept
  : decoder_(std::exchange(other.decoder_, {})) {}
  ViewDecoder & operator=(ViewDecoder && other) noexcept
  {
    std::swap(decoder_, other.decoder_);
    return *this;
  }
  ViewDecoder(const ViewDecoder &) = delete;
  ViewDecoder & operator=(const ViewDecoder &) = delete;
  ~ViewDecoder()
  {
    if (decoder_.id != 0) {det_post_view_decoder_close(decoder_);}
  }

  /// The lengths of its arrays.
  const det_post_view_decoder_info & info() const
  {
    const det_post_view_decoder_info * info = nullptr;
    check(det_post_view_decoder_get_info(decoder_, &info), decoder_.id);
    return *info;
  }

  /// Sets the CUDA stream on which maps are written and queries are read.
  void set_stream(void * stream)
  {
    check(det_post_view_decoder_set_stream(decoder_, stream), decoder_.id);
  }

  /// Sets the cameras of the next frames.
  void set_cameras(const std::vector<det_post_view_camera> & cameras)
  {
    check(det_post_view_decoder_set_cameras(decoder_, cameras.data(), cameras.size()), decoder_.id);
  }

  /// Decodes a frame; `motion` is null for a first one. Valid until the next call.
  const det_post_queries & run(
    const std::vector<det_post_tensor> & maps, const det_post_view_motion * motion = nullptr)
  {
    const det_post_queries * queries = nullptr;
    check(det_post_view_decoder_run(decoder_, maps.data(), maps.size(), motion, &queries), decoder_.id);
    return *queries;
  }

  /// A copy of the memory of the last frame. Valid until the next call.
  const det_post_view_memory & memory()
  {
    const det_post_view_memory * memory = nullptr;
    check(det_post_view_decoder_get_memory(decoder_, &memory), decoder_.id);
    return *memory;
  }

  /// Replaces the memory; without parts, past frames are forgotten.
  void set_memory(const det_post_view_memory & memory)
  {
    check(det_post_view_decoder_set_memory(decoder_, &memory), decoder_.id);
  }

  /// The object of the C ABI.
  det_post_view_decoder get() const noexcept {return decoder_;}

private:
  det_post_view_decoder decoder_{};
};

namespace detail
{
/// An object of a workspace, which is closed with this one.
template<typename Raw, det_post_status (* Close)(Raw)>
class Object
{
public:
  explicit Object(Raw raw) noexcept
  : raw_(raw) {}
  Object(Object && other) noexcept
  : raw_(std::exchange(other.raw_, {})) {}
  Object & operator=(Object && other) noexcept
  {
    std::swap(raw_, other.raw_);
    return *this;
  }
  Object(const Object &) = delete;
  Object & operator=(const Object &) = delete;
  ~Object()
  {
    if (raw_.id != 0) {Close(raw_);}
  }

  /// The object of the C ABI.
  Raw get() const noexcept {return raw_;}

private:
  Raw raw_;
};
}  // namespace detail

/// Packed weights of a sparse convolution, which are closed with this object.
using SparseWeights = detail::Object<det_post_sparse_weights, det_post_sparse_weights_close>;

/// The sites of a sparse level, which are closed with this object.
class Sites : public detail::Object<det_post_sites, det_post_sites_close>
{
public:
  using Object::Object;

  /// Their cells, and what became of the rows that they were made of.
  const det_post_sites_info & info() const
  {
    const det_post_sites_info * info = nullptr;
    check(det_post_sites_get_info(get(), &info), get().id);
    return *info;
  }
};

/// Which sites a sparse convolution joins; closed with this object.
class Rulebook : public detail::Object<det_post_rulebook, det_post_rulebook_close>
{
public:
  using Object::Object;

  /// From sites, by a geometry.
  Rulebook(const Sites & sites, const det_post_sparse_geometry & geometry)
  : Object(opened([&](det_post_rulebook * rulebook) {
        check(det_post_rulebook_open(sites.get(), &geometry, rulebook), sites.get().id);
      })) {}

  /// Back to the sites of a strided rulebook's input.
  Rulebook inverse() const
  {
    return Rulebook(opened([this](det_post_rulebook * rulebook) {
        check(det_post_rulebook_open_inverse(get(), rulebook), get().id);
      }));
  }

  /// The sites of the output.
  Sites sites() const
  {
    det_post_sites sites{};
    check(det_post_rulebook_get_sites(get(), &sites), get().id);
    return Sites(sites);
  }

private:
  template<typename Open>
  static det_post_rulebook opened(Open open)
  {
    det_post_rulebook rulebook{};
    open(&rulebook);
    return rulebook;
  }
};

/// A workspace, which is closed with this object: operations on arrays in the memory of its device.
/// Results are valid until the next call of the same function. One thread at a time.
class Workspace
{
public:
  /// Opens a workspace on a device, such as `cpu` or `cuda:0`.
  explicit Workspace(const std::string & device)
  {
    check(det_post_workspace_open(device.c_str(), &workspace_));
  }
  Workspace(Workspace && other) noexcept
  : workspace_(std::exchange(other.workspace_, {})) {}
  Workspace & operator=(Workspace && other) noexcept
  {
    std::swap(workspace_, other.workspace_);
    return *this;
  }
  Workspace(const Workspace &) = delete;
  Workspace & operator=(const Workspace &) = delete;
  ~Workspace()
  {
    if (workspace_.id != 0) {det_post_workspace_close(workspace_);}
  }

  /// Sets the CUDA stream on which arrays are written and results are read.
  void set_stream(void * stream)
  {
    check(det_post_workspace_set_stream(workspace_, stream), workspace_.id);
  }

  /// Suppresses boxes.
  const det_post_survivors & suppress(
    const det_post_suppression & suppression, const det_post_boxes & boxes)
  {
    return result(det_post_workspace_suppress, suppression, boxes);
  }

  /// Resizes and normalises an image.
  const det_post_letterboxed & letterbox(
    const det_post_letterbox & letterbox, const det_post_image & image)
  {
    return result(det_post_workspace_letterbox, letterbox, image);
  }

  /// Groups points into voxels.
  const det_post_voxels & voxelize(
    const det_post_voxel_grid & grid, const det_post_points & points)
  {
    return result(det_post_workspace_voxelize, grid, points);
  }

  /// The sites of rows of coordinates.
  Sites sites(const det_post_site_rows & rows)
  {
    det_post_sites sites{};
    check(det_post_sites_open(workspace_, &rows, &sites), workspace_.id);
    return Sites(sites);
  }

  /// Packed weights of a sparse convolution.
  SparseWeights weights(const det_post_sparse_parameters & parameters)
  {
    det_post_sparse_weights weights{};
    check(det_post_sparse_weights_open(workspace_, &parameters, &weights), workspace_.id);
    return SparseWeights(weights);
  }

  /// Convolves features; valid until the next call with the same weights.
  const det_post_sparse_result & convolve(
    const det_post_sparse_convolution & convolution, const det_post_sparse_features & features)
  {
    return result(det_post_workspace_sparse_convolve, convolution, features);
  }

  /// The largest features under a kernel.
  const det_post_sparse_result & max_pool(
    const Rulebook & rulebook, const det_post_sparse_features & features)
  {
    const det_post_sparse_result * result = nullptr;
    check(
      det_post_workspace_sparse_max_pool(workspace_, rulebook.get(), &features, &result),
      workspace_.id);
    return *result;
  }

  /// Features as a dense map.
  const det_post_sparse_map & to_map(
    const det_post_sparse_mapping & mapping, const det_post_sparse_features & features)
  {
    return result(det_post_workspace_sparse_to_map, mapping, features);
  }

  /// The pairs of a rulebook.
  const det_post_sparse_pairs & pairs(const Rulebook & rulebook)
  {
    const det_post_sparse_pairs * pairs = nullptr;
    check(det_post_workspace_sparse_pairs(workspace_, rulebook.get(), &pairs), workspace_.id);
    return *pairs;
  }

  /// Decodes the outputs of a network.
  const det_post_decoded & decode(
    const det_post_yolo_decoding & decoding, const std::vector<det_post_tensor> & tensors)
  {
    return decoded(det_post_workspace_decode_yolo, decoding, tensors);
  }
  const det_post_decoded & decode(
    const det_post_center_decoding & decoding, const std::vector<det_post_tensor> & tensors)
  {
    return decoded(det_post_workspace_decode_center, decoding, tensors);
  }
  const det_post_decoded & decode(
    const det_post_anchor_decoding & decoding, const std::vector<det_post_tensor> & tensors)
  {
    return decoded(det_post_workspace_decode_anchor, decoding, tensors);
  }

  /// The object of the C ABI.
  det_post_workspace get() const noexcept {return workspace_;}

private:
  template<typename How, typename Input, typename Result>
  const Result & result(
    det_post_status (* operation)(
      det_post_workspace, const How *, const Input *, const Result **),
    const How & how, const Input & input)
  {
    const Result * result = nullptr;
    check(operation(workspace_, &how, &input, &result), workspace_.id);
    return *result;
  }

  template<typename How>
  const det_post_decoded & decoded(
    det_post_status (* operation)(
      det_post_workspace, const How *, const det_post_tensor *, size_t, const det_post_decoded **),
    const How & how, const std::vector<det_post_tensor> & tensors)
  {
    const det_post_decoded * decoded = nullptr;
    check(operation(workspace_, &how, tensors.data(), tensors.size(), &decoded), workspace_.id);
    return *decoded;
  }

  det_post_workspace workspace_{};
};
#endif

/// A detector, which is closed with this object. One thread at a time.
class Detector
{
public:
  /// No detector: every call is refused.
  Detector() noexcept = default;
  Detector(Detector && other) noexcept
  : detector_(std::exchange(other.detector_, {})) {}
  Detector & operator=(Detector && other) noexcept
  {
    std::swap(detector_, other.detector_);
    return *this;
  }
  Detector(const Detector &) = delete;
  Detector & operator=(const Detector &) = delete;
  ~Detector()
  {
    if (detector_.id != 0) {det_post_detector_close(detector_);}
  }

  /// Opens a detector in place of this one.
  det_post_status open(const Configuration & from, std::nothrow_t)
  {
    Detector opened;
    const auto status = from.with([&](const det_post_configuration & configuration) {
          return det_post_detector_open(&configuration, &opened.detector_);
      });
    if (status == DET_POST_OK) {*this = std::move(opened);}
    return status;
  }

  /// Detects in the inputs of a frame; `found` is written on success.
  det_post_status detect(
    const det_post_input * inputs, std::size_t num_inputs,
    const det_post_detections ** found) noexcept
  {
    det_post_frame frame{};
    frame.inputs = inputs;
    frame.num_inputs = num_inputs;
    return det_post_detector_detect(detector_, &frame, found);
  }

#if defined(__cpp_exceptions)
  explicit Detector(const Configuration & configuration)
  {
    if (det_post_abi_version() != DET_POST_ABI_VERSION) {
      throw Error(DET_POST_ERROR_ARGUMENT, "header and library have different versions");
    }
    check(open(configuration, std::nothrow));
  }

  /// Detects in the one input of a frame.
  Detections detect(const det_post_input & input)
  {
    const det_post_detections * found = nullptr;
    check(detect(&input, 1, &found), detector_.id);
    return Detections(*found);
  }

  /// Detects in the inputs of a frame.
  Detections detect(const std::vector<det_post_input> & inputs)
  {
    const det_post_detections * found = nullptr;
    check(detect(inputs.data(), inputs.size(), &found), detector_.id);
    return Detections(*found);
  }

  /// What the detector is.
  const det_post_detector_info & info() const
  {
    const det_post_detector_info * info = nullptr;
    check(det_post_detector_describe(detector_, &info), detector_.id);
    return *info;
  }

  /// Durations and counters of the last frame.
  const det_post_report & report()
  {
    const det_post_report * report = nullptr;
    check(det_post_detector_report(detector_, &report), detector_.id);
    return *report;
  }

  /// Sets live parameters, all or none.
  void reconfigure(const std::vector<std::string> & overrides)
  {
    const auto texts = detail::pointers(overrides);
    check(det_post_detector_reconfigure(detector_, texts.data(), texts.size()), detector_.id);
  }

  /// Adds a transform.
  void add_transform(const det_post_transform & transform)
  {
    check(det_post_detector_add_transforms(detector_, &transform, 1), detector_.id);
  }

  /// Sets the calibration of the camera of an input.
  void set_calibration(std::size_t input, const det_post_camera_calibration & calibration)
  {
    check(det_post_detector_set_calibration(detector_, input, &calibration), detector_.id);
  }

  /// Runs the networks once.
  void warm_up() {check(det_post_detector_warm_up(detector_), detector_.id);}

  /// Discards past frames.
  void reset() {check(det_post_detector_reset(detector_), detector_.id);}
#endif

  /// The object of the C ABI.
  det_post_detector get() const noexcept {return detector_;}

private:
  det_post_detector detector_{};
};

/// A parameter of a node: see `det_post_parameter`.
using Parameter = det_post_parameter;

/// A live node in a ROS graph of the caller, which is shut down and closed with this object. Any
/// thread may call any function.
class Node
{
public:
  /// No node: every call is refused.
  Node() noexcept = default;
  Node(Node && other) noexcept
  : node_(std::exchange(other.node_, {})) {}
  Node & operator=(Node && other) noexcept
  {
    std::swap(node_, other.node_);
    return *this;
  }
  Node(const Node &) = delete;
  Node & operator=(const Node &) = delete;
  ~Node() {close();}

  /// Opens a node in place of this one.
  det_post_status open(const Configuration & from, const det_post_graph & graph, std::nothrow_t)
  {
    Node opened;
    const auto status = from.with([&](const det_post_configuration & configuration) {
          return det_post_node_open(&configuration, &graph, &opened.node_);
      });
    if (status == DET_POST_OK) {*this = std::move(opened);}
    return status;
  }

  /// Shuts the node down and closes it. Other threads must not use this object any more; calls on
  /// its `get()` are waited for.
  void close() noexcept
  {
    if (node_.id != 0) {det_post_node_close(std::exchange(node_, {}));}
  }

  /// Changes the state, by the number of a `lifecycle_msgs/msg/Transition`.
  det_post_status change(uint32_t transition) noexcept
  {
    return det_post_node_change(node_, transition);
  }

  /// Delivers a message of a subscription by pointer.
  det_post_status deliver(uint64_t subscription, const det_post_input & message) noexcept
  {
    return det_post_node_deliver(node_, subscription, &message);
  }

  /// Delivers a message of a subscription as CDR.
  det_post_status deliver(
    uint64_t subscription, const uint8_t * message, std::size_t num_bytes) noexcept
  {
    return det_post_node_deliver_message(node_, subscription, message, num_bytes);
  }

  /// Sets live parameters `key:=value`, all or none.
  det_post_status set_parameters(const std::vector<std::string> & overrides)
  {
    const auto texts = detail::pointers(overrides);
    return det_post_node_set_parameters(node_, texts.data(), texts.size());
  }

  /// Sets a switch of the graph's `serve_switch`.
  det_post_status set_switch(uint64_t switch_number, bool is_on) noexcept
  {
    return det_post_node_set_switch(node_, switch_number, is_on);
  }

#if defined(__cpp_exceptions)
  Node(const Configuration & configuration, const det_post_graph & graph)
  {
    if (det_post_abi_version() != DET_POST_ABI_VERSION) {
      throw Error(DET_POST_ERROR_ARGUMENT, "header and library have different versions");
    }
    check(open(configuration, graph, std::nothrow));
  }

  /// The parameters with their present values, until the next call.
  Span<Parameter> parameters() const
  {
    const Parameter * parameters = nullptr;
    std::size_t num_parameters = 0;
    check(det_post_node_parameters(node_, &parameters, &num_parameters));
    return {parameters, num_parameters};
  }
#endif

  /// The message of the last call that failed, of any thread; `det_post::error_message()` has the one
  /// for this thread.
  std::string error_message() const {return det_post::error_message(node_.id);}

  /// The object of the C ABI.
  det_post_node get() const noexcept {return node_;}

private:
  det_post_node node_{};
};

}  // namespace det_post

#endif
