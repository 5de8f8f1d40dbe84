#!/usr/bin/env python3
"""Evaluates random frames by the published definitions and compares with det_post.

    pip install numpy pycocotools
    cargo test --test cli eval_peers        # writes the frames and calls this file

COCO's figures come from pycocotools. nuScenes' and KITTI's are computed here, from the papers and
the descriptions of their evaluations, with only numpy and by other means than det_post's: sets and
loops where it shares one matching, an angular sweep where it cuts polygons.
"""

import contextlib
import io
import json
import sys

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

TOLERANCE = 1e-4


def counts_3d(truth, f):
    x, y, _ = truth["center"]
    return truth["num_points"] >= f["min_points"] and f["min_range_m"] <= np.hypot(x, y) < f["max_range_m"]


def in_range(detection, f):
    x, y, _ = detection["center"]
    return f["min_range_m"] <= np.hypot(x, y) < f["max_range_m"]


# nuScenes


def center_distance(a, b):
    return float(np.linalg.norm(np.subtract(a["center"][:2], b["center"][:2])))


def errors_of(detection, truth):
    a, b = np.array(detection["size"]), np.array(truth["size"])
    common = np.prod(np.minimum(a, b))
    turn = (truth["yaw"] - detection["yaw"] + np.pi) % (2 * np.pi) - np.pi
    velocity = detection["velocity"]
    return {
        "translation_m": center_distance(detection, truth),
        "scale": 1 - common / (np.prod(a) + np.prod(b) - common),
        "heading_rad": abs(turn),
        "velocity_mps": np.nan if velocity is None else np.linalg.norm(np.subtract(velocity, truth["velocity"])),
    }


def running_mean(values):
    values = np.array(values, float)
    known = np.cumsum(~np.isnan(values))
    return np.divide(np.nancumsum(values), known, out=np.zeros(len(values)), where=known > 0)


def nuscenes(frames, name, f, threshold):
    truth = [(i, t) for i, frame in enumerate(frames) for t in frame["truth"] if t["class"] == name]
    num_truth = sum(counts_3d(t, f) for _, t in truth)
    ranked = [(i, d) for i, frame in enumerate(frames) for d in frame["detections"] if d["class"] == name]
    ranked.sort(key=lambda item: -item[1]["score"])
    taken, right, scores, errors, matched_scores = set(), [], [], [], []
    for i, detection in ranked:
        free = [k for k, (frame, _) in enumerate(truth) if frame == i and k not in taken]
        near = min(free, key=lambda k: center_distance(detection, truth[k][1]), default=None)
        if near is not None and center_distance(detection, truth[near][1]) < threshold:
            taken.add(near)
            if not counts_3d(truth[near][1], f):
                continue
            errors.append(errors_of(detection, truth[near][1]))
            matched_scores.append(detection["score"])
            right.append(True)
        elif in_range(detection, f):
            right.append(False)
        else:
            continue
        scores.append(detection["score"])
    grid = np.linspace(0, 1, 101)
    if not errors:
        return num_truth, 0.0, np.zeros(101), dict.fromkeys(["translation_m", "scale", "heading_rad", "velocity_mps"], 1.0)
    tp, fp = np.cumsum(right), np.cumsum(~np.array(right))
    recall = tp / num_truth
    precision = np.interp(grid, recall, tp / (tp + fp), right=0)
    confidence = np.interp(grid, recall, scores, right=0)
    average = np.mean(np.maximum(precision[11:] - 0.1, 0)) / 0.9
    last = np.nonzero(confidence)[0].max(initial=0)
    means = {}
    for key in errors[0]:
        values = [e[key] for e in errors]
        if np.all(np.isnan(values)):
            means[key] = None
            continue
        curve = np.interp(confidence[::-1], matched_scores[::-1], running_mean(values)[::-1])[::-1]
        means[key] = float(np.mean(curve[11 : last + 1])) if last >= 11 else 1.0
    return num_truth, float(average), precision, means


# KITTI


def corners(box):
    (x, y, _), (length, width, _), yaw = box["center"], box["size"], box["yaw"]
    local = 0.5 * np.array([[length, width], [-length, width], [-length, -width], [length, -width]])
    turn = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    return local @ turn.T + [x, y]


