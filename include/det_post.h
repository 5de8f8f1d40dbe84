/* The C ABI of det_post. docs/cpp.md explains it and what it promises.
 *
 * Made from capi/src by `DET_POST_BLESS=1 cargo test --workspace --test abi header`: do not edit.
 *
 * A function that fails returns a status; det_post_error_message has the message. Memory of the
 * caller is read and written until a function returns, never later. Any thread may call any
 * function. Of two calls on one object at a time the second is refused with
 * DET_POST_ERROR_BUSY, except det_post_error_message and det_post_detector_close. */
#ifndef DET_POST_H
#define DET_POST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the ABI. A program that was compiled with this header runs with every library
 * whose `det_post_abi_version` is the same. */
#define DET_POST_ABI_VERSION 1u

/** The result of a call: `DET_POST_OK` or an error. */
typedef int32_t det_post_status;

/** The call has done what it was asked for. */
#define DET_POST_OK 0

/** The command line is wrong. */
#define DET_POST_ERROR_USAGE 1

/** A parameter is unknown, missing, of the wrong type or out of range. */
#define DET_POST_ERROR_CONFIG 2

/** The operating system refused a file. */
#define DET_POST_ERROR_IO 3

/** A recording is damaged. */
#define DET_POST_ERROR_DAMAGED_BAG 4

/** A message does not decode. */
#define DET_POST_ERROR_MESSAGE 5

/** An image encoding or compression format that is not supported. */
#define DET_POST_ERROR_ENCODING 6

/** Declared sizes contradict each other or the data. */
#define DET_POST_ERROR_LAYOUT 7

/** A point field is missing or has an unusable type or offset. */
#define DET_POST_ERROR_POINT_FIELD 8

/** A compressed image does not decode. */
#define DET_POST_ERROR_CODEC 9

/** A transform is unknown at the requested time. */
#define DET_POST_ERROR_TRANSFORM 10

/** A time that a recording cannot represent. */
#define DET_POST_ERROR_TIME 11

/** A model cannot be loaded or does not fit its head. */
#define DET_POST_ERROR_MODEL 12

/** The engine failed while running a model. */
#define DET_POST_ERROR_INFERENCE 13

/** Arguments do not fit together, or one is not possible. */
#define DET_POST_ERROR_ARGUMENT 14

/** The requested device is not usable. */
#define DET_POST_ERROR_DEVICE 15

/** A fault has made a GPU unusable for this process. */
#define DET_POST_ERROR_DEVICE_LOST 16

/** A frame is older than the channel allows. */
#define DET_POST_ERROR_TOO_OLD 17

/** Inputs of a frame are missing. */
#define DET_POST_ERROR_INCOMPLETE_VIEWS 18

/** The stamps of a frame's inputs are further apart than allowed. */
#define DET_POST_ERROR_VIEWS_TOO_FAR_APART 19

/** The stamp of a message is not newer than the last of its input. */
#define DET_POST_ERROR_STAMP_NOT_NEWER 20

/** Interrupted by a request to stop. */
#define DET_POST_ERROR_INTERRUPTED 21

/** The ROS graph cannot be joined. */
#define DET_POST_ERROR_MIDDLEWARE 22

/** The system does not provide the memory that a frame needs. */
#define DET_POST_ERROR_MEMORY 23

/** An image takes more work or time to decode than is allowed. */
#define DET_POST_ERROR_DECODE_LIMIT 24

/** A message is larger than a channel allows. */
#define DET_POST_ERROR_TOO_LARGE 25

/** The calibration of a camera is missing or unusable. */
#define DET_POST_ERROR_UNCALIBRATED 26

/** The calibration of a camera is for images of another size or frame. */
#define DET_POST_ERROR_CALIBRATION_MISMATCH 27

/** A distortion model that is not supported. */
#define DET_POST_ERROR_UNSUPPORTED_DISTORTION 28

/** A message of another type than the one that is read of its topic. */
#define DET_POST_ERROR_MESSAGE_TYPE 29

/** A cloud fills fewer voxels than the network takes. */
#define DET_POST_ERROR_TOO_FEW_VOXELS 30

/** A compressed cloud does not decode. */
#define DET_POST_ERROR_CLOUD_CODEC 31

/** A packet of video does not decode, or packets before it are missing. */
#define DET_POST_ERROR_VIDEO_CODEC 32

/** A packet of video gives no image: a key frame is missing before it, or it has none. */
#define DET_POST_ERROR_NO_IMAGE 33

/** A pointer is null. */
#define DET_POST_ERROR_NULL 1001

/** No object has this number: it was closed, or never opened, or is of another kind. */
#define DET_POST_ERROR_HANDLE 1002

/** Another thread is in a call on the object. */
#define DET_POST_ERROR_BUSY 1003

/** A fault of the library. An object that it happened to can only be closed. */
#define DET_POST_ERROR_PANIC 1004

/** An error without a separate number. */
#define DET_POST_ERROR_UNKNOWN 1005

/** Level of an entry: details, for developers. */
#define DET_POST_LOG_DEBUG 10u

/** Level of an entry: progress. */
#define DET_POST_LOG_INFO 20u

/** Level of an entry: a warning. */
#define DET_POST_LOG_WARN 30u

/** Level of an entry: an error. */
#define DET_POST_LOG_ERROR 40u

/** The input is missing from the frame, which `sync.min_inputs` must allow. */
#define DET_POST_INPUT_NONE 0u

/** Raw images: `image`. */
#define DET_POST_INPUT_IMAGE 1u

/** Compressed images: `compressed_image`. */
#define DET_POST_INPUT_COMPRESSED_IMAGE 2u

/** Point clouds: `cloud`. */
#define DET_POST_INPUT_CLOUD 3u

/** Outputs of a network that runs elsewhere: `tensors`. */
#define DET_POST_INPUT_TENSORS 4u

/** Axis-aligned boxes in an image: `boxes_2d`. */
#define DET_POST_DETECTIONS_2D 1u

/** Rotated boxes in an image: `rotated_boxes_2d`. */
#define DET_POST_DETECTIONS_ROTATED_2D 2u

/** Boxes in space: `boxes_3d`. */
#define DET_POST_DETECTIONS_3D 3u

/** `detection_3d.has`: the head estimates the velocity. */
#define DET_POST_HAS_VELOCITY 1u

/** `detection_3d.has`: the head estimates variances. */
#define DET_POST_HAS_VARIANCE 2u

/** Greedy by IoU of axis-aligned boxes, as torchvision. */
#define DET_POST_SUPPRESS_IOU 1u

/** By IoU of axis-aligned boxes in one pass: a suppressed box still suppresses others. */
#define DET_POST_SUPPRESS_FAST 2u

/** Axis-aligned boxes lower scores: `score * (1 - iou)` from the threshold on. */
#define DET_POST_SUPPRESS_SOFT_LINEAR 3u

/** Axis-aligned boxes lower scores: `score * exp(-iou^2 / sigma)`. */
#define DET_POST_SUPPRESS_SOFT_GAUSSIAN 4u

/** Greedy by IoU of rotated boxes in a plane. */
#define DET_POST_SUPPRESS_ROTATED 5u

/** Greedy by distance of centres, below a radius in metres, as Autoware. */
#define DET_POST_SUPPRESS_CIRCLE 6u

/** Greedy by squared distance of centres, at most a threshold, as mmdet3d's `circle_nms`. */
#define DET_POST_SUPPRESS_CIRCLE_SQUARED 7u

/** Greedy by IoU of footprints in the bird's-eye view. */
#define DET_POST_SUPPRESS_BEV 8u

/** By IoU of footprints in one pass, as Autoware. */
#define DET_POST_SUPPRESS_BEV_FAST 9u

/** Greedy by IoU of volumes. */
#define DET_POST_SUPPRESS_IOU_3D 10u

/** `suppression.class_mode`: every box suppresses every other. */
#define DET_POST_CLASSES_AGNOSTIC 0u

/** `suppression.class_mode`: boxes suppress boxes of their class. */
#define DET_POST_CLASSES_AWARE 1u

/** `suppression.class_mode`: boxes suppress boxes whose classes have the same group. */
#define DET_POST_CLASSES_GROUPS 2u

/** `letterbox.placement`: in the centre (YOLOv5 and later). */
#define DET_POST_PLACE_CENTER 0u

/** `letterbox.placement`: at the top left corner (YOLOX). */
#define DET_POST_PLACE_TOP_LEFT 1u

/** `letterbox.placement`: stretched to the whole input. */
#define DET_POST_PLACE_STRETCH 2u

/** `letterbox.placement`: as wide as the input, what is too high cut off at the top. */
#define DET_POST_PLACE_CROP_TOP 3u

