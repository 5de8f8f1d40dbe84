"""Makes a small random checkpoint of OpenPCDet's VoxelNeXt, and what torch computes with it
densely in f64: the reference of tools/export_sparse.py.

    voxelnext.py LAYOUT checkpoint.pth reference.json

The reference holds voxels (coordinates z y x and features), the sites of the head (y x, in
ascending order) with the outputs of all branches, and the boxes of the head as
`VoxelNeXtHead` decodes them: for each task the best pairs of a site and a class.
"""

import json
import sys

import torch
from torch.nn.functional import conv3d, max_pool3d

import checkpoint
from checkpoint import STORED, Encoder

GRID = (41, 96, 128)
CHANNELS = (6, 8, 10, 12, 12)
NUM_FEATURES, NUM_OUT = 5, 14
NUM_VOXELS = 12
TASKS = (1, 2)
BRANCHES = {"center": 2, "center_z": 1, "dim": 3, "rot": 2, "vel": 2, "iou": 1}
# Facts of the decoder.
VOXEL, RANGE_MIN, STRIDE, TOP_K = (0.1, 0.12, 0.2), (-2.0, -3.0), 8, 500
RECTIFIER = (0.68, 0.71, 0.65)


class VoxelNeXt(Encoder):
    def __init__(self, layout):
        super().__init__("openpcdet_res")
        self.stored = STORED[layout]
        self.random = torch.Generator().manual_seed(90 + list(STORED).index(layout))

    def conv(self, x, mask, conv, norm, num_out, kernel=(3, 3, 3), stride=None, padding=None,
             bias=False, eps=1e-3):  # fmt: skip
        checkpoint.EPS = eps
        return super().conv(x, mask, conv, norm, num_out, kernel, stride, padding, bias)

    def plane_weights(self):
        """Weights on a plane are stored without the axis of the layers; spconv 2 reads kernels of
        one cell as [in, out], whatever their shape is."""
        layer = self.stored.index(1)
        for name, tensor in list(self.state.items()):
            is_plane = name.startswith(("conv_out", "shared_conv", "heads_list"))
            if not is_plane or tensor.dim() != 5:
                continue
            if tensor.shape.numel() == tensor.shape[self.stored.index(0)] * tensor.shape[self.stored.index(4)]:
                out_in = tensor.permute([self.stored.index(axis) for axis in range(5)]).flatten(1)
                tensor = out_in.T.contiguous().reshape(tensor.shape)
            self.state[name] = tensor.squeeze(layer)

    def run(self, x, mask):
        x, _ = self.conv(x, mask, "conv_input.0", "conv_input.1", CHANNELS[0])
        x, ends = x.relu(), []
        for stage in range(1, 7):
            num_out = CHANNELS[min(stage, 5) - 1]
            first = 0
            if stage > 1:
                kernel, padding = ((5,) * 3, (2,) * 3) if stage == 2 else ((3,) * 3, (1,) * 3)
                x, mask = self.conv(
                    x, mask, f"conv{stage}.0.0", f"conv{stage}.0.1", num_out, kernel, (2, 2, 2), padding
                )
                x, first = x.relu(), 1
            for at in (first, first + 1):
                block = f"conv{stage}.{at}."
                y, _ = self.conv(x, mask, f"{block}conv1", f"{block}bn1", num_out, bias=True)
                y, _ = self.conv(y.relu(), mask, f"{block}conv2", f"{block}bn2", num_out, bias=True)
                x = (x + y).relu()
            if stage >= 4:
                ends.append((x * mask, mask))
        # Sites of the two coarser stages are at their indices times 2 and 4.
        size = ends[0][0].shape[3:]
        plane = torch.zeros(1, x.shape[1], 1, *size, dtype=torch.float64)
        mask = torch.zeros(1, 1, 1, *size, dtype=torch.float64)
        for scale, (features, sites) in zip((1, 2, 4), ends):
            plane[:, :, :, ::scale, ::scale] += features.sum(2, keepdim=True)
            mask[:, :, :, ::scale, ::scale] += sites.sum(2, keepdim=True)
        mask = mask.clamp(max=1)
        x, mask = self.conv(
            plane, mask, "conv_out.0", "conv_out.1", NUM_OUT, (1, 3, 3), (1, 1, 1), (0, 1, 1)
        )
        x, _ = self.conv(
            x.relu(), mask, "shared_conv.0", "shared_conv.1", NUM_OUT, (1, 3, 3), bias=True, eps=1e-5
        )
        return x.relu(), mask

    def head(self, x, mask):
        """The outputs of each task by branch, dense."""
        tasks = []
        for task, num_classes in enumerate(TASKS):
            outputs = {}
            for branch, channels in {**BRANCHES, "hm": num_classes}.items():
                name = f"heads_list.{task}.{branch}"
                kernel = (1, 3, 3) if task == 0 else (1, 1, 1)
                y, _ = self.conv(
                    x, mask, f"{name}.0.0", f"{name}.0.1", NUM_OUT, kernel, bias=True, eps=1e-5
                )
                weight = self.uniform(channels, 1, 1, 1, NUM_OUT)
                bias = self.uniform(channels, low=-0.3, high=0.3)
                self.state[f"{name}.1.weight"] = weight.permute(self.stored).contiguous()
                self.state[f"{name}.1.bias"] = bias
                y = conv3d(y.relu(), weight.double().permute(0, 4, 1, 2, 3))
                outputs[branch] = (y + bias.double()[None, :, None, None, None]) * mask
            tasks.append(outputs)
        return tasks


