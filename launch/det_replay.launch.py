"""Plays a recording beside the node, on the recording's clock.

    ros2 launch det_post det_replay.launch.py bag:=drive config:=my.param.yaml rate:=0.5

Takes every argument of det.launch.py, too. Ends when the recording does.
"""

from pathlib import Path

import yaml
from launch import LaunchDescription
from launch.actions import (
    DeclareLaunchArgument,
    ExecuteProcess,
    IncludeLaunchDescription,
    OpaqueFunction,
    RegisterEventHandler,
    Shutdown,
    TimerAction,
)
from launch.event_handlers import OnProcessExit
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

ARGUMENTS = {
    "bag": (None, "The recording: a folder, an .mcap or a .db3 file."),
    "rate": ("1.0", "Factor on the recorded pace."),
    "loop": ("false", "Whether to start again at its end."),
    "delay": ("3.0", "Seconds that the node is given to load its networks."),
    "use_sim_time": ("true", "Whether time comes from /clock, which the recording sets."),
    "respawn": ("false", "Whether the node starts again when it ends by itself."),
}


def play(context):
    """The player, and the end of the launch when it ends."""
    values = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    command = ["ros2", "bag", "play", values["bag"], "--rate", values["rate"], "--clock", "100"]
    if yaml.safe_load(values["loop"]) is True:
        command.append("--loop")
    player = ExecuteProcess(cmd=command, output="screen")
    ended = OnProcessExit(target_action=player, on_exit=[Shutdown(reason="the recording is over")])
    return [RegisterEventHandler(ended), TimerAction(period=float(values["delay"]), actions=[player])]


def generate_launch_description():
    """Called by launch."""
    declared = [
        DeclareLaunchArgument(name, description=description)
        if default is None
        else DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    beside = Path(__file__).parent / "det.launch.py"
    node = IncludeLaunchDescription(PythonLaunchDescriptionSource(str(beside)))
    return LaunchDescription([*declared, node, OpaqueFunction(function=play)])