/** `yolo_decoding.layout`: `[1, N, 5 + C]`, decoded (YOLOv5 and v7 exports). */
#define DET_POST_YOLO_V5 1u

/** `yolo_decoding.layout`: a tensor of logits per stride, `[1, A * (5 + C), H, W]` or
 * `[1, A, H, W, 5 + C]`, with `strides` and `anchors` (YOLOv5 without its export head). */
#define DET_POST_YOLO_V5_RAW 2u

/** `yolo_decoding.layout`: `[1, 4 + C, N]` (YOLOv8, v9, 11). */
#define DET_POST_YOLO_V8 3u

/** `yolo_decoding.layout`: `[1, 4 + C + 1, N]`, rotated boxes (ultralytics' OBB). */
#define DET_POST_YOLO_OBB 4u

/** `yolo_decoding.layout`: `[1, N, 5 + C]`, offsets and logarithms, with `strides` (YOLOX). */
#define DET_POST_YOLO_X 5u

/** `yolo_decoding.layout`: `[1, N, 6]`, final boxes (YOLOv10). */
#define DET_POST_YOLO_END_TO_END 6u

/** `yolo_decoding.layout`: boxes `[1, N, 4]`, centre and size as fractions of the input, and
 * scores `[1, N, C]`, or scores `[1, N]` and labels `[1, N]` (RT-DETR). */
#define DET_POST_YOLO_DETR 7u

/** `yolo_decoding.layout`: as `DET_POST_YOLO_DETR`, boxes as corners in pixels of the input. */
#define DET_POST_YOLO_DETR_CORNERS 8u

/** `sparse_geometry.mode`: the output has the sites of the input; the kernel is odd, the stride 1 and the
 * padding not read. */
#define DET_POST_SPARSE_SUBMANIFOLD 0u

/** `sparse_geometry.mode`: the output has every cell with a site under its kernel. */
#define DET_POST_SPARSE_STRIDED 1u

/** `sparse_geometry.mode`: the output has every cell that a site reaches. */
#define DET_POST_SPARSE_TRANSPOSED 2u

/** `sparse_parameters.precision`: float32, equal on CPU and GPU. */
#define DET_POST_PRECISION_F32 0u

/** `sparse_parameters.precision`: products of TensorFloat-32. */
#define DET_POST_PRECISION_TF32 1u

/** `sparse_parameters.precision`: products and outputs of float16. */
#define DET_POST_PRECISION_F16 2u

/** `sparse_parameters.precision`: products and outputs of bfloat16. */
#define DET_POST_PRECISION_BF16 3u

/** `sparse_features.order`: rows in the order of the sites. */
#define DET_POST_ORDER_SITES 0u

/** `sparse_features.order`: rows in the order of the coordinates that the sites were made of. */
#define DET_POST_ORDER_COORDINATES 1u

typedef struct det_post_configuration det_post_configuration;
typedef struct det_post_bytes det_post_bytes;
typedef struct det_post_tensor det_post_tensor;
typedef struct det_post_image det_post_image;
typedef struct det_post_compressed_image det_post_compressed_image;
typedef struct det_post_point_field det_post_point_field;
typedef struct det_post_cloud det_post_cloud;
typedef struct det_post_input det_post_input;
typedef struct det_post_frame det_post_frame;
typedef struct det_post_camera_calibration det_post_camera_calibration;
typedef struct det_post_transform det_post_transform;
typedef struct det_post_detection_2d det_post_detection_2d;
typedef struct det_post_rotated_detection_2d det_post_rotated_detection_2d;
typedef struct det_post_detection_3d det_post_detection_3d;
typedef struct det_post_keypoint det_post_keypoint;
typedef struct det_post_mask det_post_mask;
typedef struct det_post_detections det_post_detections;
typedef struct det_post_stage_time det_post_stage_time;
typedef struct det_post_counter det_post_counter;
typedef struct det_post_copied_bytes det_post_copied_bytes;
typedef struct det_post_report det_post_report;
typedef struct det_post_detector det_post_detector;
typedef struct det_post_input_info det_post_input_info;
typedef struct det_post_detector_info det_post_detector_info;
typedef struct det_post_workspace det_post_workspace;
typedef struct det_post_suppression det_post_suppression;
typedef struct det_post_boxes det_post_boxes;
typedef struct det_post_survivors det_post_survivors;
typedef struct det_post_letterbox det_post_letterbox;
typedef struct det_post_letterboxed det_post_letterboxed;
typedef struct det_post_voxel_grid det_post_voxel_grid;
typedef struct det_post_points det_post_points;
typedef struct det_post_voxels det_post_voxels;
typedef struct det_post_yolo_decoding det_post_yolo_decoding;
typedef struct det_post_center_decoding det_post_center_decoding;
typedef struct det_post_anchor_size det_post_anchor_size;
typedef struct det_post_anchor_decoding det_post_anchor_decoding;
typedef struct det_post_decoded det_post_decoded;
typedef struct det_post_sites det_post_sites;
typedef struct det_post_site_rows det_post_site_rows;
typedef struct det_post_sites_info det_post_sites_info;
typedef struct det_post_rulebook det_post_rulebook;
typedef struct det_post_sparse_geometry det_post_sparse_geometry;
typedef struct det_post_sparse_weights det_post_sparse_weights;
typedef struct det_post_sparse_parameters det_post_sparse_parameters;
typedef struct det_post_sparse_features det_post_sparse_features;
typedef struct det_post_sparse_result det_post_sparse_result;
typedef struct det_post_sparse_pairs det_post_sparse_pairs;
typedef struct det_post_sparse_map det_post_sparse_map;
typedef struct det_post_sparse_convolution det_post_sparse_convolution;
typedef struct det_post_sparse_mapping det_post_sparse_mapping;
typedef struct det_post_view_decoder det_post_view_decoder;
typedef struct det_post_view_decoder_info det_post_view_decoder_info;
typedef struct det_post_view_camera det_post_view_camera;
typedef struct det_post_view_motion det_post_view_motion;
typedef struct det_post_queries det_post_queries;
typedef struct det_post_view_memory_part det_post_view_memory_part;
typedef struct det_post_view_memory det_post_view_memory;
typedef struct det_post_qos det_post_qos;
typedef struct det_post_graph det_post_graph;
typedef struct det_post_node det_post_node;
typedef struct det_post_parameter det_post_parameter;

/** The parameters of a detector, as of one channel of a node. Of two values for a key the
 * later holds: `text`, `files`, `overrides`. Set what is not used to 0. */
struct det_post_configuration {
    /** The text of a parameter file, or `NULL`. */
    const char *text;
    /** Paths of parameter files. */
    const char *const *files;
    /** Number of `files`. */
    size_t num_files;
    /** Assignments `key:=value`, such as `camera.score_threshold:=0.3`. */
    const char *const *overrides;
    /** Number of `overrides`. */
    size_t num_overrides;
    /** Assignments `name:=value` for `$(var name)` in files. */
    const char *const *arguments;
    /** Number of `arguments`. */
    size_t num_arguments;
    /** The package whose parameters are given, such as `lidar_centerpoint`; `NULL`: this one. */
    const char *like;
    /** Namespace of the node, whose sections of the files apply; `NULL`: none. */
    const char *node_namespace;
    /** Name of the node; `NULL`: `det_post`. */
    const char *node_name;
    /** Name of the channel; may be `NULL` if there is one. */
    const char *channel;
    /** Path of the program `det_post`, in whose process a channel with `isolate: true` runs;
     * `NULL` if there is no such channel. */
    const char *program;
    /** For later versions; 0. */
    uint64_t reserved[4];
};

/** Bytes in host memory or, where stated, in the memory of a GPU. */
struct det_post_bytes {
    /** The first byte. */
    const uint8_t *data;
    /** Their number. */
    size_t num_bytes;
};

/** A tensor: dense, row-major, little-endian. */
struct det_post_tensor {
    /** Name in the network. */
    const char *name;
    /** Type of the elements: 1 to 10 for int8, uint8, int16, uint16, int32, uint32, int64,
     * uint64, float32, float64; for decoders also 11 for float16. */
    uint32_t element;
    /** Number of dimensions, up to 8. */
    uint32_t rank;
    /** Lengths of the dimensions. */
    const size_t *shape;
    /** The elements. */
    det_post_bytes bytes;
};

/** An image, as `sensor_msgs/Image` describes it. */
struct det_post_image {
    /** Pixels per row. */
    uint32_t width;
    /** Rows. */
    uint32_t height;
    /** Bytes from row to row. */
    size_t step;
    /** Name of the encoding in ROS, such as `bgr8`, `nv12` or `bayer_rggb8`. */
    const char *encoding;
    /** 1 if 16-bit samples are big-endian, else 0. */
    uint32_t is_bigendian;
    /** The rows; padding after the last one may be missing. */
    det_post_bytes bytes;
};

