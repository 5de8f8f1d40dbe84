"""ROS 2 messages as a DDS implementation of its own sees them: CycloneDDS's IDL types,
with the type names that ROS gives them on the wire."""

from dataclasses import fields, is_dataclass

from cyclonedds.idl import make_idl_struct
from cyclonedds.idl.types import (
    array,
    float32,
    float64,
    int32,
    int64,
    sequence,
    uint8,
    uint16,
    uint32,
    uint64,
)


def ros(name):
    """Makes the ROS type `package/msg/Name` of a class's annotations."""

    def decorate(cls):
        BY_NAME[name] = make_idl_struct(cls.__name__, wire_name(name), cls.__annotations__)
        return BY_NAME[name]

    return decorate


def wire_name(name, suffix=""):
    """What ROS calls a type on the wire, with dots for colons."""
    space, last = name.rsplit("/", 1)
    return f"{space.replace('/', '.')}.dds_.{last}{suffix}_"


BY_NAME = {}


@ros("builtin_interfaces/msg/Time")
class Time:
    sec: int32
    nanosec: uint32


@ros("std_msgs/msg/Header")
class Header:
    stamp: Time
    frame_id: str


@ros("sensor_msgs/msg/Image")
class Image:
    header: Header
    height: uint32
    width: uint32
    encoding: str
    is_bigendian: uint8
    step: uint32
    data: sequence[uint8]


@ros("sensor_msgs/msg/CompressedImage")
class CompressedImage:
    header: Header
    format: str
    data: sequence[uint8]


@ros("sensor_msgs/msg/PointField")
class PointField:
    name: str
    offset: uint32
    datatype: uint8
    count: uint32


@ros("sensor_msgs/msg/PointCloud2")
class PointCloud2:
    header: Header
    height: uint32
    width: uint32
    fields: sequence[PointField]
    is_bigendian: bool
    point_step: uint32
    row_step: uint32
    data: sequence[uint8]
    is_dense: bool


@ros("sensor_msgs/msg/RegionOfInterest")
class RegionOfInterest:
    x_offset: uint32
    y_offset: uint32
    height: uint32
    width: uint32
    do_rectify: bool


@ros("sensor_msgs/msg/CameraInfo")
class CameraInfo:
    header: Header
    height: uint32
    width: uint32
    distortion_model: str
    d: sequence[float64]
    k: array[float64, 9]
    r: array[float64, 9]
    p: array[float64, 12]
    binning_x: uint32
    binning_y: uint32
    roi: RegionOfInterest


@ros("rosgraph_msgs/msg/Clock")
class Clock:
    clock: Time


@ros("geometry_msgs/msg/Vector3")
class Vector3:
    x: float64
    y: float64
    z: float64


@ros("geometry_msgs/msg/Point")
class Point:
    x: float64
    y: float64
    z: float64


@ros("geometry_msgs/msg/Quaternion")
class Quaternion:
    x: float64
    y: float64
    z: float64
    w: float64


@ros("geometry_msgs/msg/Transform")
class Transform:
    translation: Vector3
    rotation: Quaternion


@ros("geometry_msgs/msg/TransformStamped")
class TransformStamped:
    header: Header
    child_frame_id: str
    transform: Transform


@ros("tf2_msgs/msg/TFMessage")
class TFMessage:
    transforms: sequence[TransformStamped]


@ros("geometry_msgs/msg/Pose")
class Pose:
    position: Point
    orientation: Quaternion


@ros("geometry_msgs/msg/PoseWithCovariance")
class PoseWithCovariance:
    pose: Pose
    covariance: array[float64, 36]


@ros("vision_msgs/msg/ObjectHypothesis")
class ObjectHypothesis:
    class_id: str
    score: float64


@ros("vision_msgs/msg/ObjectHypothesisWithPose")
class ObjectHypothesisWithPose:
    hypothesis: ObjectHypothesis
    pose: PoseWithCovariance


@ros("vision_msgs/msg/Point2D")
class Point2D:
    x: float64
    y: float64


@ros("vision_msgs/msg/Pose2D")
class Pose2D:
    position: Point2D
    theta: float64


@ros("vision_msgs/msg/BoundingBox2D")
class BoundingBox2D:
    center: Pose2D
    size_x: float64
    size_y: float64


