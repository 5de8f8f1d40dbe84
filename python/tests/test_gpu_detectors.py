"""Channels on arrays of a GPU: the detections of the same messages in host memory."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import det_post

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

# Noise has no objects: most boxes of the networks are let through.
PARAMS = {
    "camera.engine.kind": "rten",
    "camera.score_threshold": 0.001,
    "lidar.engine.kind": "rten",
    "lidar.score_thresholds": [0.01],
}
SHAPES = {
    "rgb8": ((97, 161, 3), np.uint8),
    "bgra8": ((96, 160, 4), np.uint8),
    "mono8": ((97, 161), np.uint8),
    "mono16": ((97, 161), np.uint16),
    "bayer_rggb8": ((96, 160), np.uint8),
    "yuv422_yuy2": ((96, 160, 2), np.uint8),
    "nv12": ((144, 160), np.uint8),
}
HERE = np.eye(4).tolist()


@pytest.fixture(scope="module")
def camera(config: Path) -> det_post.Camera:
    return det_post.Camera(config, channel="camera", params=PARAMS, device="cuda:0")


@pytest.fixture(scope="module")
def lidar(config: Path) -> det_post.Lidar:
    return det_post.Lidar(config, channel="lidar", params=PARAMS, device="cuda:0")


def noise(encoding: str, seed: int = 0) -> Any:
    shape, dtype = SHAPES[encoding]
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def sweep(seed: int, num: int = 20_000) -> Any:
    points = np.random.default_rng(seed).normal(0, 1, (num, 4)) * [12, 12, 0.8, 0.3]
    return points.astype(np.float32)


def equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The same numbers, on the GPU."""
    assert found.keys() == expected.keys() and len(expected["scores"]) > 0
    for name, values in expected.items():
        if isinstance(found[name], torch.Tensor):
            assert found[name].is_cuda
            array = found[name].cpu().numpy()
        else:
            assert type(found[name]).__module__.startswith("cupy")
            array = found[name].get()
        np.testing.assert_array_equal(array, values)
        assert array.dtype == values.dtype


@pytest.mark.parametrize("encoding", SHAPES)
def test_images_give_the_detections_of_host_memory(
    camera: det_post.Camera, encoding: str
) -> None:
    image = noise(encoding)
    expected = camera.process(image, encoding=encoding)
    if image.dtype == np.uint16:
        # torch copies few operations of uint16, the bits do.
        on_gpu = torch.from_numpy(image.view(np.int16)).cuda().view(torch.uint16)
    else:
        on_gpu = torch.from_numpy(image).cuda()
    equal(camera.process(on_gpu, encoding=encoding), expected)


def test_an_image_begins_at_any_byte(camera: det_post.Camera) -> None:
    rows = noise("rgb8")
    whole = torch.from_numpy(rows).cuda()
    for first in (1, 3, 10):
        equal(camera.process(whole[first:]), camera.process(rows[first:]))


def test_sweeps_are_merged_as_those_of_host_memory(lidar: det_post.Lidar) -> None:
    moved = np.eye(4)
    moved[0, 3] = 0.7
    messages = [(10.0, HERE), (10.1, moved.tolist()), (10.2, HERE)]
    lidar.reset()
    expected = [
        lidar.process(sweep(seed), stamp=stamp, transform=pose)
        for seed, (stamp, pose) in enumerate(messages)
    ]
    lidar.reset()
    for seed, (stamp, pose) in enumerate(messages):
        points = torch.from_numpy(sweep(seed)).cuda()
        equal(lidar.process(points, stamp=stamp, transform=pose), expected[seed])


def test_what_is_queued_on_the_current_stream_is_awaited(
    camera: det_post.Camera, lidar: det_post.Lidar
) -> None:
    image, points = noise("rgb8", 1), sweep(1)
    lidar.reset()
    boxes, clusters = camera.process(image), lidar.process(points)
    source = torch.from_numpy(image).cuda(), torch.from_numpy(points).cuda()
    for stream in (torch.cuda.Stream(), torch.cuda.default_stream()):
        with torch.cuda.stream(stream):
            stream.wait_stream(torch.cuda.default_stream())
            for _ in range(5):
                late = [torch.zeros_like(array) for array in source]
                torch.cuda._sleep(20_000_000)
                for array, values in zip(late, source, strict=True):
                    array.copy_(values)
                # Without a transform no sweep is merged.
                equal(camera.process(late[0]), boxes)
                equal(lidar.process(late[1]), clusters)
                # The caching allocator gives their memory to the next tensors at once.
                del late
                torch.full((97, 161, 3), 255, dtype=torch.uint8, device="cuda")


def test_cupy_arrays_give_cupy_arrays(camera: det_post.Camera, lidar: det_post.Lidar) -> None:
    cupy = pytest.importorskip("cupy")
    lidar.reset()
    image, points = noise("mono8", 2), sweep(2)
    boxes, clusters = camera.process(image, encoding="mono8"), lidar.process(points)
    with cupy.cuda.Stream(non_blocking=True):
        equal(camera.process(cupy.asarray(image), encoding="mono8"), boxes)
        equal(lidar.process(cupy.asarray(points)), clusters)


def test_threads_share_a_camera(camera: det_post.Camera) -> None:
    images = [noise("rgb8", seed) for seed in range(4)]
    expected = [camera.process(image) for image in images]
    found: dict[int, Any] = {}

    def detect(index: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            found[index] = camera.process(torch.from_numpy(images[index]).cuda())

    threads = [threading.Thread(target=detect, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, each in enumerate(expected):
        equal(found[index], each)


def test_two_hundred_frames_do_not_grow(camera: det_post.Camera, lidar: det_post.Lidar) -> None:
    image, points = torch.from_numpy(noise("rgb8")).cuda(), torch.from_numpy(sweep(3)).cuda()

    def run(num: int) -> int:
        for _ in range(num):
            camera.process(image)
            lidar.process(points)
        gc.collect()
        torch.cuda.synchronize()
        free, _ = torch.cuda.mem_get_info()
        return int(free)

    before = run(20)
    assert before - run(200) < 1 << 20


def test_arrays_of_another_device_are_refused(config: Path, camera: det_post.Camera) -> None:
    on_cpu = det_post.Camera(config, channel="camera", params=PARAMS, device="cpu")
    image = torch.from_numpy(noise("rgb8")).cuda()
    with pytest.raises(ValueError, match="image is on cuda:0; the channel is camera on cpu"):
        on_cpu.process(image)
    with pytest.raises(ValueError, match=r"uint8 \[H, W, 3\] is required for rgb8"):
        camera.process(image.float())
    with pytest.raises(ValueError, match="not contiguous"):
        camera.process(image[:, ::2])
    # None of them costs the next frame.
    equal(camera.process(image), camera.process(noise("rgb8")))