/** A compressed image, as `sensor_msgs/CompressedImage` describes it. */
struct det_post_compressed_image {
    /** `jpeg`, `png`, or a text that contains one of them; empty: by the first bytes. */
    const char *format;
    /** The file. */
    det_post_bytes bytes;
};

/** A field of points, as `sensor_msgs/PointField` describes it. */
struct det_post_point_field {
    /** Name, such as `x` or `intensity`. */
    const char *name;
    /** Bytes from the start of the point. */
    uint32_t offset;
    /** Type: 1 to 8 for int8, uint8, int16, uint16, int32, uint32, float32, float64. */
    uint32_t datatype;
    /** Number of values. */
    uint32_t count;
};

/** A point cloud, as `sensor_msgs/PointCloud2` describes it. */
struct det_post_cloud {
    /** Points per row. */
    uint32_t width;
    /** Rows; 1 for an unorganised cloud. */
    uint32_t height;
    /** Bytes from point to point. */
    uint32_t point_step;
    /** Bytes from row to row. */
    uint32_t row_step;
    /** 1 if values are big-endian, else 0. */
    uint32_t is_bigendian;
    /** The fields. */
    const det_post_point_field *fields;
    /** Number of `fields`, up to 32. */
    size_t num_fields;
    /** The points. */
    det_post_bytes bytes;
};

/** One input of a frame. `kind` says which of the pointers is read. */
struct det_post_input {
    /** One of `DET_POST_INPUT_…`. */
    uint32_t kind;
    /** Acquisition time in nanoseconds since the epoch of the clock that stamped the data. */
    int64_t stamp_ns;
    /** Coordinate frame of the data; `NULL`: no name. */
    const char *frame_id;
    /** Of `DET_POST_INPUT_IMAGE`. */
    const det_post_image *image;
    /** Of `DET_POST_INPUT_COMPRESSED_IMAGE`. */
    const det_post_compressed_image *compressed_image;
    /** Of `DET_POST_INPUT_CLOUD`. */
    const det_post_cloud *cloud;
    /** Of `DET_POST_INPUT_TENSORS`. */
    const det_post_tensor *tensors;
    /** Number of `tensors`, up to 16. */
    size_t num_tensors;
    /** 1 if `bytes.data` of the image or cloud is a device pointer, to memory of the detector's
     * GPU; 0 for host memory. The bytes are copied on the GPU; when the call returns, they have
     * been read. */
    uint32_t is_on_device;
    /** Of device pointers: the CUDA stream whose queued work writes the bytes (`cudaStream_t` or
     * `CUstream`), which the detector waits for on the GPU; `NULL` is the default stream. */
    void *stream;
};

/** The inputs of one frame, in the order of the configuration. The stamp of the frame is
 * the reference input's. */
struct det_post_frame {
    /** The inputs. */
    const det_post_input *inputs;
    /** Number of `inputs`; the detector fixes it. */
    size_t num_inputs;
    /** For later versions; 0. */
    uint64_t reserved[4];
};

/** The calibration of a camera, as `sensor_msgs/CameraInfo` states it. Matrices are row by row. */
struct det_post_camera_calibration {
    /** Coordinate frame of the camera. */
    const char *frame_id;
    /** Pixels per row of the image that was calibrated, at full resolution. */
    uint32_t width;
    /** Rows of that image. */
    uint32_t height;
    /** Name of the distortion model, such as `plumb_bob`. */
    const char *distortion_model;
    /** Coefficients of the distortion model. */
    const double *distortion;
    /** Number of `distortion`, up to 1024. */
    size_t num_distortion;
    /** 3x3 intrinsic matrix of the raw image: `k`. */
    double intrinsics[9];
    /** 3x3 rectification rotation: `r`. */
    double rectification[9];
    /** 3x4 projection matrix of the rectified image: `p`. */
    double projection[12];
    /** Pixels of the full resolution that one pixel covers, along x and y; 0 is the same as 1. */
    uint32_t binning[2];
    /** Left edge, top edge, width and height of the part of the full resolution that the image
     * shows; all 0 for all of it. */
    uint32_t region[4];
};

/** A transform of a child frame in its parent. */
struct det_post_transform {
    /** Name of the parent. */
    const char *parent;
    /** Name of the child. */
    const char *child;
    /** Time in nanoseconds; not read if `is_static`. */
    int64_t stamp_ns;
    /** Origin of the child in the parent: x, y, z in metres. */
    double translation[3];
    /** Rotation as a quaternion x, y, z, w. */
    double rotation[4];
    /** 1 if it holds at all times, else 0. */
    uint32_t is_static;
};

/** A box in an image, clipped to it. Pixel `i` covers `[i, i + 1)`, x to the right, y down. */
struct det_post_detection_2d {
    /** Position in the class names of the detector. */
    uint32_t class_id;
    /** Score in [0, 1]. */
    float score;
    /** Left edge. */
    float x1;
    /** Top edge. */
    float y1;
    /** Right edge. */
    float x2;
    /** Bottom edge. */
    float y2;
};

/** A rotated box in an image, in pixels, not clipped. */
struct det_post_rotated_detection_2d {
    /** Position in the class names of the detector. */
    uint32_t class_id;
    /** Score in [0, 1]. */
    float score;
    /** Centre, x. */
    float cx;
    /** Centre, y. */
    float cy;
    /** Extent along the local x axis. */
    float width;
    /** Extent along the local y axis. */
    float height;
    /** Turn of the local x axis from +x towards +y. */
    float angle_rad;
};

/** A box in space, upright in its frame (z up), in metres. */
struct det_post_detection_3d {
    /** Position in the class names of the detector. */
    uint32_t class_id;
    /** Score in [0, 1]. */
    float score;
    /** Geometric centre: x, y, z. */
    float center[3];
    /** Extent along the heading. */
    float length_m;
    /** Extent across the heading. */
    float width_m;
    /** Vertical extent. */
    float height_m;
    /** Heading, counter-clockwise from +x. */
    float yaw_rad;
    /** Velocity over ground along x and y, in metres per second; 0 if not estimated. */
    float velocity_mps[2];
    /** Variances of the centre; 0 if not estimated. */
    float center_variance[3];
    /** Variances of length, width, height. */
    float size_variance[3];
    /** Variance of the yaw. */
    float yaw_variance;
    /** Variances of the velocity. */
    float velocity_variance[2];
    /** `DET_POST_HAS_…`, added. */
    uint32_t has;
};

/** A keypoint of a detection, in pixels of the image. */
struct det_post_keypoint {
    /** Column, from 0 to the width of the image. */
    float x;
    /** Row, from 0 to its height. */
    float y;
    /** Score in [0, 1]; 1 of networks that give none. */
    float score;
};

/** The mask of a detection: bits of the pixels inside a window of the image. Rows follow each
 * other from the top, each in `(width + 31) / 32` words, the left pixel in the lowest bit. */
struct det_post_mask {
    /** First column of the window. */
    uint32_t left;
    /** First row of the window. */
    uint32_t top;
    /** Columns of the window. */
    uint32_t width;
    /** Rows of the window. */
    uint32_t height;
    /** Position of its first word in `mask_words`. */
    uint32_t first_word;
};

/** The detections of a frame, in the total order: score descending, then class, then position
 * in the network's output. */
struct det_post_detections {
    /** Stamp of the reference input. */
    int64_t stamp_ns;
    /** Coordinate frame of the detections: the reference input's, unless the detector has
     * a target frame. */
    const char *frame_id;
    /** One of `DET_POST_DETECTIONS_…`. */
    uint32_t kind;
    /** 1 if the stamp shows that the clock of the inputs has started over, for which the
     * detector was reset; else 0. */
    uint32_t has_started_over;
    /** Number of detections. */
    size_t num_detections;
    /** Of `DET_POST_DETECTIONS_2D`, else `NULL`. */
    const det_post_detection_2d *boxes_2d;
    /** Of `DET_POST_DETECTIONS_ROTATED_2D`, else `NULL`. */
    const det_post_rotated_detection_2d *rotated_boxes_2d;
    /** Of `DET_POST_DETECTIONS_3D`, else `NULL`. */
    const det_post_detection_3d *boxes_3d;
    /** Why the pose of a sensor is unknown, without which the frame was processed; or `NULL`. */
    const char *degraded;
    /** Keypoints of each detection; 0 of a head without keypoints. */
    size_t num_keypoints;
    /** `num_detections * num_keypoints`, detection by detection in the network's order, or `NULL`. */
    const det_post_keypoint *keypoints;
    /** Number of masks: of the first detections. 0 of a head without masks; less than
     * `num_detections` where `mask_capacity_bytes` was reached. */
    size_t num_masks;
    /** The masks, or `NULL`. */
    const det_post_mask *masks;
    /** Number of `mask_words`. */
    size_t num_mask_words;
    /** The bits of all masks, or `NULL`. */
    const uint32_t *mask_words;
    /** Width of the image that masks are of; 0 of a head without masks. */
    uint32_t mask_image_width;
    /** Height of that image. */
    uint32_t mask_image_height;
};

