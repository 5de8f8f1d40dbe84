#!/usr/bin/env python3
"""Reads what the live node says of itself with another implementation.

    python tests/peers/check_live.py FOLDER

FOLDER holds one CDR message a file, named after its type (`visualization_msgs.msg.MarkerArray.cdr`).
Each is decoded by rosbags' definitions of Humble and of Jazzy, encoded again into the same bytes,
and checked. Prints one line a message.
"""

import sys
from pathlib import Path

from rosbags.typesys import Stores, get_typestore

DELETE_ALL, ADD = 3, 0


def check_markers(message):
    first, *shown = message.markers
    assert first.action == DELETE_ALL, first
    spaces = sorted({marker.ns for marker in shown})
    assert {"boxes", "headings", "labels"} <= set(spaces), spaces
    assert all(marker.action == ADD and marker.header == first.header for marker in shown)
    boxes = [marker for marker in shown if marker.ns == "boxes"]
    assert all(box.type == 1 and box.scale.x > 0 and 0 < box.color.a <= 1 for box in boxes)
    assert all(marker.text for marker in shown if marker.ns == "labels")
    assert all(len(marker.points) == 2 for marker in shown if marker.ns == "headings")
    return f"{len(shown)} markers of {spaces}"


def check_diagnostics(message):
    names = [status.name for status in message.status]
    assert names[0] == "det_post: node" and "det_post: camera: latency" in names, names
    assert all(status.message for status in message.status)
    return f"{len(names)} statuses"


def check_parameters(message):
    assert message.node == "/det_post"
    values = {parameter.name: parameter.value for parameter in message.new_parameters}
    assert values["camera.score_threshold"].type == 3
    assert abs(values["camera.score_threshold"].double_value - 0.4) < 1e-6
    assert values["camera.nms.kind"].string_value == "iou"
    assert values["camera.qos.depth"].integer_value == 5
    assert values["autostart"].bool_value is True
    assert list(values["lidar.score_thresholds"].double_array_value) == [0.4]
    return f"{len(values)} parameters"


def check_transition(message):
    assert (message.transition.id, message.transition.label) == (1, "configure")
    assert (message.start_state.label, message.goal_state.label) == ("unconfigured", "configuring")
    return "configure"


CHECKS = {
    "visualization_msgs/msg/MarkerArray": check_markers,
    "diagnostic_msgs/msg/DiagnosticArray": check_diagnostics,
    "rcl_interfaces/msg/ParameterEvent": check_parameters,
    "lifecycle_msgs/msg/TransitionEvent": check_transition,
}


def main():
    folder = Path(sys.argv[1])
    for name, check in CHECKS.items():
        bytes_ = (folder / f"{name.replace('/', '.')}.cdr").read_bytes()
        for store in (Stores.ROS2_HUMBLE, Stores.ROS2_JAZZY):
            types = get_typestore(store)
            message = types.deserialize_cdr(bytes_, name)
            again = bytes(types.serialize_cdr(message, name))
            assert again.ljust(len(bytes_), b"\0") == bytes_, f"{name}: other bytes in {store}"
            print(f"{name} {store.name}: {check(message)}")


if __name__ == "__main__":
    main()
