"""yolov8_tensor_rt.launch.py with the visualizer of isaac_ros_yolov8 and a window for its images."""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import Node


def generate_launch_description():
    """Called by launch."""
    yolov8 = PythonLaunchDescriptionSource(str(Path(__file__).parent / "yolov8_tensor_rt.launch.py"))
    visualizer = Node(
        package="isaac_ros_yolov8", executable="isaac_ros_yolov8_visualizer.py", name="yolov8_visualizer"
    )
    view = Node(
        package="rqt_image_view", executable="rqt_image_view", name="image_view", arguments=["/yolov8_processed_image"]
    )
    return LaunchDescription([IncludeLaunchDescription(yolov8), visualizer, view])