/** The duration of a stage. */
struct det_post_stage_time {
    /** Name of the stage, such as `letterbox`. Valid for ever. */
    const char *name;
    /** Its duration in nanoseconds. */
    uint64_t duration_ns;
};

/** A counter of what a frame lost, or of unexpected data. */
struct det_post_counter {
    /** Its name, such as `candidates_over_capacity`. Valid for ever. */
    const char *name;
    /** Its value. */
    uint64_t value;
};

/** Bytes that a stage copied. */
struct det_post_copied_bytes {
    /** Name of the stage. Valid for ever. */
    const char *stage;
    /** `host_copy`, `upload` or `download`. Valid for ever. */
    const char *transfer;
    /** Their number. */
    uint64_t num_bytes;
};

/** What a detector has measured and counted in its last frame, and its state. */
struct det_post_report {
    /** The stages that ran, in their order, and the whole frame as `total`. */
    const det_post_stage_time *stages;
    /** Number of `stages`. */
    size_t num_stages;
    /** All counters; `docs/limits.md` explains them. */
    const det_post_counter *counters;
    /** Number of `counters`. */
    size_t num_counters;
    /** Copies of more than 0 bytes. */
    const det_post_copied_bytes *copies;
    /** Number of `copies`. */
    size_t num_copies;
    /** State of the device: `good`, `rebuilding`, `backing_off`, `lost` or `on_fallback`. Valid for
     * ever. */
    const char *health;
    /** Failures of the device since the detector was opened. */
    uint64_t num_failures;
    /** Message of the last failure of the device, or `NULL`. */
    const char *last_failure;
};

/** An open detector: a channel of a configuration, its networks and its memory. */
struct det_post_detector {
    /** Its number; 0 is never a detector. */
    uint64_t id;
};

/** An input of a detector. */
struct det_post_input_info {
    /** One of `DET_POST_INPUT_…`. An input of images also takes the other of raw and compressed
     * images. */
    uint32_t kind;
    /** 1 if the detector uses the calibration of the camera, else 0. */
    uint32_t wants_calibration;
    /** Topic in the configuration. */
    const char *topic;
    /** Topic of the calibration in the configuration, or `NULL`. */
    const char *camera_info_topic;
    /** The frame in which the detector asks for the pose of the sensor, or `NULL`. */
    const char *pose_in;
};

/** What a detector is. Valid until the detector is closed. */
struct det_post_detector_info {
    /** Name of the channel. */
    const char *channel;
    /** The device when the detector was opened, such as `cpu` or `cuda:0 (NVIDIA H200)`. */
    const char *device;
    /** Name and version of the engine that runs the network. */
    const char *engine;
    /** Topic of the detections in the configuration. */
    const char *output_topic;
    /** Name of the message type of that topic in the configuration, such as
     * `vision_msgs/msg/Detection3DArray`. */
    const char *output_type;
    /** Names of the classes by `class_id`. */
    const char *const *class_names;
    /** Number of `class_names`. */
    size_t num_classes;
    /** The inputs, in the order of a frame. */
    const det_post_input_info *inputs;
    /** Number of `inputs`. */
    size_t num_inputs;
    /** Position of the reference input. */
    size_t reference;
};

/** An open workspace: a device, and the memory of operations on it. For parallel work, open one
 * per thread. */
struct det_post_workspace {
    /** Its number; 0 is never a workspace. */
    uint64_t id;
};

/** How boxes are suppressed. In host memory, whatever the device. Set what is not used to 0. */
struct det_post_suppression {
    /** One of `DET_POST_SUPPRESS_…`. */
    uint32_t kind;
    /** One of `DET_POST_CLASSES_…`. */
    uint32_t class_mode;
    /** Of `DET_POST_CLASSES_GROUPS`: the group of each class. */
    const uint32_t *class_groups;
    /** Number of `class_groups`. */
    size_t num_class_groups;
    /** What a box is suppressed above (circles: below): one for all classes or, for boxes in
     * space, one per class; the class of the better box decides. Not read by `…_SOFT_GAUSSIAN`. */
    const float *thresholds;
    /** Number of `thresholds`. */
    size_t num_thresholds;
    /** Of `…_IOU` and `…_SOFT_…`: 0, or 1 for boxes whose corners are whole pixels. */
    uint32_t offset;
    /** Of `…_IOU`: 1 if only boxes with a score above `score_threshold` are eligible, else 0. */
    uint32_t has_score_threshold;
    /** See `has_score_threshold`. */
    float score_threshold;
    /** Of `…_SOFT_GAUSSIAN`: the width of the decay, above 0. */
    float sigma;
    /** Of `…_SOFT_…`: boxes whose score decays below this are dropped, except the top box. */
    float min_score;
    /** Of `…_BEV` and `…_BEV_FAST`: boxes whose centres are farther apart do not suppress each
     * other; 0 is no limit. */
    float search_distance_m;
    /** Of `…_IOU`: the maximum number of kept boxes; 0 is no limit. */
    size_t max_num;
    /** Of `…_BEV` and `…_BEV_FAST`: pairs of classes that do not suppress each other. */
    const uint32_t *forbidden_pairs;
    /** Number of pairs in `forbidden_pairs`. */
    size_t num_forbidden_pairs;
    /** Of `…_BEV_FAST`: pairs of classes that are compared at any distance. */
    const uint32_t *unlimited_pairs;
    /** Number of pairs in `unlimited_pairs`. */
    size_t num_unlimited_pairs;
    /** For later versions; 0. */
    uint64_t reserved[4];
};

/** Boxes with scores, in any order. */
struct det_post_boxes {
    /** `num_boxes` times `box_len` values: 4 of axis-aligned boxes (x1, y1, x2, y2), 5 of rotated
     * boxes (cx, cy, width, height, turn of the width from +x towards +y in radians), 7 of boxes
     * in space (x, y, z of the centre, length, width, height, yaw). */
    const float *boxes;
    /** A score per box. */
    const float *scores;
    /** A class per box; `NULL`: all are of class 0. */
    const uint32_t *classes;
    /** Number of boxes, below 2^32. */
    size_t num_boxes;
    /** Values of a box, as the kind of suppression takes them. */
    size_t box_len;
};

/** The boxes that a suppression keeps, best first: score descending, then class, then position. */
struct det_post_survivors {
    /** Positions among the boxes. */
    const int64_t *indices;
    /** Their scores, which `DET_POST_SUPPRESS_SOFT_…` lowers. */
    const float *scores;
    /** Number of survivors. */
    size_t num_survivors;
};

/** The input of a network, into which an image is resized with its aspect ratio. */
struct det_post_letterbox {
    /** Pixels per row of the input. */
    uint32_t width;
    /** Rows of the input. */
    uint32_t height;
    /** One of `DET_POST_PLACE_…`. */
    uint32_t placement;
    /** Order of the planes: 0 for red, green, blue; 1 for blue, green, red. */
    uint32_t is_bgr;
    /** Elements of the input: 0 for float32, 1 for float16. */
    uint32_t is_half;
    /** A value around the image, 0 to 255, before it is normalised. */
    float pad_value;
    /** Per plane: an element is (value - mean) / std, of values from 0 to 255. */
    float mean[3];
    /** See `mean`; not 0. */
    float std[3];
    /** For later versions; 0. */
    uint64_t reserved[4];
};

/** The input of a network: `[1, 3, height, width]`, and how an image is placed in it:
 * `x of the input = scale[0] * x of the image + offset[0]`, likewise y. */
struct det_post_letterboxed {
    /** The elements as float32, or `NULL`. */
    const float *values;
    /** The elements as float16, or `NULL`. */
    const uint16_t *half_values;
    /** Number of elements. */
    size_t num_values;
    /** Pixels of the input per pixel of the image, along x and y. */
    float scale[2];
    /** Position of the image's corner in the input, x and y. */
    float offset[2];
};

/** A grid of voxels and its limits. In host memory, whatever the device. */
struct det_post_voxel_grid {
    /** Edge lengths of a voxel along x, y, z in metres. */
    float voxel_size_m[3];
    /** Smallest x, y, z, then largest, exclusive, in metres. */
    float range_m[6];
    /** The first points that a voxel keeps; 0 is no limit. */
    size_t max_points_per_voxel;
    /** The first voxels that are kept; 0 is no limit. */
    size_t max_voxels;
    /** For later versions; 0. */
    uint64_t reserved[4];
};

