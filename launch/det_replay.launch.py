"""Plays a recording beside the node, on the recording's clock.

    ros2 launch det_post det_replay.launch.py bag:=drive config:=my.param.yaml rate:=0.5

Takes every argument of det.launch.py, too. Plays once the node is active, however
long its networks take to load. A recording that holds /clock sets it itself; any
other is given the player's. Ends when the recording does, or the node.
"""

import shlex
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
)
from launch.event_handlers import OnProcessExit
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

ARGUMENTS = {
    "bag": (None, "The recording: a folder, an .mcap or a .db3 file."),
    "rate": ("1.0", "Factor on the recorded pace."),
    "loop": ("false", "Whether to start again at its end."),
    "delay": ("1.0", "Seconds before it begins, each time, in which its publishers are found."),
    "player_arguments": ("", "Further arguments of 'ros2 bag play': '--topics /points /tf'."),
    "use_sim_time": ("true", "Whether time comes from /clock, which the recording sets."),
    "respawn": ("false", "Whether the node starts again when it ends by itself."),
}

# Runs what comes after it once the node named by its first argument is active.
WHEN_ACTIVE = 'until ros2 lifecycle get "$0" | grep -q ^active; do sleep 0.5; done; exec "$@"'


def sets_clock(bag: Path) -> bool:
    """Whether a recording holds /clock, as the metadata.yaml in its folder says."""
    metadata = (bag if bag.is_dir() else bag.parent) / "metadata.yaml"
    if not metadata.is_file():
        return False
    recording = yaml.safe_load(metadata.read_text())["rosbag2_bagfile_information"]
    topics = recording["topics_with_message_count"]
    return any(topic["topic_metadata"]["name"] == "/clock" for topic in topics)


def play(context):
    """The player, and the end of the launch when it or the node ends."""
    names = [*ARGUMENTS, "namespace", "node_name"]
    values = {name: LaunchConfiguration(name).perform(context) for name in names}
    bag = Path(values["bag"]).expanduser()
    if not bag.exists():
        # An exception ends the launch with exit code 1.
        raise FileNotFoundError(f"bag: there is no recording {bag}")
    command = ["ros2", "bag", "play", str(bag), "--rate", values["rate"]]
    command += ["--delay", values["delay"]]
    if not sets_clock(bag):
        command += ["--clock", "100"]
    if yaml.safe_load(values["loop"]) is True:
        command.append("--loop")
    command += shlex.split(values["player_arguments"])
    node = f"/{values['namespace'].strip('/')}/{values['node_name']}".replace("//", "/")
    waiting = ["sh", "-c", WHEN_ACTIVE, node, *command]
    player = ExecuteProcess(cmd=waiting, name="player", output="screen")
    # A node that comes back by itself ends nothing.
    ends = {"target_action": player} if yaml.safe_load(values["respawn"]) is True else {}
    ended = OnProcessExit(on_exit=[Shutdown(reason="the recording or the node is over")], **ends)
    return [RegisterEventHandler(ended), player]


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
