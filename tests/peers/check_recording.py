#!/usr/bin/env python3
"""Reads the recording of a replay with other implementations.

    det_post replay BAG --config YAML --out OUT
    pip install rosbags mcap-ros2-support
    python tests/peers/check_recording.py OUT

Checks that rosbags (by metadata.yaml) and mcap-ros2-support read OUT/detections, and that
every array has the stamp, frame, classes, scores and boxes of its line in OUT/detections.jsonl.
The types of vision_msgs are taken from the recording itself.
"""

import json
import math
import sys
from pathlib import Path

import numpy
from recordings import read_with_mcap, read_with_rosbags


def float32(value):
    """The 32-bit float whose shortest text a line holds."""
    return float(numpy.float32(value))


def check_header(header, line):
    assert header.stamp.sec * 10**9 + header.stamp.nanosec == line["stamp_ns"], line["stamp_ns"]
    assert header.frame_id == line["frame_id"], (header.frame_id, line["frame_id"])


def check_2d(detection, expected):
    x1, y1, x2, y2 = map(float32, expected["box"])
    bbox = detection.bbox
    found = [bbox.center.position.x, bbox.center.position.y, bbox.size_x, bbox.size_y]
    assert found == [0.5 * (x1 + x2), 0.5 * (y1 + y2), x2 - x1, y2 - y1], (found, expected)
    assert bbox.center.theta == 0.0


def check_3d(detection, expected):
    center, size = detection.bbox.center, detection.bbox.size
    position = [center.position.x, center.position.y, center.position.z]
    assert position == list(map(float32, expected["center"])), (position, expected)
    assert [size.x, size.y, size.z] == list(map(float32, expected["size"])), expected
    turn = center.orientation
    assert turn.x == turn.y == 0.0
    difference = 2.0 * math.atan2(turn.z, turn.w) - float32(expected["yaw"])
    assert abs(math.sin(difference)) < 1e-12 and math.cos(difference) > 0.0, expected
    pose = detection.results[0].pose.pose
    assert [pose.position.x, pose.position.y, pose.position.z] == position
    assert pose.orientation.z == turn.z and pose.orientation.w == turn.w


def check_array(message, line):
    check_header(message.header, line)
    kind, check = ("detections_2d", check_2d) if "detections_2d" in line else ("detections_3d", check_3d)
    assert len(message.detections) == len(line[kind]), line["stamp_ns"]
    for detection, expected in zip(message.detections, line[kind]):
        check_header(detection.header, line)
        (result,) = detection.results
        assert result.hypothesis.class_id == expected["class_name"], expected
        assert result.hypothesis.score == float32(expected["score"]), expected
        check(detection, expected)
    return len(line[kind])


def check_markers(message, line):
    """The removal of the markers before, then a box, a line and a text for each detection."""
    boxes = [marker for marker in message.markers if marker.ns == "boxes"]
    assert message.markers[0].action == 3 and len(boxes) == len(line["detections_3d"])
    for marker, expected in zip(boxes, line["detections_3d"]):
        check_header(marker.header, line)
        size = [marker.scale.x, marker.scale.y, marker.scale.z]
        assert size == [float32(value) for value in expected["size"]], expected


def check_annotations(message, line):
    """An outline and a label for each detection, with the stamp of the image."""
    found = line["detections_2d"]
    assert len(message.circles) == 0 and len(message.points) == len(message.texts) == len(found)
    for outline, text, expected in zip(message.points, message.texts, found):
        for stamp in (outline.timestamp, text.timestamp):
            assert stamp.sec * 10**9 + stamp.nanosec == line["stamp_ns"]
        x1, y1, x2, y2 = (float32(value) for value in expected["box"])
        corners = [(point.x, point.y) for point in outline.points]
        assert outline.type == 2 and corners == [(x1, y1), (x2, y1), (x2, y2), (x1, y2)], expected
        assert (text.position.x, text.position.y) == (x1, y1)
        assert text.text.startswith(expected["class_name"]), text.text


SHOWN = {
    "visualization_msgs/msg/MarkerArray": check_markers,
    "foxglove_msgs/msg/ImageAnnotations": check_annotations,
}


def check(name, messages, lines_of):
    waiting = {topic: iter(lines) for topic, lines in lines_of.items()}
    tables, num_arrays, num_detections = {}, 0, 0
    newest, num_shown = {}, 0
    for topic, type_name, log_time, message in messages:
        if type_name == "vision_msgs/msg/LabelInfo":
            output = topic.removesuffix("/label_info")
            assert output not in tables, f"{topic} has two class tables"
            assert [entry.class_id for entry in message.class_map] == list(range(len(message.class_map)))
            tables[output] = [entry.class_name for entry in message.class_map]
            check_header(message.header, lines_of[output][0])
            continue
        if type_name in SHOWN:
            SHOWN[type_name](message, newest[topic.rpartition("/")[0]])
            num_shown += 1
            continue
        line = newest[topic] = next(waiting[topic])
        num_arrays += 1
        num_detections += check_array(message, line)
        for expected in line.get("detections_2d", line.get("detections_3d")):
            assert tables[topic][expected["class_id"]] == expected["class_name"]
    assert all(next(rest, None) is None for rest in waiting.values())
    assert tables.keys() == lines_of.keys()
    assert num_shown == num_arrays
    print(f"{name}: {num_arrays} arrays, {num_detections} detections, {len(tables)} class tables equal")


def main():
    folder = Path(sys.argv[1])
    lines_of = {}
    for text in (folder / "detections.jsonl").read_text().splitlines():
        line = json.loads(text)
        lines_of.setdefault(line["topic"], []).append(line)
    check("rosbags", read_with_rosbags(folder / "detections"), lines_of)
    check("mcap-ros2-support", read_with_mcap(folder / "detections"), lines_of)


if __name__ == "__main__":
    main()