/** Points of several values each. */
struct det_post_points {
    /** `num_points` times `num_channels` values: x, y, z first. */
    const float *values;
    /** Number of points, below 2^32. */
    size_t num_points;
    /** Values of a point, 3 to 16. */
    size_t num_channels;
};

/** Points grouped by voxel, in the order of the voxels' first points. */
struct det_post_voxels {
    /** Per voxel, its cell along x, y, z. */
    const uint32_t *cells;
    /** Per voxel, the number of its points, at least 1. */
    const uint32_t *num_points_per_voxel;
    /** Voxel by voxel, the positions of its points, ascending. */
    const uint32_t *point_indices;
    /** Number of voxels. */
    size_t num_voxels;
    /** Number of `point_indices`. */
    size_t num_point_indices;
    /** Points outside the grid. */
    size_t num_out_of_range;
    /** Voxels over `max_voxels`. */
    size_t num_voxels_over_capacity;
    /** Points that their voxel drops, which is full. */
    size_t num_points_over_voxel;
    /** Points whose voxel is over `max_voxels`. */
    size_t num_points_over_voxel_capacity;
};

/** What the outputs of a network of the YOLO family mean. In host memory, whatever the device. */
struct det_post_yolo_decoding {
    /** One of `DET_POST_YOLO_…`. */
    uint32_t layout;
    /** Pixels per row of the network's input. */
    uint32_t input_width;
    /** Rows of the network's input. */
    uint32_t input_height;
    /** Number of classes. */
    uint32_t num_classes;
    /** Boxes with a score of at least this are candidates. */
    float score_threshold;
    /** Of `…_DETR…`: 1 if scores are logits, else 0. */
    uint32_t has_logits;
    /** The maximum number of candidates: the best are kept. */
    size_t capacity;
    /** Of `…_V5_RAW` and `…_X`: the strides, in the order of the outputs. */
    const uint32_t *strides;
    /** Number of `strides`. */
    size_t num_strides;
    /** Of `…_V5_RAW`: stride by stride, width and height of each anchor in pixels of the input. */
    const float *anchors;
    /** Number of anchors per stride. */
    size_t num_anchors;
    /** For later versions; 0. */
    uint64_t reserved[4];
};

/** What the maps of a CenterPoint head mean. In host memory, whatever the device. */
struct det_post_center_decoding {
    /** x and y of the corner of the map in metres: the smallest of the range. */
    float origin_m[2];
    /** Edge lengths of a cell of the map along x and y in metres. */
    float cell_size_m[2];
    /** Per task, the number of its classes, which are numbered in the order of tasks. */
    const uint32_t *num_classes_of_tasks;
    /** Number of tasks. */
    size_t num_tasks;
    /** 1 if heat maps are logits, else 0. */
    uint32_t has_logits;
    /** 1 if sizes are length, width, height; 0 for width, length, height. */
    uint32_t has_length_first;
    /** 1 if sizes are logarithms, else 0. */
    uint32_t has_log_sizes;
    /** 1 if yaws turn clockwise from -y (CenterPoint, Autoware); 0 for counter-clockwise from +x. */
    uint32_t has_clockwise_yaw;
    /** 1 if there are velocities, else 0. */
    uint32_t has_velocity;
    /** 1 if regression maps are followed by as many logarithms of variances, else 0. */
    uint32_t has_variance;
    /** Scores that candidates have at least: one for all classes, or one per class. */
    const float *score_thresholds;
    /** Number of `score_thresholds`. */
    size_t num_score_thresholds;
    /** Per class, the minimum norm of sine and cosine; `NULL` for none. */
    const float *yaw_norm_thresholds;
    /** Number of `yaw_norm_thresholds`. */
    size_t num_yaw_norm_thresholds;
    /** Centres outside are dropped: smallest x, y, z, then largest; all 0: no range. */
    float center_range_m[6];
    /** The maximum number of candidates: the best are kept. */
    size_t capacity;
    /** For later versions; 0. */
    uint64_t reserved[4];
};

/** The anchor of a class. */
struct det_post_anchor_size {
    /** Length, width, height in metres. */
    float size_m[3];
    /** Height of the centre in metres. */
    float center_z_m;
};

/** What the maps of an anchor head mean. In host memory, whatever the device. */
struct det_post_anchor_decoding {
    /** The range of the map: smallest x, y, z, then largest, in metres. */
    float range_m[6];
    /** Per class, its anchor. */
    const det_post_anchor_size *anchors;
    /** Number of `anchors`: of classes. */
    size_t num_anchors;
    /** Yaws of each class's anchors. */
    const float *rotations_rad;
    /** Number of `rotations_rad`. */
    size_t num_rotations;
    /** Angle between the two directions. */
    float direction_offset_rad;
    /** 1 if anchors are at the centres of cells; 0 if the first and last are on the border of the
     * range (OpenPCDet). */
    uint32_t has_centered_anchors;
    /** 1 if maps are `[1, H, W, channels]`; 0 for `[1, channels, H, W]`. */
    uint32_t has_channels_last;
    /** Scores that candidates have at least: one for all classes, or one per class. */
    const float *score_thresholds;
    /** Number of `score_thresholds`. */
    size_t num_score_thresholds;
    /** The maximum number of candidates: the best are kept. */
    size_t capacity;
    /** For later versions; 0. */
    uint64_t reserved[4];
};

/** The boxes that a decoder finds, in the total order: score descending, then class, then
 * position in the network's output. They are what `det_post_workspace_suppress` takes. */
struct det_post_decoded {
    /** `num_candidates` times `box_len` values, as `boxes.boxes`. */
    const float *boxes;
    /** A score per candidate. */
    const float *scores;
    /** A class per candidate. */
    const uint32_t *classes;
    /** A position in the network's output per candidate. */
    const uint32_t *sources;
    /** Per candidate the velocity along x and y in metres per second, or `NULL`. */
    const float *velocities_mps;
    /** Number of candidates. */
    size_t num_candidates;
    /** Values of a box: 4, 5 of rotated boxes, 7 of boxes in space. */
    size_t box_len;
    /** Candidates over the capacity, the worst, which are not among these. */
    size_t num_over_capacity;
    /** Boxes with a score that is NaN, which are not among these. */
    size_t num_nan_scores;
    /** Boxes whose score passes and that are no boxes (a number is not finite, an edge or an
     * extent is reversed), which are not among these. */
    size_t num_invalid_boxes;
    /** Boxes whose score passes and whose class is not below the number of classes, which are
     * not among these. */
    size_t num_unknown_classes;
};

/** Open sites: the active cells of a level of a sparse network, in the memory of the device of the workspace
 * that opened them, in which they are used. They never change, so that any number of rulebooks and calls use
 * them. */
struct det_post_sites {
    /** Their number; 0 is never a number of sites. */
    uint64_t id;
};

/** Rows that sites are made of. Of rows of one cell the first is taken. */
struct det_post_site_rows {
    /** Per row: scene, then the cell along the three axes, in any order of the rows. */
    const int32_t *coordinates;
    /** Number of rows, below 2^32. */
    size_t num_rows;
    /** Number of scenes. */
    uint32_t batch_size;
    /** Cells along the three axes; 1 along those that a level of fewer does not have. */
    uint32_t grid_size[3];
    /** The maximum number of sites, of which the ones in the lowest cells stay; 0 is no limit. */
    size_t max_sites;
    /** For later versions; 0. */
    uint64_t reserved[4];
};

/** What sites are. Valid until they are closed. */
struct det_post_sites_info {
    /** Per site: scene, then the cell along the three axes, ascending: the order of the rows of features. */
    const int32_t *coordinates;
    /** Per site the row of the coordinates that it comes from; `NULL` for the output of a rulebook. */
    const int64_t *rows;
    /** Number of sites. */
    size_t num_sites;
    /** Number of rows that they were made of; 0 for the output of a rulebook. */
    size_t num_rows;
    /** Number of scenes. */
    uint32_t batch_size;
    /** Cells along the three axes. */
    uint32_t grid_size[3];
    /** Rows outside the grid or the batch, which are left out. */
    size_t num_outside;
    /** Rows at a cell that an earlier one has, which are left out. */
    size_t num_duplicates;
    /** Sites over `max_sites`, which are left out. */
    size_t num_over_capacity;
};

/** An open rulebook: which sites a convolution or pooling joins, for any number of layers. It never changes
 * and keeps its sites, which may be closed. */
struct det_post_rulebook {
    /** Its number; 0 is never a rulebook. */
    uint64_t id;
};

