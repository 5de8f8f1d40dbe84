"""Makes a small random checkpoint of one family of voxel detectors, and what torch
computes with it densely in f64: the reference of tools/export_sparse.py.

    checkpoint.py FAMILY checkpoint.pth reference.json

The reference holds voxels (coordinates z y x and features), the map, and the
outputs of the 2D network behind it.
"""

import json
import sys

import torch
from torch import nn
from torch.nn.functional import conv3d, max_pool3d

EPS = 1e-3
GRID = (41, 16, 32)
CHANNELS = (6, 8, 10, 12)
NUM_FEATURES, NUM_OUT = 5, 9
NUM_VOXELS = 300
# Residual, layout of the weights, x y z, bias of residual blocks, names.
FAMILIES = {
    "openpcdet_res": (True, "spconv2", False, True, "openpcdet"),
    "openpcdet_plain": (False, "spconv1", False, False, "openpcdet"),
    "det3d": (True, "spconv1", False, True, "det3d"),
    "mmdet3d_basicblock": (True, "spconv2-native", False, False, "mmdet3d"),
    "mmdet3d_conv_module": (False, "spconv2", False, False, "mmdet3d"),
    "bevfusion": (True, "spconv2", True, False, "mmdet3d"),
}
STORED = {"spconv2": (0, 1, 2, 3, 4), "spconv1": (1, 2, 3, 4, 0), "spconv2-native": (1, 2, 3, 0, 4)}


