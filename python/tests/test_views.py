"""View decoders on arrays: the golden frames of DETR3D, Sparse4D and StreamPETR."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import det_post
from conftest import ROOT
from det_post import ops

# Set by package.rs, which writes the networks: a data set and a folder with files of each case.
DATA, FILES = os.environ.get("DET_POST_VIEW_DATA"), os.environ.get("DET_POST_VIEW_FILES")
golden = pytest.mark.skipif(not FILES, reason="skipped: no golden data of view decoders")

# The tolerances of the tests of the crates: the largest difference of logits and of boxes by frame.
BOUNDS = {
    "detr3d_c64": [(7.5e-3, 3e-3)],
    "detr3d_c256": [(3.5e-4, 2.7e-4)],
    "sparse4d_c64": [(5e-5, 2.5e-5), (1e-4, 4e-5), (4e-4, 2.4e-4)],
    "petr_c64": [(5e-5, 3e-4)] * 4,
}


def tensors(case: str, name: str) -> dict[str, Any]:
    """The tensors of a file of the data."""
    raw = (Path(str(DATA)) / case / f"{name}.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    types = {"F32": np.float32, "F16": np.float16, "I32": np.int32, "U8": np.uint8}
    found = {}
    for key, entry in json.loads(raw[8 : 8 + length]).items():
        if key != "__metadata__":
            first, last = entry["data_offsets"]
            values = np.frombuffer(raw[8 + length + first : 8 + length + last], types[entry["dtype"]])
            found[key] = values.reshape(entry["shape"])
    return found


class Case:
    """A golden case and its decoder."""

    def __init__(
        self,
        name: str,
        head: dict[str, str] | None = None,
        device: str = "cpu",
        params: dict[str, Any] | None = None,
    ) -> None:
        self.name, self.is_streampetr = name, name == "petr_c64"
        self.inputs, self.expected = tensors(name, "inputs"), tensors(name, "expected")
        self.num_frames = len(BOUNDS[name])
        config = Path(str(FILES)) / name / "params.yaml"
        if head:
            text = (config.parent / "head.yaml").read_text()
            for old, new in head.items():
                assert old in text
                text = text.replace(old, new)
            other = config.parent / "other_head.yaml"
            other.write_text(text)
            self.params = {"rig.head": str(other)}
        else:
            self.params = {}
        self.params.update(params or {})
        self.decoder = det_post.ViewDecoder(config, params=self.params, device=device)
        if self.is_streampetr:
            intrinsics = np.tile(np.eye(3), (6, 1, 1))
            intrinsics[:, 0, 0], intrinsics[:, 1, 1] = self.inputs["focal"].T
            matrices = np.linalg.inv(self.inputs["img2base"].astype(np.float64))
            self.decoder.set_cameras(matrices, intrinsics=intrinsics)
        else:
            self.decoder.set_cameras(self.inputs["matrices"])

    def maps(self, frame: int) -> list[Any]:
        if self.is_streampetr:
            tokens = self.inputs[f"frame{frame}.tokens"].astype(np.float32).reshape(6, 5, 9, 64)
            return [np.ascontiguousarray(tokens.transpose(0, 3, 1, 2))]
        prefix = f"frame{frame}." if self.name == "sparse4d_c64" else ""
        names = [f"{prefix}features.{level}" for level in range(4)]
        return [self.inputs[name].copy() for name in names if name in self.inputs]

    def motion(self, frame: int) -> dict[str, Any]:
        if frame == 0:
            return {}
        if self.is_streampetr:
            past, now = (self.inputs[f"frame{i}.ego_pose"].astype(np.float64) for i in (frame - 1, frame))
            stamps = self.inputs["stamps"].astype(np.float64)
            return {
                "interval": float(stamps[frame] - stamps[frame - 1]),
                "current_from_past": np.linalg.inv(now) @ past,
            }
        return {
            "interval": float(self.inputs[f"frame{frame}.dt"][0]),
            "current_from_past": self.inputs[f"frame{frame}.current_from_past"],
        }

    def check(self, found: dict[str, Any], frame: int, prefix: str = "") -> None:
        logits, boxes = (np.asarray(found[name]) for name in ("logits", "boxes"))
        prefix += f"frame{frame}." if self.num_frames > 1 else ""
        of_logits, of_boxes = BOUNDS[self.name][frame]
        if self.is_streampetr:
            # The queries of the last layer.
            np.testing.assert_allclose(logits[-56:], self.expected[f"{prefix}logits"], atol=of_logits, rtol=0)
            np.testing.assert_allclose(boxes[-56:], self.expected[f"{prefix}reg"], atol=of_boxes, rtol=0)
            return
        np.testing.assert_allclose(logits, self.expected[f"{prefix}logits"], atol=of_logits, rtol=0)
        expected = self.expected[f"{prefix}boxes"]
        yaw = np.arctan2(boxes[:, 6], boxes[:, 7])[:, None]
        decoded = np.hstack([boxes[:, :3], np.exp(boxes[:, 3:6]), yaw, boxes[:, 8:]])
        np.testing.assert_allclose(decoded[:, : expected.shape[1]], expected, atol=of_boxes, rtol=0)
        if "quality" in found:
            quality = self.expected[f"{prefix}quality"]
            np.testing.assert_allclose(found["quality"], quality, atol=of_logits, rtol=0)


@golden
@pytest.mark.parametrize("name", list(BOUNDS))
def test_golden_frames(name: str) -> None:
    case = Case(name)
    for frame in range(case.num_frames):
        case.check(case.decoder.run(case.maps(frame), **case.motion(frame)), frame)


@golden
@pytest.mark.parametrize("name", ["detr3d_c64", "detr3d_c256", "sparse4d_c64"])
def test_int8_maps_are_read_in_every_layout(name: str) -> None:
    """As they are: the queries of floats that the decoder quantizes by the same scales."""
    scale = 0.03125
    params = {"rig.decoder.map_scales": [scale] * 4}
    case = Case(name, params=params)
    expected = case.decoder.run(case.maps(0))
    maps = [np.clip(np.rint(map / np.float32(scale)), -127, 127).astype(np.int8) for map in case.maps(0)]
    layouts = {
        "planar": lambda map: map,
        "channels_last": lambda map: map.transpose(0, 2, 3, 1),
        "blocks_32": lambda map: map.reshape(6, -1, 32, *map.shape[2:]).transpose(0, 1, 3, 4, 2),
    }
    for layout, lay_out in layouts.items():
        head = {"class_names:": f"feature_layout: {layout}\nclass_names:"}
        case = Case(name, head, params=params)
        found = case.decoder.run([np.ascontiguousarray(lay_out(map)) for map in maps])
        for key, values in expected.items():
            np.testing.assert_array_equal(found[key], values, err_msg=f"{layout} {key}")
    without = Case(name)
    with pytest.raises(RuntimeError, match="is int8: set decoder.map_scales"):
        without.decoder.run(maps)


@golden
@pytest.mark.parametrize("name", ["detr3d_c64", "detr3d_c256"])
def test_the_residual_may_include_the_position(name: str) -> None:
    case = Case(name, {"attention_residual: query": "attention_residual: query_with_position"})
    case.check(case.decoder.run(case.maps(0)), 0, "residual_with_position.")


@golden
def test_the_yaw_of_cached_anchors_may_be_corrected() -> None:
    case = Case("sparse4d_c64", {"cached_yaw: cos_sin": "cached_yaw: sin_cos"})
    for frame in range(3):
        found = case.decoder.run(case.maps(frame), **case.motion(frame))
        if frame > 0:
            case.check(found, frame, "corrected_yaw.")


@golden
@pytest.mark.parametrize("name", ["sparse4d_c64", "petr_c64"])
def test_a_memory_is_an_object(name: str) -> None:
    case = Case(name)
    assert case.decoder.has_memory and case.decoder.memory() == {}
    first = case.decoder.run(case.maps(0))
    memory = case.decoder.memory()
    second = case.decoder.run(case.maps(1), **case.motion(1))
    # Another decoder of the same files goes on from it.
    other = Case(name)
    other.decoder.set_memory(memory)
    again = other.decoder.run(case.maps(1), **case.motion(1))
    np.testing.assert_array_equal(again["logits"], second["logits"])
    np.testing.assert_array_equal(again["boxes"], second["boxes"])
    # Without one, a motion makes no difference.
    other.decoder.reset()
    assert other.decoder.memory() == {}
    single = other.decoder.run(case.maps(0), **case.motion(1))
    np.testing.assert_array_equal(single["logits"], first["logits"])
    for wrong, words in [
        ({**memory, "other": np.zeros(1, np.float32)}, "memory has other; allowed: "),
        (dict(list(memory.items())[1:]), "memory has no "),
        ({key: value[1:].copy() for key, value in memory.items()}, " expected"),
        ({key: np.full_like(value, np.nan) for key, value in memory.items()}, "not finite"),
    ]:
        with pytest.raises(ValueError, match=words):
            other.decoder.set_memory(wrong)


@golden
def test_a_missing_camera_is_not_read() -> None:
    case = Case("detr3d_c64")
    present = [True] * 6
    present[2] = False
    case.decoder.set_cameras(case.inputs["matrices"], present=present)
    maps = [np.asarray(map, np.float32) for map in case.maps(0)]
    found = case.decoder.run(maps)
    for map in maps:
        map[2] = np.nan
    np.testing.assert_array_equal(case.decoder.run(maps)["logits"], found["logits"])


@golden
def test_queries_become_boxes() -> None:
    case = Case("sparse4d_c64")
    found = case.decoder.run(case.maps(0))
    boxes = ops.decode_query(found["logits"], found["boxes"], found["quality"], score_threshold=0.3)
    assert len(boxes["scores"]) > 0 and boxes["boxes"].shape[1] == 7


@golden
def test_what_does_not_fit_is_refused() -> None:
    case = Case("detr3d_c64")
    decoder, maps = case.decoder, case.maps(0)
    assert (decoder.num_cameras, decoder.num_maps, decoder.num_queries) == (6, 3, 96)
    assert decoder.input_size == (368, 144) and decoder.class_names[3] == "c3"
    matrices = case.inputs["matrices"]
    cases: list[tuple[str, Any]] = [
        ("2 feature maps; the head has 3", lambda: decoder.run(maps[:2])),
        ("maps is empty", lambda: decoder.run([])),
        ("given together", lambda: decoder.run(maps, interval=0.1)),
        ("interval is 0", lambda: decoder.run(maps, interval=0.0, current_from_past=np.eye(4))),
        ("rotation and a translation", lambda: decoder.run(
            maps, interval=0.1, current_from_past=2 * np.eye(4))),
        ("5 cameras; the network has 6", lambda: decoder.set_cameras(matrices[:5])),
        ("3 by 4 are required", lambda: decoder.set_cameras(matrices[:, :2])),
        ("camera 0: a value of its matrix", lambda: decoder.set_cameras(matrices * np.nan)),
        ("no memory of past frames", lambda: decoder.set_memory({"boxes": np.zeros(1, np.float32)})),
        ("one sensor", lambda: det_post.ViewDecoder(
            ROOT / "config" / "demo.param.yaml", channel="camera")),
    ]
    for words, call in cases:
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(RuntimeError, match="6 cameras and 64 channels"):
        decoder.run([maps[0][:, :32].copy(), maps[1], maps[2]])
    fresh = det_post.ViewDecoder(Path(str(FILES)) / "detr3d_c64" / "params.yaml", device="cpu")
    with pytest.raises(ValueError, match="before the cameras are set"):
        fresh.run(maps)
    streampetr = Case("petr_c64").decoder
    with pytest.raises(ValueError, match="needs its intrinsic matrix"):
        streampetr.set_cameras(matrices)


@golden
@pytest.mark.parametrize("name", list(BOUNDS))
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_golden_frames_on_a_gpu(name: str, library: str) -> None:
    """Maps in the memory of a GPU, in f32; queries are returned there."""
    module = pytest.importorskip(library)
    try:
        if library == "torch" and not module.cuda.is_available():
            pytest.skip("skipped: no GPU")
        if library == "cupy" and module.cuda.runtime.getDeviceCount() == 0:
            pytest.skip("skipped: no GPU")
    except Exception as error:
        pytest.skip(f"skipped: no GPU: {error}")
    to_gpu = (lambda a: module.from_numpy(a).cuda()) if library == "torch" else module.asarray
    to_host = (lambda a: a.cpu().numpy()) if library == "torch" else module.asnumpy
    case = Case(name, device="cuda:0")
    for frame in range(case.num_frames):
        memory = case.decoder.memory()
        maps = [to_gpu(np.asarray(map)) for map in case.maps(frame)]
        found = case.decoder.run(maps, **case.motion(frame))
        assert all(type(array) is type(maps[0]) for array in found.values())
        case.check({key: to_host(array) for key, array in found.items()}, frame)
        # The memory goes to the host and back without a loss.
        case.decoder.set_memory(memory)
        again = case.decoder.run(maps, **case.motion(frame))
        np.testing.assert_array_equal(to_host(again["logits"]), to_host(found["logits"]))
    with pytest.raises(ValueError, match="maps are on the CPU"):
        case.decoder.run(case.maps(0))