/** The geometry of a rulebook. Axes are in the order of the coordinates. Convolutions are
 * cross-correlations: kernels are not flipped. */
struct det_post_sparse_geometry {
    /** One of `DET_POST_SPARSE_…`. */
    uint32_t mode;
    /** Taps per axis, 1 to 15. */
    uint32_t kernel[3];
    /** Cells of the input from one output cell to the next. */
    uint32_t stride[3];
    /** Cells added in front of and behind the input. */
    uint32_t padding[3];
    /** Cells of the input from one tap to the next. */
    uint32_t dilation[3];
    /** Of `…_TRANSPOSED`: cells added behind the output. */
    uint32_t output_padding[3];
    /** The maximum number of sites of the output, of which the ones in the lowest cells stay; 0 is no limit.
     * Not read of `…_SUBMANIFOLD`. */
    size_t max_sites;
    /** For later versions; 0. */
    uint64_t reserved[4];
};

/** Open weights of a sparse convolution, packed for the device of the workspace that opened them, with the
 * result of their last call: open them per layer. */
struct det_post_sparse_weights {
    /** Their number; 0 is never a number of weights. */
    uint64_t id;
};

/** The parameters of a sparse convolution. Arrays are in host memory, whatever the device, finite, and may
 * change after the call. */
struct det_post_sparse_parameters {
    /** One of `DET_POST_PRECISION_…`. Sums are float32 always. */
    uint32_t precision;
    /** Channels of the output, 1 to 4096. */
    size_t num_output_channels;
    /** Taps of the kernel. */
    size_t num_taps;
    /** Channels of the input, 1 to 4096. */
    size_t num_input_channels;
    /** `[output channels, taps, input channels]` as spconv 2 stores them, where tap k0, k1, k2 of a kernel is
     * number `(k0 * kernel[1] + k1) * kernel[2] + k2`. */
    const float *weights;
    /** `[output channels]`, or `NULL`. */
    const float *bias;
    /** `[output channels]` that sum and bias are multiplied by, as a batch normalization does; or `NULL`. Folded
     * into weights and bias with one rounding. */
    const float *scale;
    /** `[output channels]` that are added after `scale`, or `NULL`. */
    const float *shift;
    /** For later versions; 0. */
    uint64_t reserved[4];
};

/** Features of sites. */
struct det_post_sparse_features {
    /** `[rows, channels]`. */
    const float *features;
    /** As many as there are sites or, with `…_COORDINATES`, rows that they were made of. */
    size_t num_rows;
    /** Number of channels. */
    size_t num_channels;
    /** One of `DET_POST_ORDER_…`. */
    uint32_t order;
    /** For later versions; 0. */
    uint32_t reserved;
};

/** Features that an operation has made. */
struct det_post_sparse_result {
    /** `[sites, channels]`, in the order of the sites of the rulebook's output. */
    const float *features;
    /** Number of sites. */
    size_t num_sites;
    /** Number of channels. */
    size_t num_channels;
};

/** The pairs of a rulebook. */
struct det_post_sparse_pairs {
    /** `[taps, sites of the output]`: the row of the input, -1 where there is no site. */
    const int32_t *table;
    /** Per tap the number of pairs, in host memory, whatever the device. */
    const size_t *num_pairs;
    /** Number of taps. */
    size_t num_taps;
    /** Number of sites of the output. */
    size_t num_sites;
    /** Number of sites of the input. */
    size_t num_input_sites;
};

/** A dense map, 0 at cells without a site. */
struct det_post_sparse_map {
    /** Feature c at depth d is in channel `c * depth + d`. */
    const float *values;
    /** Scenes, channels times depth, rows, columns. */
    size_t shape[4];
};

/** A sparse convolution of a layer. */
struct det_post_sparse_convolution {
    /** Which sites it joins. */
    det_post_rulebook rulebook;
    /** Its weights, of as many taps. */
    det_post_sparse_weights weights;
    /** `[sites of the output, output channels]` that are added before the ReLU, or `NULL`. */
    const float *residual;
    /** 1 if negative results become 0, else 0. */
    uint32_t has_relu;
    /** For later versions; 0. */
    uint32_t reserved;
};

/** How features become a dense map. */
struct det_post_sparse_mapping {
    /** The sites of the features. */
    det_post_sites sites;
    /** The axes of the grid that become depth, row and column: 0, 1, 2 in some order. */
    uint32_t axes[3];
    /** For later versions; 0. */
    uint32_t reserved;
};

/** An open view decoder: the networks of a surround channel behind its backbone (DETR3D, Sparse4D,
 * StreamPETR), and their memory of past frames. */
struct det_post_view_decoder {
    /** Its number; 0 is never a view decoder. */
    uint64_t id;
};

/** What a view decoder is. Valid until it is closed. */
struct det_post_view_decoder_info {
    /** Names of the classes. */
    const char *const *class_names;
    /** Number of `class_names`. */
    size_t num_classes;
    /** Number of cameras. */
    size_t num_cameras;
    /** Number of feature maps of a frame. */
    size_t num_maps;
    /** Number of queries. */
    size_t num_queries;
    /** Numbers of a box. */
    size_t box_len;
    /** Width of the network's images, to whose pixels matrices lead. */
    uint32_t input_width;
    /** Height of the network's images. */
    uint32_t input_height;
    /** 1 if queries have logits of centreness and yawness, else 0. */
    uint32_t has_quality;
    /** 1 if frames use those before, else 0. */
    uint32_t has_memory;
    /** 1 if intrinsic matrices and every camera are required (heads of kind streampetr), else 0. */
    uint32_t needs_intrinsics;
    /** 1 if maps and queries are in the memory of a GPU, else 0. */
    uint32_t is_on_device;
};

/** A camera of the next frames. */
struct det_post_view_camera {
    /** Three rows of four: from a point of the base frame in metres to (u * z, v * z, z), u and v in pixels of
     * the network's image. */
    double image_from_base[12];
    /** Three rows of three: the intrinsic matrix of the network's image; not read where it is not
     * needed. */
    double intrinsics[9];
    /** 1 if maps have it; 0 for a camera that is missing, whose maps are not read. */
    uint32_t is_present;
    /** For later versions; 0. */
    uint32_t reserved;
};

/** The motion of the vehicle since the frame before. */
struct det_post_view_motion {
    /** Seconds between the frames, above 0. */
    double interval_s;
    /** Four rows of four: from the base frame of the frame before to the current one. */
    double current_from_past[16];
};

/** All queries of a frame, before any threshold, in the memory of the decoder's device. */
struct det_post_queries {
    /** `[queries, box_len]`. 11 numbers of DETR3D and Sparse4D: centre in metres, logarithms of three
     * extents in metres, sine and cosine of the yaw, velocity x, y, z in metres per second. 10 of
     * StreamPETR, as its head gives them. */
    const float *boxes;
    /** Class logits, `[queries, classes]`. */
    const float *logits;
    /** Logits of centreness and yawness, `[queries, 2]`; or `NULL`. */
    const float *quality;
    /** Number of queries. */
    size_t num_queries;
    /** Numbers of a box. */
    size_t box_len;
    /** Number of classes. */
    size_t num_classes;
};

/** A tensor of a memory of past frames, in host memory. */
struct det_post_view_memory_part {
    /** `boxes`, `features` and `confidence` of Sparse4D; `embedding`, `reference_point`, `pose`,
     * `velocity` and `age` of StreamPETR. */
    const char *name;
    /** Row by row. */
    const float *values;
    /** Number of `values`. */
    size_t num_values;
    /** Number of rows; not read by `det_post_view_decoder_set_memory`. */
    size_t num_rows;
};

/** A memory of past frames. */
struct det_post_view_memory {
    /** Its tensors. */
    const det_post_view_memory_part *parts;
    /** Number of `parts`; 0 for none. */
    size_t num_parts;
};

/** Quality of service of a topic: the last `depth` messages are kept. */
struct det_post_qos {
    /** Messages that are kept for a slow reader. */
    size_t depth;
    /** 1 reliable, 0 best effort. */
    uint32_t is_reliable;
    /** 1 transient local, 0 volatile. */
    uint32_t is_transient_local;
};

/** The ROS graph of a node in the process of the caller: functions that create and use its
 * subscriptions and publishers, which have numbers. They are called from any thread, also
 * within `det_post_node_open`, `_change` and `_close`, and must not call functions of the
 * same node. None may be null but `serve_switch`. A function that fails returns a status
 * other than `DET_POST_OK`. */
