"""Runs a checkpoint of voxelnext.py, laid out as spconv 2 has it, through spconv's modules on the
CPU, as OpenPCDet's VoxelResBackBone8xVoxelNeXt and VoxelNeXtHead are made of them.

    voxelnext_spconv.py checkpoint.pth reference.json result.json

The result is the reference with spconv's sites and outputs, in ascending order of the sites.
"""

import json
import sys

import spconv.pytorch as spconv
import torch
from torch.nn.functional import batch_norm

NORM_EPS, HEAD_EPS = 1e-3, 1e-5


class Network:
    def __init__(self, state):
        self.state, self.keys = state, 0

    def layer(self, x, name, kind, key, **geometry):
        """A convolution with the weights of the checkpoint."""
        weight, bias = self.state[f"{name}.weight"], self.state.get(f"{name}.bias")
        kernel = list(weight.shape[1:-1])
        module = kind(
            weight.shape[-1], weight.shape[0], kernel, bias=bias is not None, indice_key=key, **geometry
        )
        with torch.no_grad():
            module.weight.copy_(weight)
            if bias is not None:
                module.bias.copy_(bias)
        return module(x)

    def normalized(self, x, norm, eps=NORM_EPS):
        of = lambda part: self.state[f"{norm}.{part}"]  # noqa: E731
        features = batch_norm(
            x.features, of("running_mean"), of("running_var"), of("weight"), of("bias"), eps=eps
        )
        return x.replace_feature(features)

    def relu(self, x):
        return x.replace_feature(x.features.relu())

    def block(self, x, prefix, key):
        y = self.layer(x, f"{prefix}.conv1", spconv.SubMConv3d, key, padding=1)
        y = self.relu(self.normalized(y, f"{prefix}.bn1"))
        y = self.layer(y, f"{prefix}.conv2", spconv.SubMConv3d, key, padding=1)
        y = self.normalized(y, f"{prefix}.bn2")
        return self.relu(y.replace_feature(y.features + x.features))

    def backbone(self, x):
        body = "backbone_3d."
        x = self.layer(x, f"{body}conv_input.0", spconv.SubMConv3d, "subm1", padding=1)
        x = self.relu(self.normalized(x, f"{body}conv_input.1"))
        ends = []
        for stage in range(1, 7):
            name, first = f"{body}conv{stage}", 0
            if stage > 1:
                padding = self.state[f"{name}.0.0.weight"].shape[1] // 2
                x = self.layer(
                    x, f"{name}.0.0", spconv.SparseConv3d, f"spconv{stage}", stride=2, padding=padding
                )
                x, first = self.relu(self.normalized(x, f"{name}.0.1")), 1
            for at in (first, first + 1):
                x = self.block(x, f"{name}.{at}", f"res{stage}")
            if stage >= 4:
                ends.append(x)
        scaled = []
        for scale, end in zip((1, 2, 4), ends):
            indices = end.indices.clone()
            indices[:, 1:] *= scale
            scaled.append(indices)
        indices = torch.cat(scaled)[:, [0, 2, 3]]
        unique, inverse = torch.unique(indices, dim=0, return_inverse=True)
        features = torch.cat([end.features for end in ends])
        sums = features.new_zeros((len(unique), features.shape[1])).index_add_(0, inverse, features)
        x = spconv.SparseConvTensor(sums, unique, ends[0].spatial_shape[1:], 1)
        x = self.layer(x, f"{body}conv_out.0", spconv.SparseConv2d, "out", padding=1)
        x = self.relu(self.normalized(x, f"{body}conv_out.1"))
        x = self.layer(x, f"{body}shared_conv.0", spconv.SubMConv2d, None, padding=1)
        return self.relu(self.normalized(x, f"{body}shared_conv.1", HEAD_EPS))

    def head(self, x):
        """The outputs by name."""
        names = [n.removesuffix(".1.weight") for n in self.state if n.startswith("dense_head.")]
        branches = sorted({n for n in names if f"{n}.0.0.weight" in self.state})
        outputs = {}
        for name in branches:
            *_, task, branch = name.split(".")
            y = self.layer(x, f"{name}.0.0", spconv.SubMConv2d, name)
            y = self.relu(self.normalized(y, f"{name}.0.1", HEAD_EPS))
            outputs[f"{branch}_{task}"] = self.layer(y, f"{name}.1", spconv.SubMConv2d, f"{name}.1")
        return outputs


def main(checkpoint, reference, result):
    # Two threads give a wrong row now and then.
    torch.set_num_threads(1)
    state = torch.load(checkpoint, weights_only=True)["model_state"]
    with open(reference, encoding="utf-8") as file:
        known = json.load(file)
    cells = torch.tensor(known["coordinates"], dtype=torch.int32)
    features = torch.tensor(known["features"]).reshape(len(cells), -1)
    indices = torch.cat([torch.zeros(len(cells), 1, dtype=torch.int32), cells], 1)
    network = Network(state)
    with torch.no_grad():
        x = network.backbone(spconv.SparseConvTensor(features, indices, known["grid"], 1))
        outputs = network.head(x)
    columns = x.spatial_shape[1]
    order = (x.indices[:, 1] * columns + x.indices[:, 2]).argsort()
    known["sites"] = x.indices[order, 1:].tolist()
    known["outputs"] = {n: y.features[order].flatten().tolist() for n, y in outputs.items()}
    with open(result, "w", encoding="utf-8") as file:
        json.dump(known, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
