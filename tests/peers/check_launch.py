#!/usr/bin/env python3
"""Runs a launch file as `ros2 launch` does, and prints what it would start.

    python tests/peers/check_launch.py FILE [ARGUMENT:=VALUE ...]

Stand-ins of `launch` and `launch_ros` take the place of ROS 2, which is not needed: they know what the
launch files here use of them, and nothing else. Prints JSON: the arguments that the file and those it
includes declare, which of them it read, the launch files of other packages that it includes, the processes
it would start, in their order, those of which the end ends the launch, what is logged, and what the end of the
node with an exit code leads to. INSTALLED_PACKAGES is a JSON object of packages and their share folders.
"""

import importlib.util
import json
import os
import re
import sys
import time
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import yaml

ROOT = Path(__file__).resolve().parents[2]


class Context:
    """What holds while a launch runs: as in `launch`, the first value of an argument stays."""

    def __init__(self, values):
        self.values = dict(values)
        self.declared, self.read, self.processes, self.ended_by = [], set(), [], []
        self.logged, self.after_exit, self.included = [], {}, []
        self.is_shutdown = False

    @property
    def launch_configurations(self):
        return self.values


class DeclareLaunchArgument:
    def __init__(self, name, *, default_value=None, description=None):
        self.name, self.default_value, self.description = name, default_value, description

    def execute(self, context):
        context.declared.append(
            {"name": self.name, "default": self.default_value, "description": self.description}
        )
        if self.name not in context.values:
            if self.default_value is None:
                raise RuntimeError(f"argument {self.name} is required")
            context.values[self.name] = self.default_value


class LaunchConfiguration:
    def __init__(self, name):
        self.name = name

    def perform(self, context):
        if self.name not in context.values:
            raise RuntimeError(f"launch configuration {self.name} does not exist")
        context.read.add(self.name)
        return context.values[self.name]


class OpaqueFunction:
    def __init__(self, *, function):
        self.function = function

    def execute(self, context):
        for action in self.function(context) or []:
            action.execute(context)


class ParameterFile:
    def __init__(self, path, *, allow_substs=False):
        assert allow_substs, "parameter files may hold substitutions"
        self.path = path


def parted(parameters):
    """Parameter files, those that launch copies among them, and values."""
    files = [given.path if isinstance(given, ParameterFile) else given for given in parameters]
    return [file for file in files if isinstance(file, str)], [file for file in files if isinstance(file, dict)]


class Node:
    def __init__(
        self,
        *,
        package,
        executable,
        name=None,
        namespace=None,
        arguments=(),
        ros_arguments=(),
        parameters=(),
        remappings=(),
        cwd=None,
        respawn=False,
        respawn_delay=None,
        output="log",
        additional_env=None,
    ):
        files, values = parted(parameters)
        assert all(isinstance(value, str) for value in [*arguments, *ros_arguments])
        self.process = {
            "package": package,
            "executable": executable,
            "name": name,
            "namespace": namespace,
            "arguments": [*arguments],
            "ros_arguments": [*ros_arguments],
            "files": files,
            "copied": [given.path for given in parameters if isinstance(given, ParameterFile)],
            "parameters": {key: value for given in values for key, value in given.items()},
            "remappings": [list(pair) for pair in remappings],
            "cwd": cwd,
            "respawn": respawn,
            "respawn_delay": respawn_delay,
            "output": output,
            "environment": additional_env,
        }

    def execute(self, context):
        context.processes.append(self.process)


class ComposableNode:
    def __init__(
        self, *, name, package, plugin, namespace=None, parameters=(), remappings=(), extra_arguments=()
    ):
        files, values = parted(parameters)
        self.node = {
            "name": name,
            "namespace": namespace,
            "package": package,
            "plugin": plugin,
            "files": files,
            "parameters": {key: value for given in values for key, value in given.items()},
            "remappings": [list(pair) for pair in remappings],
            "extra_arguments": [*extra_arguments],
        }


