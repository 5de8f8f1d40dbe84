"""YOLOv8 in Isaac ROS with det_post as its decoder.

    ros2 launch det_post yolov8_tensor_rt.launch.py model_file_path:=/models/yolov8s.onnx \
        engine_file_path:=/models/yolov8s.plan input_image_width:=1920 input_image_height:=1080

It takes the arguments of isaac_ros_yolov8's launch file. The image encoder and TensorRT are nodes of
Isaac ROS, which has to be installed.
"""

import shlex
from pathlib import Path

import yaml
from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import ComposableNodeContainer
from launch_ros.descriptions import ComposableNode

CONTAINER = "tensor_rt_container"

ENCODER = {
    "input_image_width": (None, "Width of the images."),
    "input_image_height": (None, "Height of the images."),
    "network_image_width": ("640", "Width of the network's input."),
    "network_image_height": ("640", "Height of the network's input."),
    "image_mean": ("[0.0, 0.0, 0.0]", "Mean of the network's input."),
    "image_stddev": ("[1.0, 1.0, 1.0]", "Standard deviation of the network's input."),
}

TENSOR_RT = {
    "model_file_path": ("", "The network, an ONNX file."),
    "engine_file_path": ("", "The engine that TensorRT makes of it."),
    "input_tensor_names": ('["input_tensor"]', "Names of the tensors that are inputs."),
    "input_binding_names": ('["images"]', "Names of the network's inputs."),
    "output_tensor_names": ('["output_tensor"]', "Names of the tensors that are outputs."),
    "output_binding_names": ('["output0"]', "Names of the network's outputs."),
    "verbose": ("False", "Whether TensorRT logs in detail."),
    "force_engine_update": ("False", "Whether TensorRT makes its engine again."),
}

DECODER = {
    "confidence_threshold": ("0.25", "Scores above it are detections."),
    "nms_threshold": ("0.45", "Boxes that overlap by more are suppressed."),
    "num_classes": ("80", "Number of classes."),
}


def start(context):
    """The nodes, once the arguments are known."""
    texts = {name: LaunchConfiguration(name).perform(context) for name in ENCODER | TENSOR_RT | DECODER}
    share = Path(get_package_share_directory("isaac_ros_dnn_image_encoder"))
    encoder = {name: texts[name] for name in ENCODER} | {
        "attach_to_shared_component_container": "True",
        "component_container_name": CONTAINER,
        "dnn_image_encoder_namespace": "yolov8_encoder",
        "image_input_topic": "/image",
        "camera_info_input_topic": "/camera_info",
        "tensor_output_topic": "/tensor_pub",
    }
    tensor_rt = ComposableNode(
        name="tensor_rt",
        package="isaac_ros_tensor_rt",
        plugin="nvidia::isaac_ros::dnn_inference::TensorRTNode",
        parameters=[{name: yaml.safe_load(texts[name]) for name in TENSOR_RT}],
    )
    container = ComposableNodeContainer(
        name=CONTAINER,
        namespace="",
        package="rclcpp_components",
        executable="component_container_mt",
        composable_node_descriptions=[tensor_rt],
        output="screen",
    )
    [tensor_name] = yaml.safe_load(texts["output_tensor_names"])
    decoder = {name: texts[name] for name in DECODER} | {"tensor_name": tensor_name}
    given = {
        "like": "isaac_ros_yolov8",
        "like_node_name": "yolov8_decoder_node",
        "like_parameters": shlex.join(f"{name}:={text}" for name, text in decoder.items()),
    }
    encode = PythonLaunchDescriptionSource(str(share / "launch" / "dnn_image_encoder.launch.py"))
    decode = PythonLaunchDescriptionSource(str(Path(__file__).parent / "drop_in.launch.py"))
    return [
        container,
        IncludeLaunchDescription(encode, launch_arguments=encoder.items()),
        IncludeLaunchDescription(decode, launch_arguments=given.items()),
    ]


def generate_launch_description():
    """Called by launch."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in (ENCODER | TENSOR_RT | DECODER).items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])