@ros("vision_msgs/msg/BoundingBox3D")
class BoundingBox3D:
    center: Pose
    size: Vector3


@ros("vision_msgs/msg/Detection2D")
class Detection2D:
    header: Header
    results: sequence[ObjectHypothesisWithPose]
    bbox: BoundingBox2D
    id: str


@ros("vision_msgs/msg/Detection2DArray")
class Detection2DArray:
    header: Header
    detections: sequence[Detection2D]


@ros("vision_msgs/msg/Detection3D")
class Detection3D:
    header: Header
    results: sequence[ObjectHypothesisWithPose]
    bbox: BoundingBox3D
    id: str


@ros("vision_msgs/msg/Detection3DArray")
class Detection3DArray:
    header: Header
    detections: sequence[Detection3D]


@ros("vision_msgs/msg/VisionClass")
class VisionClass:
    class_id: uint16
    class_name: str


@ros("vision_msgs/msg/LabelInfo")
class LabelInfo:
    header: Header
    class_map: sequence[VisionClass]
    threshold: float32


@ros("geometry_msgs/msg/Twist")
class Twist:
    linear: Vector3
    angular: Vector3


@ros("geometry_msgs/msg/TwistWithCovariance")
class TwistWithCovariance:
    twist: Twist
    covariance: array[float64, 36]


@ros("geometry_msgs/msg/TwistStamped")
class TwistStamped:
    header: Header
    twist: Twist


@ros("geometry_msgs/msg/TwistWithCovarianceStamped")
class TwistWithCovarianceStamped:
    header: Header
    twist: TwistWithCovariance


@ros("nav_msgs/msg/Odometry")
class Odometry:
    header: Header
    child_frame_id: str
    pose: PoseWithCovariance
    twist: TwistWithCovariance


@ros("sensor_msgs/msg/Imu")
class Imu:
    header: Header
    orientation: Quaternion
    orientation_covariance: array[float64, 9]
    angular_velocity: Vector3
    angular_velocity_covariance: array[float64, 9]
    linear_acceleration: Vector3
    linear_acceleration_covariance: array[float64, 9]


@ros("geometry_msgs/msg/Point32")
class Point32:
    x: float32
    y: float32
    z: float32


@ros("geometry_msgs/msg/Polygon")
class Polygon:
    points: sequence[Point32]


@ros("autoware_perception_msgs/msg/ObjectClassification")
class ObjectClassification:
    label: uint8
    probability: float32


@ros("autoware_perception_msgs/msg/DetectedObjectKinematics")
class DetectedObjectKinematics:
    pose_with_covariance: PoseWithCovariance
    has_position_covariance: bool
    orientation_availability: uint8
    twist_with_covariance: TwistWithCovariance
    has_twist: bool
    has_twist_covariance: bool


@ros("autoware_perception_msgs/msg/Shape")
class Shape:
    type: uint8
    footprint: Polygon
    dimensions: Vector3


@ros("autoware_perception_msgs/msg/DetectedObject")
class DetectedObject:
    existence_probability: float32
    classification: sequence[ObjectClassification]
    kinematics: DetectedObjectKinematics
    shape: Shape


@ros("autoware_perception_msgs/msg/DetectedObjects")
class DetectedObjects:
    header: Header
    objects: sequence[DetectedObject]


class AutowareAuto:
    """Autoware's objects until 2024-06: the same fields under other names."""

    @ros("autoware_auto_perception_msgs/msg/ObjectClassification")
    class ObjectClassification:
        label: uint8
        probability: float32

    @ros("autoware_auto_perception_msgs/msg/DetectedObjectKinematics")
    class DetectedObjectKinematics:
        pose_with_covariance: PoseWithCovariance
        has_position_covariance: bool
        orientation_availability: uint8
        twist_with_covariance: TwistWithCovariance
        has_twist: bool
        has_twist_covariance: bool

    @ros("autoware_auto_perception_msgs/msg/Shape")
    class Shape:
        type: uint8
        footprint: Polygon
        dimensions: Vector3

    @ros("autoware_auto_perception_msgs/msg/DetectedObject")
    class DetectedObject:
        existence_probability: float32
        classification: sequence[ObjectClassification]
        kinematics: DetectedObjectKinematics
        shape: Shape

    @ros("autoware_auto_perception_msgs/msg/DetectedObjects")
    class DetectedObjects:
        header: Header
        objects: sequence[DetectedObject]