def decode(tasks, sites):
    """Boxes with score and class: x y z l w h yaw vx vy score class."""
    boxes, first_class = [], 0
    y, x = sites[:, 0].double(), sites[:, 1].double()
    for outputs in tasks:
        scores = outputs["hm"].sigmoid()
        best, classes = [], []
        for channel in range(scores.shape[1]):
            best.append(scores[:, channel])
            classes.append(torch.full((len(sites),), channel))
        best, classes = torch.cat(best), torch.cat(classes)
        best, order = torch.topk(best, min(TOP_K, len(best)))
        for score, at in zip(best, order):
            at, label = int(at) % len(sites), first_class + int(classes[at])
            if score <= 0.4:
                continue
            center, rot = outputs["center"][at], outputs["rot"][at]
            iou = ((outputs["iou"][at, 0] + 1) * 0.5).clamp(0, 1)
            rectifier = RECTIFIER[label]
            boxes.append(
                [
                    float((x[at] + center[0]) * STRIDE * VOXEL[0] + RANGE_MIN[0]),
                    float((y[at] + center[1]) * STRIDE * VOXEL[1] + RANGE_MIN[1]),
                    float(outputs["center_z"][at, 0]),
                    *outputs["dim"][at].exp().tolist(),
                    float(torch.atan2(rot[1], rot[0])),
                    *outputs["vel"][at].tolist(),
                    float(score ** (1 - rectifier) * iou**rectifier),
                    label,
                ]
            )
        first_class += scores.shape[1]
    return boxes


def main(layout, path, reference):
    network = VoxelNeXt(layout)
    cells = torch.randperm(GRID[0] * GRID[1] * GRID[2], generator=network.random)[:NUM_VOXELS]
    z, y, x = cells // (GRID[1] * GRID[2]), cells // GRID[2] % GRID[1], cells % GRID[2]
    features = network.uniform(NUM_VOXELS, NUM_FEATURES)
    dense = torch.zeros(1, NUM_FEATURES, *GRID, dtype=torch.float64)
    dense[0, :, z, y, x] = features.double().T
    mask = torch.zeros(1, 1, *GRID, dtype=torch.float64)
    mask[0, 0, z, y, x] = 1
    result, mask = network.run(dense, mask)
    tasks = network.head(result, mask)
    sites = mask[0, 0, 0].nonzero()
    rows = [
        {name: output[0, :, 0, sites[:, 0], sites[:, 1]].T for name, output in task.items()}
        for task in tasks
    ]
    network.plane_weights()
    prefixed = lambda name: f"{'dense_head' if name.startswith('heads') else 'backbone_3d'}.{name}"  # noqa: E731
    state = {prefixed(name): tensor for name, tensor in network.state.items()}
    torch.save({"model_state": state, "epoch": 3}, path)
    outputs = {f"{n}_{at}": o.flatten().tolist() for at, task in enumerate(rows) for n, o in task.items()}
    with open(reference, "w", encoding="utf-8") as file:
        json.dump(
            {
                "grid": list(GRID),
                "coordinates": torch.stack([z, y, x], 1).tolist(),
                "features": features.flatten().tolist(),
                "sites": sites.tolist(),
                "outputs": outputs,
                "boxes": decode(rows, sites),
            },
            file,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
