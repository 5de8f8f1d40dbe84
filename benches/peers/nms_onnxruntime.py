#!/usr/bin/env python3
"""Times nms_iou beside ONNX Runtime's NonMaxSuppression, one thread each.

Needs numpy, onnx and onnxruntime. Run from the repository's root:

    python3 benches/peers/nms_onnxruntime.py

Both sides get the same unsorted boxes through a file and must keep the same
ones. Scenes, IoU threshold 0.5, one class, medians:

- clustered: 60 % of the boxes lie around one of N / 50 objects (centre moved
  by up to 10 % of the side, sides 0.8 to 1.25 times), the others anywhere on
  1920 x 1080 pixels, sides log-uniform from 8 to 400 pixels;
- sparse: boxes anywhere on 8192 x 8192 pixels, sides uniform from 8 to 40.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from both_sides import bench_binary

IOU_THRESHOLD = 0.5


def clustered(rng, num):
    def anywhere(count):
        centers = rng.uniform([0, 0], [1920, 1080], (count, 2))
        return centers, np.exp(rng.uniform(np.log(8), np.log(400), (count, 2)))

    num_near = num * 6 // 10
    centers, sides = anywhere(num // 50)
    chosen = rng.integers(0, num // 50, num_near)
    near_sides = sides[chosen] * rng.uniform(0.8, 1.25, (num_near, 2))
    near_centers = centers[chosen] + sides[chosen] * rng.uniform(-0.1, 0.1, (num_near, 2))
    far_centers, far_sides = anywhere(num - num_near)
    return np.concatenate([near_centers, far_centers]), np.concatenate([near_sides, far_sides])


def sparse(rng, num):
    return rng.uniform(0, 8192, (num, 2)), rng.uniform(8, 40, (num, 2))


def boxes_of(scene, num):
    """Rows x1 y1 x2 y2 score, float32, in no order."""
    rng = np.random.default_rng(num)
    centers, sides = scene(rng, num)
    scores = rng.permutation(num)[:, None] / num
    rows = np.concatenate([centers - sides / 2, centers + sides / 2, scores], axis=1)
    return rng.permutation(rows).astype("<f4")


def session():
    """A model of one NonMaxSuppression node."""
    names = ["boxes", "scores", "max_output_boxes_per_class", "iou_threshold"]
    shapes = [[1, None, 4], [1, 1, None], [1], [1]]
    types = [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT]
    inputs = [helper.make_tensor_value_info(*facts) for facts in zip(names, types, shapes)]
    output = helper.make_tensor_value_info("selected", TensorProto.INT64, [None, 3])
    node = helper.make_node("NonMaxSuppression", names, ["selected"])
    graph = helper.make_graph([node], "nms", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def time_peer(peer, rows, repetitions):
    feed = {
        "boxes": np.ascontiguousarray(rows[None, :, :4]),
        "scores": np.ascontiguousarray(rows[None, None, :, 4]),
        "max_output_boxes_per_class": np.array([len(rows)], dtype=np.int64),
        "iou_threshold": np.array([IOU_THRESHOLD], dtype=np.float32),
    }
    times = []
    for _ in range(repetitions):
        start = time.perf_counter_ns()
        (selected,) = peer.run(None, feed)
        times.append(time.perf_counter_ns() - start)
    return np.median(times), selected[:, 2]


def time_ours(bench, rows, folder):
    boxes, keep = Path(folder, "boxes.f32"), Path(folder, "keep.u32")
    rows.tofile(boxes)
    command = [bench, "time", boxes, keep, str(IOU_THRESHOLD)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(result.stdout), np.fromfile(keep, dtype="<u4")


def main():
    bench, peer = bench_binary("nms"), session()
    print(f"onnxruntime {onnxruntime.__version__}, IoU threshold {IOU_THRESHOLD}")
    print(f"{'scene':<10} {'boxes':>6} {'kept':>6} {'ours us':>9} {'peer us':>10} {'ratio':>7}")
    all_equal = True
    with tempfile.TemporaryDirectory() as folder:
        for scene in (clustered, sparse):
            for num, repetitions in ((1000, 51), (5000, 15), (20000, 5)):
                rows = boxes_of(scene, num)
                ours, kept = time_ours(bench, rows, folder)
                peers, peers_kept = time_peer(peer, rows, repetitions)
                equal = np.array_equal(kept, peers_kept)
                all_equal &= equal
                print(
                    f"{scene.__name__:<10} {num:>6} {len(kept):>6} {ours / 1e3:>9.1f} "
                    f"{peers / 1e3:>10.1f} {peers / ours:>7.1f}{'' if equal else '  DIFFERENT'}"
                )
    sys.exit(0 if all_equal else 1)


if __name__ == "__main__":
    main()