@ros("isaac_ros_tensor_list_interfaces/msg/TensorShape")
class TensorShape:
    rank: uint8
    dims: sequence[uint32]


@ros("isaac_ros_tensor_list_interfaces/msg/Tensor")
class Tensor:
    name: str
    shape: TensorShape
    data_type: int32
    strides: sequence[uint64]
    data: sequence[uint8]


@ros("isaac_ros_tensor_list_interfaces/msg/TensorList")
class TensorList:
    header: Header
    tensors: sequence[Tensor]


@ros("diagnostic_msgs/msg/KeyValue")
class KeyValue:
    key: str
    value: str


@ros("diagnostic_msgs/msg/DiagnosticStatus")
class DiagnosticStatus:
    level: uint8
    name: str
    message: str
    hardware_id: str
    values: sequence[KeyValue]


@ros("diagnostic_msgs/msg/DiagnosticArray")
class DiagnosticArray:
    header: Header
    status: sequence[DiagnosticStatus]


@ros("rmw_dds_common/msg/Gid")
class Gid:
    data: array[uint8, 16]


@ros("rmw_dds_common/msg/NodeEntitiesInfo")
class NodeEntitiesInfo:
    node_namespace: str
    node_name: str
    reader_gid_seq: sequence[Gid]
    writer_gid_seq: sequence[Gid]


@ros("rmw_dds_common/msg/ParticipantEntitiesInfo")
class ParticipantEntitiesInfo:
    gid: Gid
    node_entities_info_seq: sequence[NodeEntitiesInfo]


@ros("rcl_interfaces/msg/ParameterValue")
class ParameterValue:
    type: uint8
    bool_value: bool
    integer_value: int64
    double_value: float64
    string_value: str
    byte_array_value: sequence[uint8]
    bool_array_value: sequence[bool]
    integer_array_value: sequence[int64]
    double_array_value: sequence[float64]
    string_array_value: sequence[str]


@ros("rcl_interfaces/msg/Parameter")
class Parameter:
    name: str
    value: ParameterValue


@ros("rcl_interfaces/msg/ParameterEvent")
class ParameterEvent:
    stamp: Time
    node: str
    new_parameters: sequence[Parameter]
    changed_parameters: sequence[Parameter]
    deleted_parameters: sequence[Parameter]


@ros("rcl_interfaces/msg/SetParametersResult")
class SetParametersResult:
    successful: bool
    reason: str


@ros("rcl_interfaces/msg/FloatingPointRange")
class FloatingPointRange:
    from_value: float64
    to_value: float64
    step: float64


@ros("rcl_interfaces/msg/IntegerRange")
class IntegerRange:
    from_value: int64
    to_value: int64
    step: uint64


@ros("rcl_interfaces/msg/ParameterDescriptor")
class ParameterDescriptor:
    name: str
    type: uint8
    description: str
    additional_constraints: str
    read_only: bool
    dynamic_typing: bool
    floating_point_range: sequence[FloatingPointRange, 1]
    integer_range: sequence[IntegerRange, 1]


@ros("lifecycle_msgs/msg/State")
class State:
    id: uint8
    label: str


@ros("lifecycle_msgs/msg/Transition")
class Transition:
    id: uint8
    label: str


@ros("lifecycle_msgs/msg/TransitionDescription")
class TransitionDescription:
    transition: Transition
    start_state: State
    goal_state: State


@ros("rcl_interfaces/msg/Log")
class Log:
    stamp: Time
    level: uint8
    name: str
    msg: str
    file: str
    function: str
    line: uint32


@ros("rcl_interfaces/msg/LoggerLevel")
class LoggerLevel:
    name: str
    level: uint32


@ros("type_description_interfaces/msg/FieldType")
class FieldType:
    type_id: uint8
    capacity: uint64
    string_capacity: uint64
    nested_type_name: str


@ros("type_description_interfaces/msg/Field")
class Field:
    name: str
    type: FieldType
    default_value: str