class ComposableNodeContainer(Node):
    def __init__(self, *, composable_node_descriptions, **of_container):
        super().__init__(**of_container)
        self.process["components"] = [described.node for described in composable_node_descriptions]


class LoadComposableNodes:
    def __init__(self, *, target_container, composable_node_descriptions):
        self.loaded = {
            "container": target_container,
            "components": [described.node for described in composable_node_descriptions],
        }

    def execute(self, context):
        context.processes.append(self.loaded)


class ExecuteProcess:
    def __init__(self, *, cmd, name=None, output="log"):
        self.cmd, self.name, self.output = cmd, name, output

    def execute(self, context):
        context.processes.append({"command": self.cmd, "name": self.name, "output": self.output})


class LogInfo:
    def __init__(self, *, msg):
        self.msg = msg

    def execute(self, context):
        context.logged.append(self.msg)


class TimerAction:
    def __init__(self, *, period, actions):
        self.period, self.actions = period, actions


class ProcessExited:
    def __init__(self, returncode):
        self.returncode = returncode


class Shutdown:
    def __init__(self, *, reason):
        self.reason = reason


class OnProcessExit:
    def __init__(self, *, target_action=None, on_exit):
        self.target_action, self.on_exit = target_action, on_exit


class RegisterEventHandler:
    def __init__(self, handler):
        self.handler = handler

    def execute(self, context):
        assert isinstance(self.handler, OnProcessExit)
        if callable(self.handler.on_exit):
            self.note_exits(context)
            return
        assert all(isinstance(action, Shutdown) for action in self.handler.on_exit)
        ended = self.handler.target_action
        context.ended_by.append("any" if ended is None else ended.cmd)

    def note_exits(self, context):
        """Calls the handler for some exit codes: what is logged, and the delays before the starts that
        follow. All runs end at once, but for the last but one, which takes some minutes."""
        if context.after_exit is None:
            # A start that follows.
            context.later = self
            return
        for code in (0, 1, 2, -9):
            logged, delays, handler, num_runs = [], [], self, 10
            for run in range(num_runs):
                passed = 300.0 if run == num_runs - 2 else 0.0
                handler = handler.note_exit(code, passed, context, logged, delays)
                if handler is None:
                    break
            context.after_exit[code] = {"logged": logged, "delays": delays}
        stopped = Context(context.values)
        stopped.is_shutdown = True
        assert self.handler.on_exit(ProcessExited(0), stopped) is None, "a launch that ends starts nothing"

    def note_exit(self, code, passed, context, logged, delays):
        """Notes what an exit leads to, `passed` seconds after the start; returns the handler of the next."""
        now = time.monotonic
        time.monotonic = lambda: now() + passed
        actions = self.handler.on_exit(ProcessExited(code), context)
        time.monotonic = now
        logged += [action.msg for action in actions if isinstance(action, LogInfo)]
        timers = [action for action in actions if isinstance(action, TimerAction)]
        assert len(timers) + len(actions[:1]) == len(actions) and len(timers) < 2
        if not timers:
            return None
        delays.append(timers[0].period)
        after = Context(context.values)
        after.after_exit = None
        for action in timers[0].actions:
            action.execute(after)
        assert [process["executable"] for process in after.processes] == ["det_post"]
        return after.later


class LaunchDescription:
    def __init__(self, actions):
        self.actions = actions

    def execute(self, context):
        for action in self.actions:
            action.execute(context)


class PythonLaunchDescriptionSource:
    def __init__(self, path):
        self.path = path


class PackageNotFoundError(KeyError):
    pass


def get_package_share_directory(package):
    """The folder of this package, or of another one that is said to be installed."""
    installed = {"det_post": ROOT, **json.loads(os.environ.get("INSTALLED_PACKAGES", "{}"))}
    if package not in installed:
        raise PackageNotFoundError(package)
    return str(installed[package])


