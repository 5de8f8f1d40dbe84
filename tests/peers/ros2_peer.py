#!/usr/bin/env python3
"""A sensor, or a subscriber that does nothing but take the bytes, by rclpy.

    python tests/peers/ros2_peer.py send TOPIC KIND COUNT HZ
    python tests/peers/ros2_peer.py receive TOPIC KIND COUNT

KIND is `image` (1080p in colour, 6.2 MB) or `cloud` (131,072 points, 2.1 MB). A sender waits for one
subscriber, writes the time of sending into the stamp and the number of the frame into the first and
last eight bytes of the data, and prints by how many seconds the last frame was late. A subscriber
prints how long after its stamp each message came, in seconds; it ends after COUNT messages, or when
none has come for five seconds. Everything is best effort; ROS 2 has to be sourced.
"""

import json
import struct
import sys
import time

import rclpy
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image, PointCloud2, PointField

# How long a peer and a first message are waited for.
PATIENCE = 20.0


def image():
    return Image(height=1080, width=1920, encoding="rgb8", step=5760), 1920 * 1080 * 3


def cloud():
    fields = [
        PointField(name=name, offset=4 * i, datatype=PointField.FLOAT32, count=1)
        for i, name in enumerate(["x", "y", "z", "intensity"])
    ]
    size = 131_072 * 16
    message = PointCloud2(
        height=1, width=131_072, point_step=16, row_step=size, is_dense=True, fields=fields
    )
    return message, size


KINDS = {"image": image, "cloud": cloud}


def quality(depth):
    return QoSProfile(depth=depth, reliability=ReliabilityPolicy.BEST_EFFORT)


def send(node, topic, kind, count, hz):
    message, size = KINDS[kind]()
    message.header.frame_id = "sensor"
    marker = bytes(range(200, 208))
    message.data.frombytes(marker + (bytes(range(251)) * (size // 251 + 1))[: size - 8])
    raw = bytearray(serialize_message(message))
    start = raw.index(marker)
    publisher = node.create_publisher(type(message), topic, quality(5))
    deadline = time.monotonic() + PATIENCE
    while publisher.get_subscription_count() < 1:
        assert time.monotonic() < deadline, f"nobody takes {topic}"
        time.sleep(0.01)
    # A subscriber may know of this publisher a little later.
    time.sleep(0.5)
    began = time.monotonic()
    for number in range(count):
        due = began + number / hz
        time.sleep(max(0.0, due - time.monotonic()))
        raw[start : start + 8] = raw[start + size - 8 : start + size] = number.to_bytes(8, "little")
        struct.pack_into("<iI", raw, 4, *divmod(time.time_ns(), 10**9))
        publisher.publish(bytes(raw))
    late = time.monotonic() - due
    # What is under way is not cut off by leaving.
    time.sleep(0.5)
    return late


def receive(node, topic, kind, count):
    ages = []

    def take(raw):
        seconds, nanoseconds = struct.unpack_from("<iI", raw, 4)
        ages.append(1e-9 * (time.time_ns() - seconds * 10**9 - nanoseconds))

    node.create_subscription(type(KINDS[kind]()[0]), topic, take, quality(10), raw=True)
    patience = PATIENCE
    while len(ages) < count:
        before = len(ages)
        rclpy.spin_once(node, timeout_sec=patience)
        if len(ages) == before:
            break
        patience = 5.0
    return ages


def main():
    verb, topic, kind, count, *hz = sys.argv[1:]
    rclpy.init(args=[])
    node = rclpy.create_node(f"{verb}er_of_{kind}", enable_rosout=False, start_parameter_services=False)
    if verb == "send":
        told = send(node, topic, kind, int(count), float(hz[0]))
    else:
        told = receive(node, topic, kind, int(count))
    print(json.dumps(told))


if __name__ == "__main__":
    main()