@ros("type_description_interfaces/msg/IndividualTypeDescription")
class IndividualTypeDescription:
    type_name: str
    fields: sequence[Field]


@ros("type_description_interfaces/msg/TypeDescription")
class TypeDescription:
    type_description: IndividualTypeDescription
    referenced_type_descriptions: sequence[IndividualTypeDescription]


@ros("type_description_interfaces/msg/TypeSource")
class TypeSource:
    type_name: str
    encoding: str
    raw_file_contents: str


@ros("lifecycle_msgs/msg/TransitionEvent")
class TransitionEvent:
    timestamp: uint64
    transition: Transition
    start_state: State
    goal_state: State


# Services: on the wire of CycloneDDS's ROS, a header goes before request and response.
SERVICES = {
    "std_srvs/srv/SetBool": ({"data": bool}, {"success": bool, "message": str}),
    "yolo_msgs/srv/SetClasses": ({"classes": sequence[str]}, {"nothing": uint8}),
    "rcl_interfaces/srv/ListParameters": (
        {"prefixes": sequence[str], "depth": uint64},
        {"names": sequence[str], "prefixes": sequence[str]},
    ),
    "rcl_interfaces/srv/GetParameters": ({"names": sequence[str]}, {"values": sequence[ParameterValue]}),
    "rcl_interfaces/srv/GetParameterTypes": ({"names": sequence[str]}, {"types": sequence[uint8]}),
    "rcl_interfaces/srv/DescribeParameters": (
        {"names": sequence[str]},
        {"descriptors": sequence[ParameterDescriptor]},
    ),
    "rcl_interfaces/srv/SetParameters": (
        {"parameters": sequence[Parameter]},
        {"results": sequence[SetParametersResult]},
    ),
    "rcl_interfaces/srv/SetParametersAtomically": (
        {"parameters": sequence[Parameter]},
        {"result": SetParametersResult},
    ),
    "rcl_interfaces/srv/GetLoggerLevels": ({"names": sequence[str]}, {"levels": sequence[LoggerLevel]}),
    "rcl_interfaces/srv/SetLoggerLevels": (
        {"levels": sequence[LoggerLevel]},
        {"results": sequence[SetParametersResult]},
    ),
    "lifecycle_msgs/srv/ChangeState": ({"transition": Transition}, {"success": bool}),
    "lifecycle_msgs/srv/GetState": ({"nothing": uint8}, {"current_state": State}),
    "lifecycle_msgs/srv/GetAvailableStates": ({"nothing": uint8}, {"available_states": sequence[State]}),
    "lifecycle_msgs/srv/GetAvailableTransitions": (
        {"nothing": uint8},
        {"available_transitions": sequence[TransitionDescription]},
    ),
    "type_description_interfaces/srv/GetTypeDescription": (
        {"type_name": str, "type_hash": str, "include_type_sources": bool},
        {
            "successful": bool,
            "failure_reason": str,
            "type_description": TypeDescription,
            "type_sources": sequence[TypeSource],
            "extra_information": sequence[KeyValue],
        },
    ),
}

array_kind = type(array[uint8, 1].__metadata__[0])

HEADER = {"client": uint64, "number": int64}


def service_type(name, which):
    """The type of a service's `Request` or `Response` with the header before it."""
    own = SERVICES[name][0 if which == "Request" else 1]
    return make_idl_struct(which, wire_name(name, f"_{which}"), {**HEADER, **own})


def build(kind, value):
    """A sample of `kind` from JSON. A field that is not said is zero or empty."""
    if is_dataclass(kind):
        value = value or {}
        unknown = set(value) - {f.name for f in fields(kind)}
        assert not unknown, f"{kind.__name__} has no {unknown}"
        return kind(**{f.name: build(f.type, value.get(f.name)) for f in fields(kind)})
    if kind is str:
        return value or ""
    if kind is bool:
        return bool(value)
    # Numbers, arrays and sequences are annotated; the latter know their element.
    described = kind.__metadata__[0]
    element = getattr(described, "subtype", None)
    if element is None:
        return value or 0
    if value is None:
        value = [None] * described.length if isinstance(described, array_kind) else []
    return [build(element, item) for item in value]


def plain(value):
    """A sample as JSON."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return list(value)
    return value
