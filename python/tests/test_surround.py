"""A surround channel on arrays: the detections of a replay of the same messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_detectors import frames_by_stamp, messages, stamp_ns

import det_post
from conftest import ROOT

CONFIG = ROOT / "config" / "demo_surround_3d.param.yaml"


def matrix_of(transform: Any) -> list[list[float]]:
    """The 4 by 4 matrix of a geometry_msgs/Transform."""
    x, y, z, w = (getattr(transform.rotation, axis) for axis in "xyzw")
    rotation = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    at = transform.translation
    return [[*row, move] for row, move in zip(rotation, (at.x, at.y, at.z))] + [[0.0, 0.0, 0.0, 1.0]]


def prepared(drive: Path) -> det_post.Surround:
    """The channel with the calibrations and transforms of a drive."""
    surround = det_post.Surround(CONFIG, device="cpu")
    for index in range(6):
        info = messages(drive, f"/camera_{index}/camera_info")[0]
        surround.set_camera(
            index,
            size=(info.width, info.height),
            intrinsics=list(info.k),
            frame_id=info.header.frame_id,
            distortion_model=info.distortion_model,
            distortion=list(info.d),
            rectification=list(info.r),
            projection=list(info.p),
        )
    for topic, is_static in (("/tf_static", True), ("/tf", False)):
        for message in messages(drive, topic):
            for one in message.transforms:
                stamp = None if is_static else stamp_ns(one) / 1e9
                matrix = matrix_of(one.transform)
                surround.set_transform(one.header.frame_id, one.child_frame_id, matrix, stamp=stamp)
    return surround


def image_of(message: Any) -> Any:
    return np.frombuffer(message.data, np.uint8).reshape(message.height, message.width, 3)


def test_a_surround_channel_gives_the_detections_of_a_replay(tmp_path: Path) -> None:
    drive = det_post.simulate(tmp_path / "drive", seed=9103, seconds=0.3, cameras=6, points=2000)
    result = det_post.replay(drive, CONFIG, out=tmp_path / "out", device="cpu")
    surround = prepared(drive)
    assert "car" in surround.class_names and "surround on cpu" in repr(surround)
    assert surround.inputs == [f"/camera_{index}/image" for index in range(6)]
    expected = frames_by_stamp(result, "surround")
    cameras = [messages(drive, topic) for topic in surround.inputs]
    num_frames = 0
    for parts in zip(*cameras):
        wanted = expected.get(stamp_ns(parts[0]))
        if wanted is None:
            # The replay has no pose for it yet: the memory of the network does not know it either.
            continue
        stamps = [stamp_ns(part) / 1e9 for part in parts]
        found = surround.process(
            [image_of(part) for part in parts], encoding=parts[0].encoding, stamps=stamps
        )
        # Stamps are seconds in f64 here, which is 0.2 us today, and rotations come as matrices.
        np.testing.assert_allclose(found["scores"], np.float32([d["score"] for d in wanted]), atol=1e-5)
        np.testing.assert_array_equal(found["classes"], [d["class_id"] for d in wanted])
        centers = np.float32([d["center"] for d in wanted])
        np.testing.assert_allclose(found["boxes"][:, :3], centers, atol=1e-3)
        num_frames += 1
    assert num_frames == len(expected) > 0


def test_what_does_not_fit_is_refused() -> None:
    surround = det_post.Surround(CONFIG, device="cpu")
    image = np.zeros((352, 640, 3), np.uint8)
    cases: list[tuple[str, Any]] = [
        ("5 images and 5 stamps; the channel has 6", lambda: surround.process([image] * 5)),
        ("6 images and 1 stamps", lambda: surround.process([image] * 6, stamps=[0.0])),
        ("every image is None", lambda: surround.process([None] * 6)),
        (r"uint8 \[H, W, 3\] is required", lambda: surround.process([image[..., 0].copy()] * 6)),
        ("input is 6; the channel has 6", lambda: surround.set_camera(
            6, size=(1, 1), intrinsics=[1.0] * 9, frame_id="c")),
        ("a rotation and a translation", lambda: surround.set_transform("a", "b", [[0.0] * 4] * 4)),
        ("one sensor: Camera or Lidar", lambda: det_post.Surround(
            ROOT / "config" / "demo.param.yaml", channel="camera")),
    ]
    for words, call in cases:
        with pytest.raises(ValueError, match=words):
            call()
    # Without calibrations no camera sees anything.
    with pytest.raises(ValueError, match="calibrat"):
        surround.process([image] * 6)
    surround.reset()
