"""Starts the node.

    ros2 launch det_post det.launch.py params_file:=my.param.yaml
    ros2 launch det_post det.launch.py config:=surround.param.yaml device:=cuda:0 \
        input_topics:="front:=/cam0/image_raw back:=/cam1/image_raw" \
        model_paths:="front:=/models/yolox.onnx back:=/models/yolox.onnx"
    ros2 launch det_post det.launch.py use_composition:=true container_name:=/sensors

A parameter file is given as a path, or as the name of one in the package's config
folder; several are separated by spaces, and the later wins. Here and in lists of
KEY:=VALUE, what holds a space is quoted: params_file:="'/my files/my.param.yaml'".
A file may hold
substitutions such as $(find-pkg-share det_post). Relative paths in it begin in its
folder, else in the current one, else in the package's share folder.

use_composition loads the component det_post::DetPost instead, which takes messages
of its process by pointer: into the container of container_name, or into a new
one. The node joins the graph through rclcpp then: middleware and respawn have no
effect.

A node that ends by itself starts again, unless its exit code is 2: what is wrong with
its command line, configuration, networks or device stays wrong. The delay doubles
with each start, up to a minute, and is the first again after a run of a minute.
"""

import re
import shlex
import time
from pathlib import Path

import yaml
from ament_index_python import has_resource
from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction, RegisterEventHandler, TimerAction
from launch.event_handlers import OnProcessExit
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import ComposableNodeContainer, LoadComposableNodes, Node
from launch_ros.descriptions import ComposableNode, ParameterFile

# Exit code of a node that would end the same way again.
FINAL = 2

# The most files of a folder that a message names.
MAX_LISTED = 30

# Started where no parameter file is given.
DEFAULT_CONFIG = "demo.param.yaml"

# The delay that doubles is not 0.
MIN_RESPAWN_DELAY_S = 0.1

# The longest delay before a node starts again, and the run after which the delay is the first
# again.
MAX_RESPAWN_DELAY_S = 60.0

ARGUMENTS = {
    "config": ("", f"Parameter files: paths, or names in the package's config folder; none: {DEFAULT_CONFIG}."),
    "params_file": ("", "The same by its usual name; read after the files of config."),
    "namespace": ("", "Namespace of the node."),
    "node_name": ("det_post", "Name of the node."),
    "device": ("", "auto, cpu or cuda:N; empty: as the config says."),
    "input_topics": ("", "Topics by channel: 'camera:=/image_raw lidar:=/points'."),
    "inputs": ("", "Topics of channels with several sensors: 'surround:=/camera_0/image,/camera_1/image'."),
    "camera_info_topics": ("", "CameraInfo by channel: 'camera:=/camera_info'; diagnostics check it."),
    "model_paths": ("", "Networks by channel: 'camera:=/models/yolox.onnx'."),
    "encoder_paths": ("", "Pillar encoders by channel: 'lidar:=/models/encoder.onnx'."),
    "weights_paths": ("", "Decoder weights of surround channels: 'surround:=/models/decoder.safetensors'."),
    "head_paths": ("", "Head networks of surround channels: 'surround:=/models/head.onnx'."),
    "parameters": ("", "Further parameters: 'camera.score_threshold:=0.4 lidar.max_detections:=200'."),
    "use_sim_time": ("false", "Whether time comes from /clock."),
    "autostart": ("", "Whether the node configures and activates itself; empty: as the config says."),
    "use_composition": ("false", "Whether the node is loaded into a container of components."),
    "container_name": ("", "A running container to load it into; empty: a new one."),
    "middleware": ("", "ros2 or dds; empty: ros2 where the program was built with it, else dds."),
    "enclave": ("", "Enclave of the node, where SROS 2 is enabled; empty: the root, /."),
    "log_level": ("info", "debug, info, warn, error or fatal."),
    "respawn": ("true", "Whether the node starts again when it ends by itself, except with exit code 2."),
    "respawn_delay": ("1.0", "Seconds until it does; doubled each time, up to a minute."),
    "rviz": ("false", "Whether RViz opens beside it, with config/det_post.rviz; needs rviz2."),
}


