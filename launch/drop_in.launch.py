"""Starts det_post in the place of another node, with that node's parameter files.

The launch files of the nodes that it takes the place of (lidar_centerpoint.launch.xml,
yolox.launch.xml, yolo.launch.py ...) include this one with their arguments. Substitutions in
parameter files, such as $(var model_path), come from the launch that includes it. Arguments of
several words quote those that may hold a space.
"""

import re
import shlex
from pathlib import Path

import yaml
from ament_index_python import has_resource
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LoadComposableNodes, Node
from launch_ros.descriptions import ComposableNode, ParameterFile

ARGUMENTS = {
    "like": (None, "The package whose node is replaced, such as autoware_lidar_centerpoint."),
    "like_node_name": (None, "Name of the node."),
    "like_namespace": ("", "Namespace of the node."),
    "like_files": ("", "Parameter files, the later wins; one that ends in '?' may be absent."),
    "like_remaps": ("", "Topics: '~/input/pointcloud:=/points ~/output/objects:=objects'."),
    "like_parameters": ("", "Further parameters, KEY:=VALUE; those without a value are left out."),
    "like_container": ("", "Container into which the node is loaded; without the component it starts as a separate process."),
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


def files(text: str) -> list[str]:
    """The parameter files that are there, and those that must be."""
    found = []
    for word in filter(None, words("like_files", text)):
        path = word.removesuffix("?")
        if path == word or Path(path).is_file():
            found.append(path)
    return found


def arguments_of(context, path: str) -> list[str] | None:
    """The arguments NAME:=VALUE with which the program replaces the substitutions of a file;
    none where it has some that only launch knows."""
    if not Path(path).is_file():
        return []
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    variables = re.findall(r"\$\(\s*var\s+([^\s()]+)\s*\)", text)
    others = re.findall(r"\$\(\s*(?:env|find-pkg-share)\s", text)
    if "\\$" in text or len(variables) + len(others) != text.count("$("):
        return None
    known = context.launch_configurations
    return [f"{name}:={known[name]}" for name in dict.fromkeys(variables) if name in known]


def pairs(argument: str, text: str) -> list[tuple[str, str]]:
    """The words of an argument, each KEY:=VALUE; those without a value are left out."""
    found = [word.partition(":=") for word in words(argument, text)]
    for key, mark, _ in found:
        if not (key and mark):
            raise ValueError(f"{argument}: found {key + mark!r}, wanted KEY:=VALUE")
    return [(key, value) for key, _, value in found if value]


def component(values: dict[str, str], parameters: dict) -> LoadComposableNodes:
    """The node in a running container."""
    described = ComposableNode(
        package="det_post",
        plugin="det_post::DetPost",
        name=values["like_node_name"],
        namespace=values["like_namespace"],
        parameters=[
            *(ParameterFile(path, allow_substs=True) for path in files(values["like_files"])),
            {**parameters, "like": values["like"]},
        ],
        remappings=pairs("like_remaps", values["like_remaps"]),
        extra_arguments=[{"use_intra_process_comms": True}],
    )
    return LoadComposableNodes(
        target_container=values["like_container"], composable_node_descriptions=[described]
    )


def start(context):
    """The node, once the arguments are known."""
    values = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    given = pairs("like_parameters", values["like_parameters"])
    parameters = {key: yaml.load(value, ValueLoader) for key, value in given}
    container = values["like_container"]
    has_component = bool(has_resource("rclcpp_components", "det_post"))
    # A component cannot end by itself, as `build_only` asks for.
    if container and has_component and not parameters.get("build_only"):
        return [component(values, parameters)]
    # The program reads the files itself, so that its messages name them: launch would give it copies.
    paths = files(values["like_files"])
    replaced = [arguments_of(context, path) for path in paths]
    if None in replaced:
        paths, replaced = [ParameterFile(path, allow_substs=True) for path in paths], []
    words_of_arguments = [word for argument in dict.fromkeys(sum(replaced, [])) for word in ("--arg", argument)]
    node = Node(
        package="det_post",
        executable="det_post",
        name=values["like_node_name"],
        namespace=values["like_namespace"] or None,
        arguments=["run", "--like", values["like"], *words_of_arguments],
        parameters=[*paths, parameters],
        remappings=pairs("like_remaps", values["like_remaps"]),
        output="screen",
    )
    if not container:
        return [node]
    reason = "with build_only" if has_component else "whose component is not installed"
    message = f"det_post, {reason}, is not loaded into {container}: it starts as a separate process"
    return [LogInfo(msg=message), node]


def generate_launch_description():
    """Called by launch."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])