def inside(point, box):
    dx, dy = point[0] - box["center"][0], point[1] - box["center"][1]
    cos, sin = np.cos(box["yaw"]), np.sin(box["yaw"])
    return abs(dx * cos + dy * sin) <= box["size"][0] / 2 + 1e-9 and abs(dy * cos - dx * sin) <= box["size"][1] / 2 + 1e-9


def crossing(a, b, c, d):
    matrix = np.array([b - a, c - d]).T
    if abs(np.linalg.det(matrix)) < 1e-12:
        return None
    t, u = np.linalg.solve(matrix, c - a)
    return a + t * (b - a) if -1e-12 <= t <= 1 + 1e-12 and -1e-12 <= u <= 1 + 1e-12 else None


def common_area(a, b):
    of_a, of_b = corners(a), corners(b)
    points = [p for p in of_a if inside(p, b)] + [p for p in of_b if inside(p, a)]
    for i in range(4):
        for j in range(4):
            point = crossing(of_a[i], of_a[(i + 1) % 4], of_b[j], of_b[(j + 1) % 4])
            points += [] if point is None else [point]
    if len(points) < 3:
        return 0.0
    points = np.array(points)
    middle = points.mean(0)
    x, y = (points[np.argsort(np.arctan2(*(points - middle).T[::-1]))] - middle).T
    return float(0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)))


def overlap(a, b, space):
    if np.hypot(*np.subtract(a["center"][:2], b["center"][:2])) > 30:
        return 0.0
    common, size_a, size_b = common_area(a, b), np.prod(a["size"][:2]), np.prod(b["size"][:2])
    if space:
        top = min(a["center"][2] + a["size"][2] / 2, b["center"][2] + b["size"][2] / 2)
        bottom = max(a["center"][2] - a["size"][2] / 2, b["center"][2] - b["size"][2] / 2)
        common, size_a, size_b = common * max(top - bottom, 0), np.prod(a["size"]), np.prod(b["size"])
    return common / (size_a + size_b - common)


def kitti_frame(frame, f, min_overlap, threshold):
    """Right, wrong, and the scores of what is right; without threshold the best score wins."""
    truth, detections, table = frame
    assigned, right, wrong, scores = set(), 0, 0, []
    for t, row in zip(truth, table):
        fits = [
            j
            for j, d in enumerate(detections)
            if j not in assigned and row[j] > min_overlap and (threshold is None or d["score"] >= threshold)
        ]
        if not fits:
            continue
        if threshold is None:
            best = max(fits, key=lambda j: detections[j]["score"])
        else:
            counted = [j for j in fits if in_range(detections[j], f)]
            best = max(counted, key=lambda j: row[j]) if counted else fits[0]
        assigned.add(best)
        if counts_3d(t, f) and in_range(detections[best], f):
            right += 1
            scores.append(detections[best]["score"])
    if threshold is not None:
        rest = (d for j, d in enumerate(detections) if j not in assigned)
        wrong = sum(d["score"] >= threshold and in_range(d, f) for d in rest)
    return right, wrong, scores


def kitti(frames, f, min_overlap):
    num_truth = sum(counts_3d(t, f) for truth, _, _ in frames for t in truth)
    if num_truth == 0:
        return None
    scores = sorted((s for frame in frames for s in kitti_frame(frame, f, min_overlap, None)[2]), reverse=True)
    thresholds, wanted = [], 0.0
    for i, score in enumerate(scores):
        here = (i + 1) / num_truth
        following = (i + 2) / num_truth if i + 1 < len(scores) else here
        if following - wanted < wanted - here and i + 1 < len(scores):
            continue
        thresholds.append(score)
        wanted += 1 / 40
    precision = np.zeros(41)
    for i, threshold in enumerate(thresholds[:41]):
        tallies = [kitti_frame(frame, f, min_overlap, threshold)[:2] for frame in frames]
        right, wrong = np.sum(tallies, axis=0)
        precision[i] = right / max(right + wrong, 1)
    return float(np.mean([precision[i:].max() for i in range(1, 41)]))


# COCO


