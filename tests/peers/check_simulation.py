#!/usr/bin/env python3
"""Reads a simulated recording with other implementations.

    det_post simulate --seconds 0.5 --out BAG [--compressed]
    pip install rosbags mcap-ros2-support numpy opencv-python-headless
    python tests/peers/check_simulation.py BAG

Checks that rosbags (by metadata.yaml) and mcap-ros2-support read every message of BAG, that clouds
and images have the contents that their headers announce, and that every row of a table of
attributes belongs to its detection.
"""

import sys
from pathlib import Path

import cv2
import numpy
from recordings import read_with_mcap, read_with_rosbags

DATATYPES = {2: "u1", 4: "<u2", 6: "<u4", 7: "<f4"}


def nanos(stamp):
    return stamp.sec * 10**9 + stamp.nanosec


def table(cloud):
    fields = {field.name: (DATATYPES[field.datatype], field.offset) for field in cloud.fields}
    dtype = numpy.dtype({
        "names": list(fields),
        "formats": [kind for kind, _ in fields.values()],
        "offsets": [offset for _, offset in fields.values()],
        "itemsize": cloud.point_step,
    })
    rows = numpy.frombuffer(bytes(cloud.data), dtype)
    assert len(rows) == cloud.width * cloud.height
    return rows


def check_points(cloud):
    points = table(cloud)
    assert cloud.header.frame_id.startswith("lidar_") and cloud.is_dense
    reach = numpy.sqrt(points["x"] ** 2 + points["y"] ** 2 + points["z"] ** 2)
    assert 0.5 < reach.min() and reach.max() < 122.0, (reach.min(), reach.max())
    assert points["ring"].max() <= 63 and len(numpy.unique(points["ring"])) > 40
    assert 1.0 <= points["intensity"].min() and points["intensity"].max() <= 255.0
    assert (numpy.diff(points["time"]) >= 0.0).all() and abs(points["time"]).max() <= 0.05
    # The beam faces ahead at the stamp.
    ahead = points[abs(points["time"]) < 0.001]
    assert (ahead["x"] > 0.0).all()
    return len(points)


def check_detections(array, attributes, is_3d):
    rows = table(attributes)
    assert nanos(attributes.header.stamp) == nanos(array.header.stamp)
    assert len(rows) == len(array.detections)
    for row, detection in zip(rows, array.detections):
        (result,) = detection.results
        assert result.hypothesis.class_id in ("car", "truck", "bus", "bicycle", "pedestrian")
        assert result.hypothesis.score == 1.0
        assert detection.id == str(row["track_id"])
        assert 0.0 <= row["visibility"] <= 1.0
        position = detection.bbox.center.position
        assert row["x"] == numpy.float32(position.x) and row["y"] == numpy.float32(position.y)
        if is_3d:
            assert row["z"] == numpy.float32(position.z)
            assert abs(row["vx"]) < 20.0 and abs(row["vy"]) < 20.0
        else:
            assert 0.0 <= row["truncation"] <= 1.0
            assert row["num_pixels"] <= detection.bbox.size_x * detection.bbox.size_y
            assert 0.0 <= position.x <= 1280.0 and 0.0 <= position.y <= 720.0
    return len(rows)


def check_image(message):
    if hasattr(message, "format"):
        image = cv2.imdecode(numpy.frombuffer(bytes(message.data), "u1"), cv2.IMREAD_COLOR)
        assert message.format == "jpeg"
    else:
        assert message.encoding == "rgb8" and message.step == 3 * message.width
        image = numpy.frombuffer(bytes(message.data), "u1").reshape(message.height, message.width, 3)
    assert image.shape == (720, 1280, 3)
    assert image.std() > 20.0, "an image shows something"


def check(name, messages):
    num_points, num_detections, num_images, waiting = 0, 0, 0, {}
    last_time = 0
    frames = set()
    for topic, _, log_time, message in messages:
        assert log_time >= last_time
        last_time = log_time
        if topic.startswith("/truth/"):
            if topic.endswith("/attributes"):
                array = waiting.pop(topic.removesuffix("/attributes"))
                num_detections += check_detections(array, message, "/camera_" not in topic)
            else:
                waiting[topic] = message
        elif topic.endswith("/points"):
            num_points += check_points(message)
        elif "/image" in topic:
            check_image(message)
            num_images += 1
        elif topic.endswith("/camera_info"):
            assert message.k[0] == message.k[4] == 900.0
            assert (message.k[2], message.k[5]) == (639.5, 359.5)
        elif topic in ("/tf", "/tf_static"):
            for transform in message.transforms:
                turn = transform.transform.rotation
                assert abs(turn.x**2 + turn.y**2 + turn.z**2 + turn.w**2 - 1.0) < 1e-12
                frames.add((transform.header.frame_id, transform.child_frame_id))
        else:
            assert topic == "/clock" and nanos(message.clock) == log_time, topic
    assert not waiting and num_images and num_points and num_detections
    assert ("map", "base_link") in frames and ("base_link", "lidar_0") in frames
    assert ("base_link", "camera_0_optical_frame") in frames
    print(f"{name}: {num_points} points, {num_images} images, {num_detections} detections")


def main():
    folder = Path(sys.argv[1])
    check("rosbags", read_with_rosbags(folder))
    check("mcap-ros2-support", read_with_mcap(folder))


if __name__ == "__main__":
    main()
