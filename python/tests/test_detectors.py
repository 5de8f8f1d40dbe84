"""Channels on arrays: the detections of a replay of the same messages."""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import det_post

# The recording is read by another implementation than ours.
mcap_reader = pytest.importorskip("mcap.reader")
mcap_ros2 = pytest.importorskip("mcap_ros2.decoder")


def messages(drive: Path, topic: str) -> list[Any]:
    (path,) = drive.glob("*.mcap")
    with path.open("rb") as file:
        reader = mcap_reader.make_reader(file, decoder_factories=[mcap_ros2.DecoderFactory()])
        return [message for *_, message in reader.iter_decoded_messages(topics=[topic])]


def stamp_ns(message: Any) -> int:
    stamp = message.header.stamp
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


def frames_by_stamp(result: det_post.Result, channel: str) -> dict[int, list[det_post.Detection]]:
    frames: dict[int, list[det_post.Detection]] = {}
    for detection in result.detections(channel):
        frames.setdefault(detection["stamp_ns"], []).append(detection)
    return frames


@pytest.fixture(autouse=True)
def _rten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of the fixture `result`."""
    monkeypatch.delenv("ORT_DYLIB_PATH", raising=False)


RTEN = {"camera.engine.kind": "rten", "lidar.engine.kind": "rten"}


def test_a_camera_gives_the_detections_of_a_replay(
    drive: Path, config: Path, result: det_post.Result
) -> None:
    camera = det_post.Camera(config, channel="camera", params=RTEN, device="cpu")
    assert "car" in camera.class_names and "camera on cpu" in repr(camera)
    expected = frames_by_stamp(result, "camera")
    num_frames = 0
    for message in messages(drive, "/camera_0/image"):
        image = np.frombuffer(message.data, np.uint8).reshape(message.height, message.width, 3)
        found = camera.process(image, encoding=message.encoding)
        wanted = expected.get(stamp_ns(message), [])
        np.testing.assert_array_equal(found["boxes"], np.float32([d["box"] for d in wanted]).reshape(-1, 4))
        np.testing.assert_array_equal(found["scores"], np.float32([d["score"] for d in wanted]))
        np.testing.assert_array_equal(found["classes"], [d["class_id"] for d in wanted])
        num_frames += bool(wanted)
    assert num_frames == len(expected) > 0


def test_a_camera_gives_masks() -> None:
    shared = Path(os.environ.get("DET_POST_SHARED_DATA", "../shared/data"))
    network = shared / "detr" / "yolo26_seg_tiny.onnx"
    if not network.exists():
        pytest.skip("needs DET_POST_SHARED_DATA")
    params = {"c.input": "/i", "c.model_path": str(network), "c.engine.kind": "rten"}
    camera = det_post.Camera([], params={**params, "c.score_threshold": 0.25}, device="cpu")
    image = np.random.default_rng(5).integers(0, 255, (133, 201, 3)).astype(np.uint8)
    found = camera.process(image)
    masks, boxes = found["masks"], found["boxes"]
    assert masks.dtype == np.uint8 and masks.shape == (len(boxes), 133, 201) and len(boxes) > 0
    assert 0 < masks.sum() and masks.max() == 1
    for mask, (left, top, right, bottom) in zip(masks, np.ceil(boxes).astype(int)):
        assert mask.sum() == mask[top:bottom, left:right].sum()


def test_a_camera_gives_keypoints() -> None:
    shared = Path(os.environ.get("DET_POST_SHARED_DATA", "../shared/data"))
    network = shared / "detr" / "yolo26_pose_tiny.onnx"
    if not network.exists():
        pytest.skip("needs DET_POST_SHARED_DATA")
    params = {"c.input": "/i", "c.model_path": str(network), "c.engine.kind": "rten"}
    camera = det_post.Camera([], params={**params, "c.score_threshold": 0.25}, device="cpu")
    image = np.random.default_rng(5).integers(0, 255, (210, 150, 3)).astype(np.uint8)
    found = camera.process(image)
    keypoints, boxes = found["keypoints"], found["boxes"]
    assert keypoints.dtype == np.float32 and len(boxes) > 0
    assert keypoints.shape[0] == len(boxes) and keypoints.shape[2] == 3
    assert (keypoints[..., 0] <= 150).all() and (keypoints[..., 1] <= 210).all()
    assert (keypoints >= 0).all() and (keypoints[..., 2] <= 1).all() and keypoints[..., :2].max() > 1


def test_a_lidar_gives_the_detections_of_a_replay(
    drive: Path, config: Path, tmp_path: Path
) -> None:
    params = {**RTEN, "lidar.densification.num_past_sweeps": 0}
    result = det_post.replay(drive, config, params=params, device="cpu", onnxruntime=False)
    lidar = det_post.Lidar(config, channel="lidar", params=params, device="cpu")
    expected = frames_by_stamp(result, "lidar")
    num_frames = 0
    for message in messages(drive, "/lidar_0/points"):
        # Every field of the simulated sensor is read by its own type.
        names = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
        layout = np.dtype(
            {
                "names": [field.name for field in message.fields],
                "formats": [names[field.datatype] for field in message.fields],
                "offsets": [field.offset for field in message.fields],
                "itemsize": message.point_step,
            }
        )
        rows = np.frombuffer(message.data, layout)
        fields = ["x", "y", "z", "intensity"]
        points = np.stack([rows[name].astype(np.float32) for name in fields], axis=1)
        found = lidar.process(points, fields, stamp=stamp_ns(message) / 1e9)
        wanted = expected.get(stamp_ns(message), [])
        boxes = [[*d["center"], *d["size"], d["yaw"]] for d in wanted]  # type: ignore[misc]
        np.testing.assert_array_equal(found["boxes"], np.float32(boxes).reshape(-1, 7))
        np.testing.assert_array_equal(found["scores"], np.float32([d["score"] for d in wanted]))
        if "velocities" in found:
            velocities = np.float32([d["velocity"] for d in wanted]).reshape(-1, 2)
            np.testing.assert_array_equal(found["velocities"], velocities)
        num_frames += bool(wanted)
    assert num_frames == len(expected) > 0


def test_a_lidar_merges_past_sweeps_with_their_transforms(config: Path) -> None:
    rng = np.random.default_rng(1)
    points = rng.uniform(-20, 20, (500, 4)).astype(np.float32)
    lidar = det_post.Lidar(config, channel="lidar", params=RTEN, device="cpu")
    here = np.eye(4).tolist()
    first = lidar.process(points, stamp=10.0, transform=here)
    lidar.process(points, stamp=10.1, transform=here)
    lidar.reset()
    again = lidar.process(points, stamp=10.0, transform=here)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    with pytest.raises(ValueError, match="a rotation and a translation"):
        lidar.process(points, stamp=10.2, transform=(2 * np.eye(4)).tolist())
    with pytest.raises(ValueError, match=r"float32 \[N, 3\] is required"):
        lidar.process(points, ["x", "y", "z"])


def test_threads_run_while_a_reset_waits_for_a_sweep(config: Path) -> None:
    lidar = det_post.Lidar(config, channel="lidar", params=RTEN, device="cpu")
    points = np.random.default_rng(3).uniform(-30, 30, (100_000, 4)).astype(np.float32)
    sweep = threading.Thread(target=lambda: lidar.process(points))
    reset = threading.Thread(target=lidar.reset)
    sweep.start()
    time.sleep(0.02)
    reset.start()
    num_turns = 0
    while sweep.is_alive():
        time.sleep(0.001)
        num_turns += 1
    reset.join()
    assert num_turns > 5


def test_threads_share_a_camera(config: Path) -> None:
    camera = det_post.Camera(config, channel="camera", params=RTEN, device="cpu")
    image = np.random.default_rng(2).integers(0, 256, (360, 640, 3), np.uint8)
    expected = camera.process(image)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(camera.process(image))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    for each in found:
        np.testing.assert_array_equal(each["scores"], expected["scores"])


def test_wrong_channels_are_refused(config: Path) -> None:
    with pytest.raises(ValueError, match="the configuration has camera, lidar"):
        det_post.Camera(config)
    with pytest.raises(ValueError, match="camera.score_threshhold"):
        det_post.Camera(config, channel="camera", params={"camera.score_threshhold": 1})
    with pytest.raises(ValueError, match="no_such.onnx"):
        det_post.Camera(config, channel="camera", params={"camera.model_path": "no_such.onnx"})
    with pytest.raises(ValueError, match="isolated"):
        det_post.Camera(config, channel="camera", params={"camera.isolate": True})
    camera = det_post.Camera(config, channel="camera", params=RTEN, device="cpu")
    with pytest.raises(ValueError, match="uint8"):
        camera.process(np.zeros((4, 4, 3), np.float32))
    with pytest.raises(ValueError, match="an image|a point cloud"):
        det_post.Lidar(config, channel="camera", params=RTEN, device="cpu").process(
            np.zeros((4, 4), np.float32)
        )


def test_a_path_is_text_whatever_is_in_it(config: Path, tmp_path: Path) -> None:
    network = tmp_path / "my #1: run" / "camera.onnx"
    network.parent.mkdir()
    network.write_bytes(Path("models/camera.onnx").read_bytes())
    for path in (network, str(network)):
        params = {**RTEN, "camera.model_path": path}
        assert det_post.Camera(config, channel="camera", params=params, device="cpu").class_names
    with pytest.raises(ValueError, match="12"):
        det_post.Camera(config, channel="camera", params={**RTEN, "camera.model_path": Path("12")}, device="cpu")


def test_networks_opened_by_several_threads_run_on_the_installed_onnxruntime(config: Path) -> None:
    if importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("onnxruntime is not installed")
    found: list[str] = []

    def open_channels() -> None:
        for _ in range(4):
            found.append(repr(det_post.Camera(config, channel="camera", device="cpu")))
            found.append(repr(det_post.Lidar(config, channel="lidar", device="cpu")))

    threads = [threading.Thread(target=open_channels) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16 and all("onnxruntime" in each for each in found), found
    assert "ORT_DYLIB_PATH" not in os.environ
    # The library of the configuration goes before it.
    with pytest.raises(RuntimeError, match="none.so"):
        det_post.Camera(config, channel="camera", params={"camera.engine.library": "/none.so"}, device="cpu")
