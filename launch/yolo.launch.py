"""yolo_ros with det_post in the place of its yolo_node.

    ros2 launch det_post yolo.launch.py model:=/models/yolov8m.pt input_image_topic:=/camera/image_raw

It takes the arguments of yolo_ros's yolo.launch.py. A network is read from the .onnx beside
the .pt. Tracking, boxes in space and the debug image are nodes of yolo_ros, which are started
where that package is installed.
"""

import os
import shlex
from pathlib import Path

import yaml
from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, LogInfo, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

# Arguments of the detecting node, by the names of its parameters.
PARAMETERS = {
    "model_type": ("YOLO", "Kind of network: YOLO, World or YOLOE."),
    "model": ("yolov8m.pt", "The network, whose exported .onnx is beside it."),
    "device": ("cuda:0", "cuda:0 or cpu; cuda:0 is the CPU where there is no GPU."),
    "fuse_model": ("False", "Accepted; an exported network is fused."),
    "yolo_encoding": ("bgr8", "Accepted; any encoding is converted."),
    "enable": ("True", "Whether frames are detected from the start."),
    "threshold": ("0.5", "Scores above it are detections."),
    "iou": ("0.7", "Boxes that overlap by more are suppressed."),
    "imgsz_height": ("480", "Accepted; the exported network fixes the size."),
    "imgsz_width": ("640", "Accepted; the exported network fixes the size."),
    "half": ("False", "Accepted; the exported network fixes the precision."),
    "max_det": ("300", "Most detections in an image."),
    "augment": ("False", "Accepted; there is no augmentation."),
    "agnostic_nms": ("False", "Whether boxes of different classes suppress each other."),
    "retina_masks": ("False", "Accepted; there are no masks."),
    "image_reliability": ("1", "Of the images: 1 reliable, 2 best effort."),
}

OTHERS = {
    "namespace": ("yolo", "Namespace of the nodes."),
    "input_image_topic": ("/camera/rgb/image_raw", "Topic of the images."),
    "use_tracking": ("True", "Whether tracking_node of yolo_ros is started."),
    "tracker": ("bytetrack.yaml", "Tracker of tracking_node."),
    "use_3d": ("False", "Whether detect_3d_node of yolo_ros is started."),
    "input_depth_topic": ("/camera/depth/image_raw", "Topic of the depth images."),
    "depth_image_reliability": ("1", "Of the depth images: 1 reliable, 2 best effort."),
    "input_depth_info_topic": ("/camera/depth/camera_info", "Topic of their calibration."),
    "depth_info_reliability": ("1", "Of their calibration: 1 reliable, 2 best effort."),
    "target_frame": ("base_link", "Frame of the boxes in space."),
    "depth_image_units_divisor": ("1000", "Units of the depth images in a metre."),
    "use_debug": ("True", "Whether debug_node of yolo_ros is started."),
}

ARGUMENTS = PARAMETERS | OTHERS


def followers(values: dict, packages: dict[str, str]) -> list[Node]:
    """The nodes of yolo_ros that read detections."""
    images = ("image_raw", values["input_image_topic"])
    tracked = "tracking" if values["use_tracking"] else "detections"
    common = {"package": "yolo_ros", "namespace": values["namespace"], "additional_env": packages}
    reliability = {"image_reliability": values["image_reliability"]}
    nodes = []
    if values["use_tracking"]:
        parameters = [{"tracker": values["tracker"]} | reliability]
        nodes.append(
            Node(executable="tracking_node", name="tracking_node", parameters=parameters, remappings=[images], **common)
        )
    if values["use_3d"]:
        names = ("target_frame", "depth_image_units_divisor", "depth_image_reliability", "depth_info_reliability")
        topics = [
            ("depth_image", values["input_depth_topic"]),
            ("depth_info", values["input_depth_info_topic"]),
            ("detections", tracked),
        ]
        parameters = [{name: values[name] for name in names}]
        nodes.append(
            Node(executable="detect_3d_node", name="detect_3d_node", parameters=parameters, remappings=topics, **common)
        )
    if values["use_debug"]:
        topics = [images, ("detections", "detections_3d" if values["use_3d"] else tracked)]
        nodes.append(
            Node(executable="debug_node", name="debug_node", parameters=[reliability], remappings=topics, **common)
        )
    return nodes


def start(context):
    """The nodes, once the arguments are known."""
    texts = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    values = {name: yaml.safe_load(text) for name, text in texts.items()}
    given = {
        "like": "yolo_ros",
        "like_node_name": "yolo_node",
        "like_namespace": texts["namespace"],
        "like_remaps": shlex.quote(f"image_raw:={texts['input_image_topic']}"),
        "like_parameters": shlex.join(f"{name}:={texts[name]}" for name in PARAMETERS),
    }
    drop_in = PythonLaunchDescriptionSource(str(Path(__file__).parent / "drop_in.launch.py"))
    actions = [IncludeLaunchDescription(drop_in, launch_arguments=given.items())]
    if not any(values[name] for name in ("use_tracking", "use_3d", "use_debug")):
        return actions
    try:
        share = Path(get_package_share_directory("yolo_ros"))
    except PackageNotFoundError:
        message = "yolo_ros is not installed: its nodes for tracking, boxes in space and debug images are not started"
        return [LogInfo(msg=message), *actions]
    # yolo_ros keeps its Python packages in a separate environment.
    packages = [str(path) for path in share.glob(".venv/lib/python*/site-packages")]
    path = ":".join([*packages, os.environ.get("PYTHONPATH", "")]).strip(":")
    return [*actions, *followers(values, {"PYTHONPATH": path})]


def generate_launch_description():
    """Called by launch."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])
