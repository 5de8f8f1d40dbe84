"""RT-DETR in Isaac ROS with det_post as its decoder.

    ros2 launch det_post isaac_ros_rtdetr.launch.py model_file_path:=/models/rtdetr.onnx \
        engine_file_path:=/models/rtdetr.plan

It takes the arguments of isaac_ros_rtdetr's launch file. The preprocessing and TensorRT are nodes of
Isaac ROS, which has to be installed.
"""

from pathlib import Path

import yaml
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import ComposableNodeContainer
from launch_ros.descriptions import ComposableNode

# Width and height of the network's input.
SIDE = 640

IMAGES = {
    "input_image_width": ("640", "Width of the images."),
    "input_image_height": ("480", "Height of the images."),
}

TENSOR_RT = {
    "model_file_path": ("", "The network, an ONNX file."),
    "engine_file_path": ("", "The engine that TensorRT makes of it."),
    "input_tensor_names": ('["images", "orig_target_sizes"]', "Names of the tensors that are inputs."),
    "input_binding_names": ('["images", "orig_target_sizes"]', "Names of the network's inputs."),
    "output_tensor_names": ('["labels", "boxes", "scores"]', "Names of the tensors that are outputs."),
    "output_binding_names": ('["labels", "boxes", "scores"]', "Names of the network's outputs."),
    "verbose": ("False", "Whether TensorRT logs in detail."),
    "force_engine_update": ("False", "Whether TensorRT makes its engine again."),
}

DECODER = {"confidence_threshold": ("0.9", "Scores above it are detections.")}


def image_proc(name, plugin, topics=(), **parameters):
    """A node of images."""
    plugin = f"nvidia::isaac_ros::image_proc::{plugin}"
    return ComposableNode(
        name=name, package="isaac_ros_image_proc", plugin=plugin, parameters=[parameters], remappings=[*topics]
    )


def tensor_proc(name, plugin, topics, **parameters):
    """A node of tensors."""
    plugin = f"nvidia::isaac_ros::dnn_inference::{plugin}"
    return ComposableNode(
        name=name, package="isaac_ros_tensor_proc", plugin=plugin, parameters=[parameters], remappings=[*topics]
    )


def preprocessing(width: int, height: int) -> list[ComposableNode]:
    """From images to the network's inputs: the aspect is kept, the rest is padded below and on the right."""
    sides = {"output_image_width": SIDE, "output_image_height": SIDE}
    planar = [3, SIDE, SIDE]
    return [
        image_proc(
            "resize_node",
            "ResizeNode",
            input_width=width,
            input_height=height,
            output_width=SIDE,
            output_height=SIDE,
            keep_aspect_ratio=True,
            encoding_desired="rgb8",
            disable_padding=True,
        ),
        image_proc("pad_node", "PadNode", [("image", "resize/image")], padding_type="BOTTOM_RIGHT", **sides),
        image_proc(
            "image_format_node",
            "ImageFormatConverterNode",
            [("image_raw", "padded_image"), ("image", "image_rgb")],
            encoding_desired="rgb8",
            image_width=SIDE,
            image_height=SIDE,
        ),
        tensor_proc(
            "image_to_tensor_node",
            "ImageToTensorNode",
            [("image", "image_rgb"), ("tensor", "normalized_tensor")],
            scale=False,
            tensor_name="image",
        ),
        tensor_proc(
            "interleaved_to_planar_node",
            "InterleavedToPlanarNode",
            [("interleaved_tensor", "normalized_tensor")],
            input_tensor_shape=[SIDE, SIDE, 3],
        ),
        tensor_proc(
            "reshape_node",
            "ReshapeNode",
            [("tensor", "planar_tensor")],
            output_tensor_name="input_tensor",
            input_tensor_shape=planar,
            output_tensor_shape=[1, *planar],
        ),
        ComposableNode(
            name="rtdetr_preprocessor",
            package="isaac_ros_rtdetr",
            plugin="nvidia::isaac_ros::rtdetr::RtDetrPreprocessorNode",
            remappings=[("encoded_tensor", "reshaped_tensor")],
        ),
    ]


def start(context):
    """The nodes, once the arguments are known."""
    texts = {name: LaunchConfiguration(name).perform(context) for name in IMAGES | TENSOR_RT | DECODER}
    values = {name: yaml.safe_load(text) for name, text in texts.items()}
    tensor_rt = ComposableNode(
        name="tensor_rt",
        package="isaac_ros_tensor_rt",
        plugin="nvidia::isaac_ros::dnn_inference::TensorRTNode",
        parameters=[{name: values[name] for name in TENSOR_RT}],
    )
    container = ComposableNodeContainer(
        name="rtdetr_container",
        namespace="rtdetr_container",
        package="rclcpp_components",
        executable="component_container_mt",
        composable_node_descriptions=[*preprocessing(*(values[name] for name in IMAGES)), tensor_rt],
        output="screen",
    )
    given = {
        "like": "isaac_ros_rtdetr",
        "like_node_name": "rtdetr_decoder",
        "like_parameters": f"confidence_threshold:={texts['confidence_threshold']}",
    }
    decode = PythonLaunchDescriptionSource(str(Path(__file__).parent / "drop_in.launch.py"))
    return [container, IncludeLaunchDescription(decode, launch_arguments=given.items())]


def generate_launch_description():
    """Called by launch."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in (IMAGES | TENSOR_RT | DECODER).items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])
