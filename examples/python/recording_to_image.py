"""From a recording to a table to an image: the cells of a notebook as a script.

    pip install det-post pandas
    python examples/python/recording_to_image.py [FOLDER]

Run it in a clone of the repository: it takes the networks in `models/`. Editors show the `# %%`
lines as cells.
"""

# %% A recording with ground truth
import sys
from pathlib import Path

import numpy as np

import det_post
from det_post import ops

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "notebook")
drive = det_post.simulate(folder / "drive", seed=9000, seconds=0.5, points=20_000)

# %% Its detections
result = det_post.replay(drive, "config/demo.param.yaml", out=folder / "out", images=1)
print(result)

# %% As a table
table = result.to_pandas()
print(table.groupby(["channel", "class_name"]).agg(boxes=("score", "size"), score=("score", "mean")))

# %% Against the truth
print(det_post.evaluate(result, drive))

# %% The boxes of one frame, suppressed more strictly
lidar = table[table.channel == "lidar"]
frame = lidar[lidar.stamp_ns == lidar.stamp_ns.min()]
centers = np.array([center[:2] for center in frame.center], np.float32)
keep = ops.circle_nms(centers, frame.score.to_numpy(np.float32), 2.0)
print(f"{len(keep)} of {len(frame)} boxes are 2 m or more from a better one")

# %% An image
for image in sorted((folder / "out" / "images").iterdir()):
    print(image)