class Encoder:
    """Runs densely and keeps what a checkpoint of the family holds."""

    def __init__(self, family):
        self.residual, layout, self.is_xyz, self.bias, self.names = FAMILIES[family]
        self.stored = STORED[layout]
        self.state = {}
        self.random = torch.Generator().manual_seed(list(FAMILIES).index(family))

    def uniform(self, *shape, low=-1.0, high=1.0):
        return low + (high - low) * torch.rand(*shape, generator=self.random)

    def parameters(self, conv, norm, num_in, num_out, kernel, bias):
        bound = (3 / (num_in * min(8, kernel[0] * kernel[1] * kernel[2]))) ** 0.5
        weight = self.uniform(num_out, *kernel, num_in, low=-bound, high=bound)
        self.state[f"{conv}.weight"] = weight.permute(self.stored).contiguous()
        if bias:
            self.state[f"{conv}.bias"] = self.uniform(num_out, low=-0.1, high=0.1)
        self.state[f"{norm}.weight"] = self.uniform(num_out, low=0.5, high=1.5)
        self.state[f"{norm}.bias"] = self.uniform(num_out, low=-0.25, high=0.25)
        self.state[f"{norm}.running_mean"] = self.uniform(num_out, low=-0.2, high=0.2)
        self.state[f"{norm}.running_var"] = self.uniform(num_out, low=0.5, high=2.0)
        self.state[f"{norm}.num_batches_tracked"] = torch.tensor(7)
        return weight

    def conv(self, x, mask, conv, norm, num_out, kernel=(3, 3, 3), stride=None, padding=None,
             bias=False):  # fmt: skip
        """A convolution and its normalization. Without stride it is submanifold."""
        weight = self.parameters(conv, norm, x.shape[1], num_out, kernel, bias).double()
        weight = weight.permute(0, 4, 1, 2, 3)
        if stride is None:
            x = conv3d(x, weight, padding=tuple(k // 2 for k in kernel))
        else:
            x = conv3d(x, weight, stride=stride, padding=padding)
            mask = max_pool3d(mask, kernel, stride, padding)
        column = lambda name: self.state[name].double()[None, :, None, None, None]  # noqa: E731
        if bias:
            x = x + column(f"{conv}.bias")
        x = (x - column(f"{norm}.running_mean")) / (column(f"{norm}.running_var") + EPS).sqrt()
        x = x * column(f"{norm}.weight") + column(f"{norm}.bias")
        return x * mask, mask

    def axes(self, z_first):
        return tuple(reversed(z_first)) if self.is_xyz else tuple(z_first)

    def stage_names(self, stage, num_blocks):
        """Names of the strided convolution of a stage and of its blocks."""
        if self.names == "mmdet3d":
            prefix = f"encoder_layers.encoder_layer{stage}."
            # Residual stages end with the convolution that leads to the next one.
            down = f"encoder_layers.encoder_layer{stage - 1}.2." if self.residual else f"{prefix}0."
            first = 0 if self.residual or stage == 1 else 1
        else:
            prefix = f"conv{stage}."
            down = f"{prefix}0." if self.names == "openpcdet" else prefix
            # det3d counts convolution, normalization and ReLU.
            first = 0 if stage == 1 else (3 if self.names == "det3d" else 1)
        blocks = [f"{prefix}{first + at}." for at in range(num_blocks)]
        return (f"{down}0", f"{down}1"), blocks

    def run(self, x, mask):
        x, mask = self.conv(x, mask, "conv_input.0", "conv_input.1", CHANNELS[0])
        x = x.relu()
        for stage, num_out in enumerate(CHANNELS, 1):
            num_blocks = 2 if self.residual else (1 if stage == 1 else 2)
            down, blocks = self.stage_names(stage, num_blocks)
            if stage > 1:
                padding = self.axes((0 if stage == 4 else 1, 1, 1))
                x, mask = self.conv(x, mask, *down, num_out, stride=(2, 2, 2), padding=padding)
                x = x.relu()
            for block in blocks:
                if not self.residual:
                    x, _ = self.conv(x, mask, f"{block}0", f"{block}1", num_out)
                    x = x.relu()
                    continue
                y, _ = self.conv(
                    x, mask, f"{block}conv1", f"{block}bn1", num_out, bias=self.bias
                )
                y, _ = self.conv(
                    y.relu(), mask, f"{block}conv2", f"{block}bn2", num_out, bias=self.bias
                )
                x = (x + y).relu()
        out = "extra_conv" if self.names == "det3d" else "conv_out"
        kernel, stride = self.axes((3, 1, 1)), self.axes((2, 1, 1))
        x, _ = self.conv(
            x, mask, f"{out}.0", f"{out}.1", NUM_OUT, kernel, stride=stride, padding=(0, 0, 0)
        )
        x = x.relu()
        if self.is_xyz:
            x = x.permute(0, 1, 4, 2, 3)
        return x.flatten(1, 2)


def in_registration_order(state, names):
    """The order in which modules register their parameters: mmdetection3d's
    strided convolutions stand in the stage before, behind its blocks."""
    if names != "mmdet3d":
        return state
    place = lambda key: 2 if key.startswith("conv_out") else int(key.startswith("encoder"))  # noqa: E731
    digits = lambda key: [int(p) for p in key.replace("layer", ".").split(".") if p.isdigit()]  # noqa: E731
    return dict(sorted(state.items(), key=lambda item: (place(item[0]), digits(item[0])[:2])))


def block(kernel, num_in, num_out, stride=1, eps=1e-5, bias=False, pad=True):
    padding = kernel // 2 if pad else 0
    conv = nn.Conv2d(num_in, num_out, kernel, stride, padding, bias=bias)
    return [conv, nn.BatchNorm2d(num_out, eps=eps), nn.ReLU()]


class ConvModule(nn.Module):
    """As mmcv's: a convolution `conv` and its normalization `bn`."""

    def __init__(self, num_in, num_out):
        super().__init__()
        self.conv, self.bn, self.activate = block(3, num_in, num_out, bias=False)

    def forward(self, x):
        return self.activate(self.bn(self.conv(x)))


class DenseNetwork(nn.Module):
    """The 2D network with the modules and names of a family."""

    def __init__(self, names, num_in, has_anchors):
        super().__init__()
        self.names = names
        widths, up, shared = (7, 11), 6, 8
        blocks, neck = nn.ModuleList(), nn.ModuleList()
        for at, width in enumerate(widths):
            stride = at + 1
            pads = names != "mmdet3d"
            layers = [nn.ZeroPad2d(1)] if pads else []
            layers += block(3, num_in, width, stride, eps=EPS, pad=not pads)
            layers += block(3, width, width, eps=EPS)
            blocks.append(nn.Sequential(*layers))
            plain = stride == 1 and names != "openpcdet"
            conv = nn.Conv2d if plain else nn.ConvTranspose2d
            conv = conv(width, up, stride, stride, bias=False)
            neck.append(nn.Sequential(conv, nn.BatchNorm2d(up, eps=EPS), nn.ReLU()))
            num_in = width
        self.blocks, self.neck = blocks, neck
        width = len(widths) * up
        self.anchors = nn.ModuleDict()
        if has_anchors:
            sizes = {"conv_cls": 6, "conv_box": 14, "conv_dir_cls": 4}
            self.anchors.update({name: nn.Conv2d(width, num, 1) for name, num in sizes.items()})
            return
        if names == "mmdet3d":
            self.shared = ConvModule(width, shared)
        else:
            self.shared = nn.Sequential(*block(3, width, shared, bias=True))
        regression = ("center", "center_z") if names == "openpcdet" else ("reg", "height")
        heat = "heatmap" if names == "mmdet3d" else "hm"
        self.tasks = nn.ModuleList()
        for num_classes in (1, 2):
            sizes = {regression[0]: 2, regression[1]: 1, "dim": 3, "rot": 2, "vel": 2}
            sizes[heat] = num_classes
            branches = {name: self.branch(shared, num) for name, num in sizes.items()}
            self.tasks.append(nn.ModuleDict(branches))

    def branch(self, width, num_out):
        last = nn.Conv2d(width, num_out, 3, padding=1)
        if self.names == "det3d":
            return nn.Sequential(*block(3, width, width, bias=True), last)
        if self.names == "mmdet3d":
            return nn.Sequential(ConvModule(width, width), last)
        return nn.Sequential(nn.Sequential(*block(3, width, width)), last)

    def forward(self, x):
        levels = []
        for layers, up in zip(self.blocks, self.neck):
            x = layers(x)
            levels.append(up(x))
        x = torch.cat(levels, 1)
        if self.anchors:
            names = ("cls_score", "bbox_pred", "dir_cls_pred")
            return {name: conv(x) for name, conv in zip(names, self.anchors.values())}
        x = self.shared(x)
        names = ("reg", "height", "dim", "rot", "vel", "hm")
        return {
            f"{name}_{at}": branch(x)
            for at, task in enumerate(self.tasks)
            for name, branch in zip(names, task.values())
        }

    def state(self):
        """The state dict under the family's names."""
        prefixes = {
            "openpcdet": ("backbone_2d.blocks", "backbone_2d.deblocks", "dense_head.shared_conv",
                          "dense_head.heads_list", "dense_head"),
            "det3d": ("neck.blocks", "neck.deblocks", "bbox_head.shared_conv", "bbox_head.tasks"),
            "mmdet3d": ("pts_backbone.blocks", "pts_neck.deblocks", "pts_bbox_head.shared_conv",
                        "pts_bbox_head.task_heads"),
        }[self.names]  # fmt: skip
        own = ("blocks", "neck", "shared", "tasks", "anchors")
        renamed = {}
        for key, tensor in self.state_dict().items():
            part, rest = key.split(".", 1)
            renamed[f"{prefixes[own.index(part)]}.{rest}"] = tensor
        return renamed


def random_dense(names, num_in, has_anchors, random):
    """A 2D network with random parameters and statistics."""
    network = DenseNetwork(names, num_in, has_anchors).eval()
    with torch.no_grad():
        for key, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                low, high = (0.5, 1.5) if key.endswith("running_var") else (-0.4, 0.4)
                tensor.copy_(low + (high - low) * torch.rand(tensor.shape, generator=random))
    return network


def main(family, checkpoint, reference):
    encoder = Encoder(family)
    cells = torch.randperm(GRID[0] * GRID[1] * GRID[2], generator=encoder.random)[:NUM_VOXELS]
    z, y, x = cells // (GRID[1] * GRID[2]), cells // GRID[2] % GRID[1], cells % GRID[2]
    features = encoder.uniform(NUM_VOXELS, NUM_FEATURES)
    dense = torch.zeros(1, NUM_FEATURES, *GRID, dtype=torch.float64)
    dense[0, :, z, y, x] = features.double().T
    mask = torch.zeros(1, 1, *GRID, dtype=torch.float64)
    mask[0, 0, z, y, x] = 1
    if encoder.is_xyz:
        dense, mask = dense.permute(0, 1, 4, 3, 2), mask.permute(0, 1, 4, 3, 2)
    result = encoder.run(dense, mask)
    prefix = {"openpcdet": "backbone_3d.", "det3d": "backbone."}
    prefix = prefix.get(encoder.names, "pts_middle_encoder.")
    state = in_registration_order(encoder.state, encoder.names)
    state = {f"{prefix}{name}": tensor for name, tensor in state.items()}
    has_anchors = family == "openpcdet_plain"
    dense_network = random_dense(encoder.names, result.shape[1], has_anchors, encoder.random)
    state |= {key: tensor.clone() for key, tensor in dense_network.state().items()}
    with torch.no_grad():
        outputs = dense_network.double()(result)
    key = "model_state" if encoder.names == "openpcdet" else "state_dict"
    torch.save({key: state, "epoch": 3}, checkpoint)
    with open(reference, "w", encoding="utf-8") as file:
        json.dump(
            {
                "coordinates": torch.stack([z, y, x], 1).tolist(),
                "features": features.flatten().tolist(),
                "map_shape": list(result.shape),
                "map": result.flatten().tolist(),
                "outputs": {name: output.flatten().tolist() for name, output in outputs.items()},
            },
            file,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