class ValueLoader(yaml.SafeLoader):
    """Reads 1e-3 as a number, as ROS 2 does; YAML 1.1 wants a point and a sign."""


ValueLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), [*"-+.0123456789"]
)


def words(argument: str, text: str) -> list[str]:
    """The words of an argument; what is quoted is one."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{argument}: found {text!r}: {error}") from error


def pairs(argument: str, text: str) -> list[tuple[str, str]]:
    """The words of an argument, each KEY:=VALUE."""
    found = [word.partition(":=") for word in words(argument, text)]
    for key, mark, value in found:
        if not (key and mark and value):
            raise ValueError(f"{argument}: found {key + mark + value!r}, wanted KEY:=VALUE")
    return [(key, value) for key, _, value in found]


def switch(values: dict[str, str], argument: str) -> bool:
    """An argument that is true or false."""
    value = yaml.safe_load(values[argument])
    if not isinstance(value, bool):
        raise ValueError(f"{argument}: found {values[argument]!r}, wanted true or false")
    return value


def config_path(share: Path, argument: str, name: str) -> str:
    """The path itself, or the shipped file of that name."""
    path = Path(name).expanduser().absolute()
    shipped = share / "config" / name
    places = list(dict.fromkeys([path, shipped]))
    for place in places:
        if place.is_file():
            return str(place)
    looked = " and ".join(str(place) for place in places)
    folders = list(dict.fromkeys(place.parent for place in places if place.parent.is_dir()))
    there = [f"{folder} has {', '.join(yaml_files(folder)) or 'no .yaml files'}" for folder in folders]
    raise FileNotFoundError("; ".join([f"{argument}: there is no file {name}; looked for {looked}", *there]))


def yaml_files(folder: Path) -> list[str]:
    """Names of the parameter files of a folder; of many the first."""
    names = sorted(path.name for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))
    return names[:MAX_LISTED] + ([f"{len(names) - MAX_LISTED} more"] if len(names) > MAX_LISTED else [])


def arguments_of(context, path: str) -> list[str] | None:
    """The arguments NAME:=VALUE with which the program replaces the substitutions of a file;
    none where it has some that only launch knows."""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    variables = re.findall(r"\$\(\s*var\s+([^\s()]+)\s*\)", text)
    others = re.findall(r"\$\(\s*(?:env|find-pkg-share)\s", text)
    if "\\$" in text or len(variables) + len(others) != text.count("$("):
        return None
    known = context.launch_configurations
    return [f"{name}:={known[name]}" for name in dict.fromkeys(variables) if name in known]


def overrides(values: dict[str, str]) -> dict:
    """Parameters that the arguments set, in the order in which they win."""
    found = {}
    if values["device"]:
        found["device"] = values["device"]
    for argument, key in [
        ("input_topics", "input"),
        ("camera_info_topics", "camera_info"),
        ("model_paths", "model_path"),
        ("encoder_paths", "encoder_path"),
        ("weights_paths", "weights_path"),
        ("head_paths", "head_path"),
    ]:
        found |= {f"{channel}.{key}": value for channel, value in pairs(argument, values[argument])}
    for channel, topics in pairs("inputs", values["inputs"]):
        found[f"{channel}.inputs"] = [topic for topic in topics.split(",") if topic]
    for key, value in pairs("parameters", values["parameters"]):
        found[key] = yaml.load(value, ValueLoader)
    found["use_sim_time"] = switch(values, "use_sim_time")
    if values["autostart"]:
        found["autostart"] = switch(values, "autostart")
    return found


def component(values: dict[str, str], parameters: list) -> list:
    """The node in a container. Launch loads no component again, so that none is respawned."""
    described = ComposableNode(
        package="det_post",
        plugin="det_post::DetPost",
        name=values["node_name"],
        namespace=values["namespace"],
        parameters=parameters,
        extra_arguments=[{"use_intra_process_comms": True}],
    )
    if values["container_name"]:
        return [LoadComposableNodes(target_container=values["container_name"], composable_node_descriptions=[described])]
    container = ComposableNodeContainer(
        package="rclcpp_components",
        executable="component_container_mt",
        name=f"{values['node_name']}_container",
        namespace=values["namespace"],
        composable_node_descriptions=[described],
        ros_arguments=["--log-level", values["log_level"], *enclave(values)],
        output="screen",
    )
    return [container]


def process(context, values: dict[str, str], files: list[str], given: dict) -> list:
    """The node as a separate process, which starts again when it ends by itself.

    It reads the files itself, so that its messages name them: launch would give it copies."""
    arguments = [arguments_of(context, path) for path in files]
    if None in arguments:
        parameters, arguments = copies(files, given), []
    else:
        parameters = [*files, given]
    replaced = [word for argument in dict.fromkeys(sum(arguments, [])) for word in ("--arg", argument)]
    middleware = ["--middleware", values["middleware"]] if values["middleware"] else []
    respawns = switch(values, "respawn")
    first_delay = max(float(values["respawn_delay"]), MIN_RESPAWN_DELAY_S)

    def started(delay: float) -> list:
        """A start of the node, and the next one, after a delay."""
        node = Node(
            package="det_post",
            executable="det_post",
            name=values["node_name"],
            namespace=values["namespace"],
            arguments=["run", *middleware, *replaced],
            ros_arguments=["--log-level", values["log_level"], *enclave(values)],
            parameters=parameters,
            output="screen",
        )
        since = time.monotonic()

        def exited(event, context):
            if context.is_shutdown:
                return None
            code = event.returncode
            if code == FINAL:
                reason = f"exit code {code}: the node would end the same way again"
                return [LogInfo(msg=f"{reason}; det_post is not started again")]
            wait = first_delay if time.monotonic() - since >= MAX_RESPAWN_DELAY_S else delay
            longest = max(first_delay, MAX_RESPAWN_DELAY_S)
            again = OpaqueFunction(function=lambda _: started(min(2.0 * wait, longest)))
            message = f"exit code {code}: det_post starts again in {wait:g} s"
            return [LogInfo(msg=message), TimerAction(period=wait, actions=[again])]

        handler = [RegisterEventHandler(OnProcessExit(target_action=node, on_exit=exited))]
        return [*(handler if respawns else []), node]

    return started(first_delay)


def copies(files: list[str], given: dict) -> list:
    """The parameters where launch reads the files: relative paths begin in their folders."""
    folders = list(dict.fromkeys(str(Path(path).parent) for path in files))
    return [{"search_folders": folders}, *(ParameterFile(path, allow_substs=True) for path in files), given]


def enclave(values: dict[str, str]) -> list[str]:
    """The option that names the enclave."""
    return ["--enclave", values["enclave"]] if values["enclave"] else []


def start(context):
    """The node, once the arguments are known."""
    values = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    share = Path(get_package_share_directory("det_post"))
    named = [(argument, name) for argument in ("config", "params_file") for name in words(argument, values[argument])]
    files = [config_path(share, argument, name) for argument, name in named or [("config", DEFAULT_CONFIG)]]
    given = overrides(values)
    if switch(values, "use_composition") and has_resource("rclcpp_components", "det_post"):
        started = component(values, copies(files, given))
    else:
        started = process(context, values, files, given)
        if switch(values, "use_composition"):
            message = "use_composition: the component of det_post is not installed; it starts as a separate process"
            started.insert(0, LogInfo(msg=message))
    if not switch(values, "rviz"):
        return started
    rviz = Node(
        package="rviz2",
        executable="rviz2",
        arguments=["-d", str(share / "config" / "det_post.rviz")],
        parameters=[{"use_sim_time": switch(values, "use_sim_time")}],
        output="screen",
    )
    return [*started, rviz]


def generate_launch_description():
    """Called by launch."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])
