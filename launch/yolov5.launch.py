"""yolo.launch.py with another network."""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource


def generate_launch_description():
    """Called by launch."""
    model = DeclareLaunchArgument("model", default_value="yolov5mu.pt", description="The network.")
    yolo = PythonLaunchDescriptionSource(str(Path(__file__).parent / "yolo.launch.py"))
    return LaunchDescription([model, IncludeLaunchDescription(yolo)])