def has_resource(kind, name):
    """The component of this package is there if the package of components is said to be installed."""
    assert (kind, name) == ("rclcpp_components", "det_post")
    return "rclcpp_components" in json.loads(os.environ.get("INSTALLED_PACKAGES", "{}"))


class IncludeLaunchDescription:
    def __init__(self, source, *, launch_arguments=()):
        self.source, self.launch_arguments = source, dict(launch_arguments)

    def execute(self, context):
        assert all(isinstance(value, str) for value in self.launch_arguments.values())
        if not Path(self.source.path).is_relative_to(ROOT):
            context.included.append({"path": str(self.source.path), "arguments": self.launch_arguments})
            return
        context.values |= self.launch_arguments
        described(self.source.path).execute(context)


class XmlDescription:
    """A launch file in XML: arg, let, group, include, and the substitutions var, env and dirname."""

    def __init__(self, path):
        self.path = Path(path)
        self.root = ElementTree.parse(path).getroot()
        assert self.root.tag == "launch"

    def execute(self, context):
        self.each(self.root, context)

    def each(self, element, context):
        for child in element:
            if "if" not in child.attrib or yaml.safe_load(self.text(child.attrib["if"], context)):
                getattr(self, child.tag)(child, context)

    def arg(self, element, context):
        default = element.get("default")
        default = default if default is None else self.text(default, context)
        argument = DeclareLaunchArgument(
            element.attrib["name"], default_value=default, description=element.get("description")
        )
        argument.execute(context)

    def let(self, element, context):
        context.values[element.attrib["name"]] = self.text(element.attrib["value"], context)

    def group(self, element, context):
        before = dict(context.values)
        self.each(element, context)
        context.values = before

    def include(self, element, context):
        for argument in element:
            assert argument.tag == "arg"
            self.let(argument, context)
        described(self.text(element.attrib["file"], context)).execute(context)

    def text(self, text, context):
        def value(match):
            kind, _, rest = match[1].partition(" ")
            if kind == "dirname":
                return str(self.path.parent)
            if kind == "env":
                return os.environ[rest]
            assert kind == "var", match[0]
            return LaunchConfiguration(rest).perform(context)

        return re.sub(r"\$\(([^()]*)\)", value, text)


def described(path):
    """The launch description of a file."""
    if str(path).endswith(".xml"):
        return XmlDescription(path)
    spec = importlib.util.spec_from_file_location(Path(path).name.replace(".", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.generate_launch_description()


STAND_INS = {
    "launch": [LaunchDescription],
    "launch.actions": [
        DeclareLaunchArgument,
        ExecuteProcess,
        IncludeLaunchDescription,
        LogInfo,
        OpaqueFunction,
        RegisterEventHandler,
        Shutdown,
        TimerAction,
    ],
    "launch.event_handlers": [OnProcessExit],
    "launch.launch_description_sources": [PythonLaunchDescriptionSource],
    "launch.substitutions": [LaunchConfiguration],
    "launch_ros": [],
    "launch_ros.actions": [ComposableNodeContainer, LoadComposableNodes, Node],
    "launch_ros.descriptions": [ComposableNode, ParameterFile],
    "ament_index_python": [],
    "ament_index_python.packages": [PackageNotFoundError],
}


def main():
    for name, classes in STAND_INS.items():
        module = sys.modules[name] = ModuleType(name)
        for stand_in in classes:
            setattr(module, stand_in.__name__, stand_in)
    sys.modules["ament_index_python"].has_resource = has_resource
    sys.modules["ament_index_python.packages"].get_package_share_directory = get_package_share_directory
    # The files are read where they stand, and leave nothing beside them.
    sys.dont_write_bytecode = True

    path, *given = sys.argv[1:]
    context = Context(word.split(":=", 1) for word in given)
    described(path).execute(context)
    report = {
        "declared": context.declared,
        "read": sorted(context.read),
        "processes": context.processes,
        "ended_by": context.ended_by,
        "logged": context.logged,
        "after_exit": context.after_exit,
        "included": context.included,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