struct det_post_graph {
    /** First argument of every function. */
    void *context;
    /** Writes the full name of a topic, expanded and remapped, with a 0 behind it, to at most
     * `capacity` bytes, and returns its length. */
    size_t (*resolve)(void *context, const char *topic, char *name, size_t capacity);
    /** Subscribes to a topic of messages of `type_name`, such as `sensor_msgs/msg/Image`. Its
     * messages are given to `det_post_node_deliver` or `det_post_node_deliver_message`. */
    det_post_status (*subscribe)(void *context, uint64_t subscription, const char *topic, const char *type_name, det_post_qos qos);
    /** Ends a subscription. */
    void (*unsubscribe)(void *context, uint64_t subscription);
    /** Number of publishers on the topic of a subscription. */
    size_t (*num_publishers)(void *context, uint64_t subscription);
    /** Advertises a topic of messages of `type_name`. */
    det_post_status (*advertise)(void *context, uint64_t publisher, const char *topic, const char *type_name, det_post_qos qos);
    /** Ends a publisher; at the latest when the node is closed. */
    void (*unadvertise)(void *context, uint64_t publisher);
    /** Number of subscribers on the topic of a publisher; called once per frame. */
    size_t (*num_subscribers)(void *context, uint64_t publisher);
    /** Publishes a message: CDR in little endian, with its encapsulation header. */
    det_post_status (*publish)(void *context, uint64_t publisher, const uint8_t *message, size_t num_bytes);
    /** Serves `std_srvs/srv/SetBool` under a name until the node is closed; a request is given
     * to `det_post_node_set_switch`. `NULL`: a configuration with such a service is refused. */
    det_post_status (*serve_switch)(void *context, uint64_t switch_number, const char *name);
    /** For later versions; 0. */
    uint64_t reserved[3];
};

/** A live node: all channels of a configuration, with life cycle and diagnostics, in the ROS
 * graph of the caller. It behaves as the program `det_post run` does. */
struct det_post_node {
    /** Its number; 0 is never a node. */
    uint64_t id;
};

/** A parameter of a node, as `rcl_interfaces` describes it. */
struct det_post_parameter {
    /** Name. */
    const char *name;
    /** What it means, with its unit. */
    const char *description;
    /** Its allowed values. */
    const char *allowed;
    /** 1 if it is fixed when the node is opened, else 0. */
    uint32_t is_read_only;
    /** Type of the value, by its number in `rcl_interfaces/msg/ParameterType`: 0 not set, 1
     * `flag`, 2 `integer`, 3 `number`, 4 `text`, 8 `numbers`, 9 `texts`. */
    uint32_t value_type;
    /** 0 or 1. */
    uint32_t flag;
    /** An integer. */
    int64_t integer;
    /** A floating-point number. */
    double number;
    /** A text. */
    const char *text;
    /** Floating-point numbers. */
    const double *numbers;
    /** Texts. */
    const char *const *texts;
    /** Number of `numbers` or `texts`. */
    size_t num_values;
};

/** The version of the ABI that the library has. */
uint32_t det_post_abi_version(void);

/** The version of the library, such as `0.1.0`. Valid for ever. */
const char *det_post_version(void);

/** The message of the last call that failed: on the object `id` (`detector.id`), or,
 * if `id` is 0, of this thread among the calls without an object (those that open one or whose
 * object is closed) and the calls on nodes, on which other threads may be in calls as well.
 * Writes at most `capacity` bytes to `buffer`, the last of them 0, and returns the length of the
 * whole message, without that 0: 0 if no call has failed. `buffer` may be `NULL` if `capacity`
 * is 0. Can be called while another thread uses the object. */
size_t det_post_error_message(uint64_t id, char *buffer, size_t capacity);

/** The name of a status, such as `unsupported_encoding`: what reports count dropped frames
 * under. `unknown` for other numbers. Valid for ever. */
const char *det_post_status_name(det_post_status status);

/** Passes the log of the library to a function, in place of the one before: its entries from
 * `level` on, and entries of the libraries that it uses from `DET_POST_LOG_WARN` on. `NULL` ends
 * the log; without a call there is none. `target` is the module that an entry is from, such as
 * `det_post::node`; `message` is UTF-8 with control characters escaped, and may have several
 * lines.
 * 
 * The function is called from any thread, also from several at a time and within calls of the
 * library. It must not wait for other threads that use the library, and entries that it
 * causes itself are left out. When this function returns, the one before is not called any
 * more; it cannot be called by the function of the log. */
det_post_status det_post_set_log(void (*function)(void *context, uint32_t level, const char *target, const char *message), void *context, uint32_t level);

/** Opens the detector of a configuration: reads its files, opens its device and loads its
 * networks. Close it with `det_post_detector_close`. Any number of detectors may be open, on
 * any devices. */
det_post_status det_post_detector_open(const det_post_configuration *configuration, det_post_detector *detector);

/** Closes a detector and frees its memory. If another thread is in a call on it, that call ends
 * as usual; every later one fails with `DET_POST_ERROR_HANDLE`. */
det_post_status det_post_detector_close(det_post_detector detector);

/** What a detector is. `info` points to memory of the detector. */
det_post_status det_post_detector_describe(det_post_detector detector, const det_post_detector_info **info);

/** Detects the objects of a frame. `found` points to memory of the detector, valid until the
 * next `det_post_detector_detect`, or until the detector is closed. An error drops the frame;
 * the detector remains usable. If the stamps of frames start over, the detector is reset. */
det_post_status det_post_detector_detect(det_post_detector detector, const det_post_frame *frame, const det_post_detections **found);

/** Durations and counters of the last frame, and the state of the device. `report` points to
 * memory of the detector, valid until the next `det_post_detector_report`, or until the
 * detector is closed. */
det_post_status det_post_detector_report(det_post_detector detector, const det_post_report **report);

/** Sets parameters that may change between frames, such as thresholds, by assignments
 * `key:=value`: all or none. A parameter that is fixed when the detector is opened is refused. */
det_post_status det_post_detector_reconfigure(det_post_detector detector, const char *const *overrides, size_t num_overrides);

/** Discards past frames and stamped transforms, for a clock that starts over. Static transforms
 * and calibrations stay. */
det_post_status det_post_detector_reset(det_post_detector detector);

/** Runs the networks once on an empty frame, so that the first frame is not slower than others. */
det_post_status det_post_detector_warm_up(det_post_detector detector);

/** Sets the calibration of the camera of an input, which later frames use. */
det_post_status det_post_detector_set_calibration(det_post_detector detector, size_t input, const det_post_camera_calibration *calibration);

/** Adds transforms to the detector's buffer, from which it takes the poses of sensors at the
 * stamps of their data: interpolated between two transforms, never extrapolated. A detector
 * that asks for a pose (`input_info.pose_in`) needs the transforms around the stamp of a frame
 * before the frame. At most 10 s before the newest transform of a frame are kept. */
det_post_status det_post_detector_add_transforms(det_post_detector detector, const det_post_transform *transforms, size_t num_transforms);

/** Opens a workspace on a device: `cpu` or `cuda:N`. The arrays that an operation reads are in the
 * memory of that device; so are its results, which are memory of the workspace and valid until
 * the next call of the same function on it, or until the workspace is closed. Structs are in host
 * memory, whatever the device. On a GPU the tensors of decoders begin at multiples of 16 bytes.
 * Close it with `det_post_workspace_close`. */
det_post_status det_post_workspace_open(const char *device, det_post_workspace *workspace);

/** Closes a workspace and frees its memory. If another thread is in a call on it, that call ends
 * as usual. */
det_post_status det_post_workspace_close(det_post_workspace workspace);

/** Sets the CUDA stream (`cudaStream_t` or `CUstream`) of a workspace on a GPU; without this call
 * and for `NULL` it is the default stream. An operation begins after the work that is queued
 * there when it is called. Its result is ready for work that is queued there after the call, and
 * is not overwritten by a later call before that work is done. */
det_post_status det_post_workspace_set_stream(det_post_workspace workspace, void *stream);

/** Suppresses boxes. A box with a value that is not finite, or a score that is NaN, is neither
 * kept nor suppresses others. */
det_post_status det_post_workspace_suppress(det_post_workspace workspace, const det_post_suppression *suppression, const det_post_boxes *boxes, const det_post_survivors **survivors);

/** Resizes and normalises an image, of any encoding that detectors take, to the input of a
 * network, in one pass. */
det_post_status det_post_workspace_letterbox(det_post_workspace workspace, const det_post_letterbox *letterbox, const det_post_image *image, const det_post_letterboxed **letterboxed);

/** Groups points into the voxels of a grid. On a GPU up to 2^22 - 1 points, of which a voxel keeps
 * up to 256, or all. */
det_post_status det_post_workspace_voxelize(det_post_workspace workspace, const det_post_voxel_grid *grid, const det_post_points *points, const det_post_voxels **voxels);

/** Decodes the outputs of a network of the YOLO family or of a DETR, float32 or float16, in the
 * order of the layout, to boxes in pixels of the network's input. */
