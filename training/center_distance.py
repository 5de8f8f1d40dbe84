"""Average precision by the distance of centres, as nuScenes defines it, to follow the
training. Published figures come from `det_post eval`."""

import numpy as np

DISTANCES_M = (0.5, 1.0, 2.0, 4.0)


def average_precision(frames, klass: int, distance_m: float) -> float:
    """Of frames (truth [M, 4]: class, x, y, whether it counts; found [D, 4]: class, x, y,
    score). Truth that does not count is neither missed nor a mistake when it is found."""
    found = [(row[3], i, row[1:3]) for i, (_, rows) in enumerate(frames) for row in rows if row[0] == klass]
    found.sort(key=lambda entry: -entry[0])
    truth = [rows[rows[:, 0] == klass] for rows, _ in frames]
    free = [np.ones(len(rows), bool) for rows in truth]
    num_truth = sum(int(rows[:, 3].sum()) for rows in truth)
    if num_truth == 0:
        return float("nan")
    hits = []
    for _, frame, at in found:
        away = np.hypot(*(truth[frame][:, 1:3] - at).T)
        away[~free[frame]] = np.inf
        nearest = int(away.argmin()) if len(away) else -1
        if nearest >= 0 and away[nearest] < distance_m:
            free[frame][nearest] = False
            if truth[frame][nearest, 3]:
                hits.append(1)
        else:
            hits.append(0)
    hits = np.asarray(hits)
    if hits.sum() == 0:
        return 0.0
    right = hits.cumsum()
    precision = np.interp(np.linspace(0, 1, 101), right / num_truth, right / np.arange(1, len(hits) + 1), right=0)
    return float((precision[11:] - 0.1).clip(0).mean() / 0.9)
