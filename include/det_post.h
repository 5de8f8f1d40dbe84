/* The C ABI of det_post. docs/cpp.md explains it and what it promises.
 *
 * Made from src/capi by `DET_POST_BLESS=1 cargo test --test cli capi::header`: do not edit.
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

/** A compressed picture does not decode. */
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
#define DET_POST_ERROR_STALE 17

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

/** A picture takes more work or time to decode than is allowed. */
#define DET_POST_ERROR_DECODE_LIMIT 24

/** A message is larger than a channel allows. */
#define DET_POST_ERROR_TOO_LARGE 25

/** The calibration of a camera is missing or unusable. */
#define DET_POST_ERROR_UNCALIBRATED 26

/** The calibration of a camera is for images of another size or frame. */
#define DET_POST_ERROR_CALIBRATION_MISMATCH 27

/** A distortion model that is not supported. */
#define DET_POST_ERROR_UNSUPPORTED_DISTORTION 28

/** A pointer is null. */
#define DET_POST_ERROR_NULL 1001

/** No object has this number: it was closed, or never opened, or is of another kind. */
#define DET_POST_ERROR_HANDLE 1002

/** Another thread is in a call on the object. */
#define DET_POST_ERROR_BUSY 1003

/** A fault of the library. An object that it happened to can only be closed. */
#define DET_POST_ERROR_PANIC 1004

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

typedef struct det_post_configuration det_post_configuration;
typedef struct det_post_bytes det_post_bytes;
typedef struct det_post_image det_post_image;
typedef struct det_post_compressed_image det_post_compressed_image;
typedef struct det_post_point_field det_post_point_field;
typedef struct det_post_cloud det_post_cloud;
typedef struct det_post_tensor det_post_tensor;
typedef struct det_post_input det_post_input;
typedef struct det_post_frame det_post_frame;
typedef struct det_post_camera_calibration det_post_camera_calibration;
typedef struct det_post_transform det_post_transform;
typedef struct det_post_detection_2d det_post_detection_2d;
typedef struct det_post_rotated_detection_2d det_post_rotated_detection_2d;
typedef struct det_post_detection_3d det_post_detection_3d;
typedef struct det_post_detections det_post_detections;
typedef struct det_post_stage_time det_post_stage_time;
typedef struct det_post_counter det_post_counter;
typedef struct det_post_copied_bytes det_post_copied_bytes;
typedef struct det_post_report det_post_report;
typedef struct det_post_detector det_post_detector;
typedef struct det_post_input_info det_post_input_info;
typedef struct det_post_detector_info det_post_detector_info;
typedef struct det_post_qos det_post_qos;
typedef struct det_post_graph det_post_graph;
typedef struct det_post_node det_post_node;
typedef struct det_post_parameter det_post_parameter;

/** The parameters of a detector: those of one channel of a node. Of two values for a key the
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

/** Bytes in host memory. */
struct det_post_bytes {
    /** The first byte. */
    const uint8_t *data;
    /** Their number. */
    size_t num_bytes;
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

/** A tensor: dense, row-major, little-endian. */
struct det_post_tensor {
    /** Name in the network. */
    const char *name;
    /** Type of the elements: 1 to 10 for int8, uint8, int16, uint16, int32, uint32, int64,
     * uint64, float32, float64. */
    uint32_t element;
    /** Number of dimensions, up to 8. */
    uint32_t rank;
    /** Lengths of the dimensions. */
    const size_t *shape;
    /** The elements. */
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
};

/** The inputs of one frame, in the order of the configuration. The stamp of the frame is that
 * of the reference input. */
struct det_post_frame {
    /** The inputs. */
    const det_post_input *inputs;
    /** Number of `inputs`: that of the detector. */
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

/** The detections of a frame, in the total order: score descending, then class, then position
 * in the network's output. */
struct det_post_detections {
    /** Stamp of the reference input. */
    int64_t stamp_ns;
    /** Coordinate frame of the detections: that of the reference input, unless the detector has
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
    /** State of the device: `good`, `rebuilding`, `resting`, `lost` or `on_fallback`. Valid for
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
 * same node. None may be null. A function that fails returns a status other than
 * `DET_POST_OK`. */
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
    /** Ends a publisher. */
    void (*unadvertise)(void *context, uint64_t publisher);
    /** Number of subscribers on the topic of a publisher; called once per frame. */
    size_t (*num_subscribers)(void *context, uint64_t publisher);
    /** Publishes a message: CDR in little endian, with its encapsulation header. */
    det_post_status (*publish)(void *context, uint64_t publisher, const uint8_t *message, size_t num_bytes);
    /** For later versions; 0. */
    uint64_t reserved[4];
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
 * if `id` is 0, of this thread among the calls without an object: those that open one or whose
 * object is closed. Writes at most `capacity` bytes to `buffer`, the last of them 0, and
 * returns the length of the whole message, without that 0: 0 if no call has failed. `buffer`
 * may be `NULL` if `capacity` is 0. Can be called while another thread uses the object. */
size_t det_post_error_message(uint64_t id, char *buffer, size_t capacity);

/** The name of a status, such as `unsupported_encoding`: what reports count dropped frames
 * under. `unknown` for other numbers. Valid for ever. */
const char *det_post_status_name(det_post_status status);

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

/** Opens a live node in the graph of the caller, as `det_post run` opens one: parameters and
 * diagnostics, no network. `configuration.channel` is not read. Close it with
 * `det_post_node_close`. */
det_post_status det_post_node_open(const det_post_configuration *configuration, const det_post_graph *graph, det_post_node *node);

/** Shuts a node down and closes it: no function of its graph is called afterwards. If another
 * thread is in a call on it, it is closed with the end of that call. */
det_post_status det_post_node_close(det_post_node node);

/** Changes the state of a node and waits for the result. `transition` is the number of
 * `lifecycle_msgs/msg/Transition`: 1 configure, 2 cleanup, 3 activate, 4 deactivate, 5
 * shutdown. */
det_post_status det_post_node_change(det_post_node node, uint32_t transition);

/** Delivers a message of a subscription by pointer: an image, a point cloud or tensors. It is
 * copied once. A message whose sizes contradict each other is counted as refused, as in the
 * program; one for a subscription that has ended is dropped. */
det_post_status det_post_node_deliver(det_post_node node, uint64_t subscription, const det_post_input *message);

/** Delivers a message of any subscription as CDR with its encapsulation header. */
det_post_status det_post_node_deliver_message(det_post_node node, uint64_t subscription, const uint8_t *message, size_t num_bytes);

/** The parameters of a node by name, with their present values. `parameters` points to memory
 * of the node, valid until the next `det_post_node_parameters`, or until the node is closed. */
det_post_status det_post_node_parameters(det_post_node node, const det_post_parameter **parameters, size_t *num_parameters);

/** Sets parameters by assignments `key:=value`, all or none, as `set_parameters_atomically`
 * does. */
det_post_status det_post_node_set_parameters(det_post_node node, const char *const *overrides, size_t num_overrides);

#ifdef __cplusplus
}
#endif

#endif