det_post_status det_post_workspace_decode_yolo(det_post_workspace workspace, const det_post_yolo_decoding *decoding, const det_post_tensor *tensors, size_t num_tensors, const det_post_decoded **decoded);

/** Decodes the maps of a CenterPoint head, `[1, channels, H, W]`, float32 or float16. Tensors
 * task by task: heat map, offset, height, size, rotation and, with `has_velocity`, velocity. */
det_post_status det_post_workspace_decode_center(det_post_workspace workspace, const det_post_center_decoding *decoding, const det_post_tensor *tensors, size_t num_tensors, const det_post_decoded **decoded);

/** Decodes the maps of an anchor head, float32 or float16. Tensors: class logits, boxes and, if
 * there are any, logits of directions. */
det_post_status det_post_workspace_decode_anchor(det_post_workspace workspace, const det_post_anchor_decoding *decoding, const det_post_tensor *tensors, size_t num_tensors, const det_post_decoded **decoded);

/** Opens the sites of rows of coordinates. Close them with `det_post_sites_close`. */
det_post_status det_post_sites_open(det_post_workspace workspace, const det_post_site_rows *rows, det_post_sites *sites);

/** Closes sites. Their memory is freed once no rulebook has them; on a GPU it serves later objects of the
 * workspace, and is freed with the last of them and the workspace. */
det_post_status det_post_sites_close(det_post_sites sites);

/** What sites are: their cells, and what became of the rows that they were made of. */
det_post_status det_post_sites_get_info(det_post_sites sites, const det_post_sites_info **info);

/** Opens the rulebook of a geometry from sites, in their workspace. Without `max_sites` there is memory for as
 * many sites as the taps of all sites of the input can reach. Close it with `det_post_rulebook_close`. */
det_post_status det_post_rulebook_open(det_post_sites sites, const det_post_sparse_geometry *geometry, det_post_rulebook *rulebook);

/** Opens the inverse of a strided rulebook: from the sites of its output back to the sites of its input, with the
 * same pairs at the same taps. Close it with `det_post_rulebook_close`. */
det_post_status det_post_rulebook_open_inverse(det_post_rulebook of, det_post_rulebook *rulebook);

/** Closes a rulebook. Its memory is freed as with `det_post_sites_close`. */
det_post_status det_post_rulebook_close(det_post_rulebook rulebook);

/** Opens the sites of a rulebook's output, for the rulebooks of the next layers: a further number of the
 * same sites. Close them with `det_post_sites_close`. */
det_post_status det_post_rulebook_get_sites(det_post_rulebook rulebook, det_post_sites *sites);

/** Opens the weights of a sparse convolution. Close them with `det_post_sparse_weights_close`. */
det_post_status det_post_sparse_weights_open(det_post_workspace workspace, const det_post_sparse_parameters *parameters, det_post_sparse_weights *weights);

/** Closes weights, with the result of their last call. */
det_post_status det_post_sparse_weights_close(det_post_sparse_weights weights);

/** Convolves features of the sites of a rulebook's input. Never waits on a GPU. The result is memory of the
 * weights, valid until the next call with them. */
det_post_status det_post_workspace_sparse_convolve(det_post_workspace workspace, const det_post_sparse_convolution *convolution, const det_post_sparse_features *features, const det_post_sparse_result **result);

/** The largest features of the sites that a rulebook joins to each site of its output. A cell without a site
 * counts as 0, as in spconv; a NaN stays. Never waits on a GPU. */
det_post_status det_post_workspace_sparse_max_pool(det_post_workspace workspace, det_post_rulebook rulebook, const det_post_sparse_features *features, const det_post_sparse_result **result);

/** Writes features to the cells of their sites in a dense map. Never waits on a GPU. */
det_post_status det_post_workspace_sparse_to_map(det_post_workspace workspace, const det_post_sparse_mapping *mapping, const det_post_sparse_features *features, const det_post_sparse_map **map);

/** The pairs of a rulebook, to be looked at. Waits on a GPU. */
det_post_status det_post_workspace_sparse_pairs(det_post_workspace workspace, det_post_rulebook rulebook, const det_post_sparse_pairs **pairs);

/** Opens the view decoder of a surround channel of a configuration, on the channel's `device`. Its
 * `model_path`, the backbone, is not read, unless a head of kind streampetr states no number of cameras
 * or no size of images. Close it with `det_post_view_decoder_close`. */
det_post_status det_post_view_decoder_open(const det_post_configuration *configuration, det_post_view_decoder *decoder);

/** Closes a view decoder and frees its memory. If another thread is in a call on it, that call ends as
 * usual. */
det_post_status det_post_view_decoder_close(det_post_view_decoder decoder);

/** The lengths of the arrays of a view decoder. */
det_post_status det_post_view_decoder_get_info(det_post_view_decoder decoder, const det_post_view_decoder_info **info);

/** Sets the CUDA stream (`cudaStream_t` or `CUstream`) of a view decoder on a GPU, as
 * `det_post_workspace_set_stream` does. */
det_post_status det_post_view_decoder_set_stream(det_post_view_decoder decoder, void *stream);

/** Sets the cameras of the next frames: before the first one, after a change of calibration, and when one is
 * missing. */
det_post_status det_post_view_decoder_set_cameras(det_post_view_decoder decoder, const det_post_view_camera *cameras, size_t num_cameras);

/** Decodes a frame: the outputs of the backbone in its order, float32, float16 or, with the configuration's
 * `decoder.map_scales`, int8; `[cameras, C, H, W]` or in the head's `feature_layout`, in the memory of the
 * decoder's device. Maps channels last or in blocks of 32 channels are read where they are. `motion` is
 * `NULL` for a first frame, which begins with an empty memory; a frame that fails empties it, too. The
 * result is valid until the next call of this function. */
det_post_status det_post_view_decoder_run(det_post_view_decoder decoder, const det_post_tensor *maps, size_t num_maps, const det_post_view_motion *motion, const det_post_queries **queries);

/** A copy of the memory of the last frame in host memory, without parts where there is none. Valid until the
 * next call of this function. */
det_post_status det_post_view_decoder_get_memory(det_post_view_decoder decoder, const det_post_view_memory **memory);

/** Replaces the memory by a copy that `det_post_view_decoder_get_memory` gave for a decoder of the same files;
 * without parts, the decoder forgets past frames. */
det_post_status det_post_view_decoder_set_memory(det_post_view_decoder decoder, const det_post_view_memory *memory);

/** Opens a live node in the graph of the caller, as `det_post run` opens one: parameters and
 * diagnostics, no network. `configuration.channel` is not read. Close it with
 * `det_post_node_close`. */
det_post_status det_post_node_open(const det_post_configuration *configuration, const det_post_graph *graph, det_post_node *node);

/** Shuts a node down and closes it: no function of its graph is called afterwards. Calls of
 * other threads on it end first, and are waited for; later ones fail with
 * `DET_POST_ERROR_HANDLE`. A frame that takes longer than 1 s ends unpublished, in a thread
 * that is not waited for. */
det_post_status det_post_node_close(det_post_node node);

/** Changes the state of a node and waits for the result. `transition` is the number of
 * `lifecycle_msgs/msg/Transition`: 1 configure, 2 cleanup, 3 activate, 4 deactivate, 5
 * shutdown. */
det_post_status det_post_node_change(det_post_node node, uint32_t transition);

/** Delivers a message of a subscription by pointer: an image, a point cloud or tensors in host
 * memory. It is copied once. A message whose sizes contradict each other, or with a text that
 * is not UTF-8, is counted as refused, as in the program; one for a subscription that has ended
 * is dropped. */
det_post_status det_post_node_deliver(det_post_node node, uint64_t subscription, const det_post_input *message);

/** Delivers a message of any subscription as CDR with its encapsulation header. */
det_post_status det_post_node_deliver_message(det_post_node node, uint64_t subscription, const uint8_t *message, size_t num_bytes);

/** The parameters of a node by name, with their present values. `parameters` points to memory
 * of the node, valid until the next `det_post_node_parameters`, or until the node is closed. */
det_post_status det_post_node_parameters(det_post_node node, const det_post_parameter **parameters, size_t *num_parameters);

/** Sets parameters by assignments `key:=value`, all or none, as `set_parameters_atomically`
 * does. */
det_post_status det_post_node_set_parameters(det_post_node node, const char *const *overrides, size_t num_overrides);

/** Sets a switch of `serve_switch` on (1) or off (0). A switch that refuses is
 * `DET_POST_ERROR_CONFIG`, with its message. */
det_post_status det_post_node_set_switch(det_post_node node, uint64_t switch_number, uint32_t is_on);

#ifdef __cplusplus
}
#endif

#endif