def coco(frames, name, f, measure):
    images = [{"id": i, "width": 720, "height": 420} for i in range(len(frames))]
    annotations = {"truth": [], "detections": []}
    for i, frame in enumerate(frames):
        for kind, items in annotations.items():
            for item in (item for item in frame[kind] if item["class"] == name):
                x1, y1, x2, y2 = item["box"]
                entry = {"id": len(items) + 1, "image_id": i, "category_id": 1, "iscrowd": 0}
                # The range that COCO asks of areas is asked of heights here.
                entry |= {"bbox": [x1, y1, x2 - x1, y2 - y1], "area": y2 - y1}
                entry |= {key: item[key] for key in ("segmentation", "keypoints", "num_keypoints")}
                if measure == "keypoints":
                    entry["area"] = item["area"]
                if kind == "truth":
                    is_high = f["min_height"] <= y2 - y1 < f["max_height"]
                    entry["iscrowd"] = int(not is_high or item["visibility"] < f["min_visibility"])
                else:
                    entry["score"] = item["score"]
                items.append(entry)
    with contextlib.redirect_stdout(io.StringIO()):
        sides = []
        for items in annotations.values():
            side = COCO()
            side.dataset = {"images": images, "categories": [{"id": 1}], "annotations": items}
            side.createIndex()
            sides.append(side)
        evaluation = COCOeval(*sides, measure)
        parameters = evaluation.params
        parameters.areaRng, parameters.areaRngLbl = [[f["min_height"], f["max_height"]]], ["all"]
        parameters.maxDets = [20 if measure == "keypoints" else 100]
        evaluation.evaluate()
        evaluation.accumulate()
    return evaluation.eval["precision"][:, :, 0, 0, 0]


# Comparison


class Comparison:
    def __init__(self):
        self.num = 0
        self.worst = 0.0

    def check(self, what, found, expected):
        self.num += 1
        if found is None or expected is None:
            assert found is expected, (what, found, expected)
            return
        difference = float(np.abs(np.asarray(found, float) - np.asarray(expected, float)).max())
        self.worst = max(self.worst, difference)
        assert difference <= TOLERANCE, (what, found, expected)


def compare_3d(data, against):
    frames = data["frames"]
    tables = {}
    for case in data["cases"]:
        name, f, found = case["class"], case["filter"], case["found"]
        for i, threshold in enumerate([0.5, 1.0, 2.0, 4.0]):
            num_truth, average, precision, errors = nuscenes(frames, name, f, threshold)
            assert num_truth == found["num_truth"], (case, num_truth)
            against["nuScenes"].check("ap", found["ap"] and found["ap"][i], average if num_truth else None)
            if threshold == 2.0 and num_truth:
                against["nuScenes"].check("precision", found["precision"], precision)
                for key, value in errors.items():
                    against["nuScenes"].check(key, found["errors"][key], value)
        for space in (False, True):
            if (name, space) not in tables:
                tables[name, space] = []
                for frame in frames:
                    truth, detections = ([x for x in frame[kind] if x["class"] == name] for kind in ("truth", "detections"))
                    table = [[overlap(d, t, space) for d in detections] for t in truth]
                    tables[name, space].append((truth, detections, table))
            expected = kitti(tables[name, space], f, case["min_overlap"])
            against["KITTI"].check(f"space {space}", found["space" if space else "bev"], expected)


def compare_2d(data, all_against):
    for case in data["cases"]:
        found, precision = case["found"], coco(data["frames"], case["class"], case["filter"], case["measure"])
        if found["ap"] is None:
            assert (precision == -1).all(), (case, precision)
            continue
        against = all_against["COCO " + case["measure"]]
        against.check("ap", found["ap"], precision.mean(1))
        against.check("precision", found["precision"], precision[0])


def main():
    against = {name: Comparison() for name in ("nuScenes", "KITTI", "COCO bbox", "COCO segm", "COCO keypoints")}
    with open(sys.argv[1]) as file:
        for data in json.load(file):
            compare_3d(data["space"], against)
            compare_2d(data["image"], against)
    for name, comparison in against.items():
        # Of keypoints there are fewer filters.
        assert comparison.num >= 40, (name, comparison.num)
        print(f"{name}: {comparison.num} figures agree, worst difference {comparison.worst:.1e}")


if __name__ == "__main__":
    main()
