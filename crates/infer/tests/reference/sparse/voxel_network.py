"""Makes a checkpoint of the demo's voxel network (training/) with random weights and
statistics, and what torch computes with it densely in f64. Fails where the sparse
layers, or their gradients, differ from dense convolutions.

    voxel_network.py checkpoint.pth reference.json

The reference has the form of checkpoint.py.
"""

import json
import sys
from pathlib import Path

import torch
from torch.nn.functional import conv3d, max_pool3d

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "training"))
import sparse  # noqa: E402
import voxel_network as net  # noqa: E402

GRID = (41, 32, 32)
NUM_VOXELS = 300


def to_dense(sites, rows):
    """Features [B, C, z, y, x] of sites, and the mask of the sites."""
    b, z, y, x = sites.coordinates.long()
    shape = (sites.batch, *sites.grid)
    rows = torch.zeros(*shape, rows.shape[1], dtype=rows.dtype).index_put((b, z, y, x), rows)
    mask = torch.zeros(*shape, dtype=rows.dtype)
    mask[b, z, y, x] = 1
    return rows.permute(0, 4, 1, 2, 3), mask[:, None]


def check_layer(random, grid, kernel, stride=None, padding=None):
    """A convolution of two random scenes, and its gradients, sparse and dense."""
    cells = torch.randperm(2 * grid[0] * grid[1] * grid[2], generator=random)[:60]
    coordinates = torch.stack(torch.unravel_index(cells, (2, *grid)))
    sites, _ = sparse.sorted_sites(coordinates, grid, 2)
    rows = torch.randn(len(sites), 3, generator=random, dtype=torch.float64)
    weight = torch.randn(4, *kernel, 3, generator=random, dtype=torch.float64)
    if stride is None:
        outputs, rulebook = sites, sparse.submanifold_rulebook(sites, kernel)
    else:
        outputs, rulebook = sparse.strided_rulebook(sites, kernel, stride, padding)

    def run_sparse(rows, weight):
        tables = rulebook.inputs_of, rulebook.outputs_of
        return sparse.Convolve.apply(rows, weight.flatten(1, 3), *tables)

    def run_dense(rows, weight):
        values, mask = to_dense(sites, rows)
        around = padding or tuple(k // 2 for k in kernel)
        values = conv3d(values, weight.permute(0, 4, 1, 2, 3), stride=stride or 1, padding=around)
        if stride is not None:
            mask = max_pool3d(mask, kernel, stride, padding)
        found = mask[:, 0].nonzero()
        assert torch.equal(found.T, outputs.coordinates), f"sites of {kernel} {stride} {padding}"
        b, z, y, x = found.unbind(1)
        return values.permute(0, 2, 3, 4, 1)[b, z, y, x]

    shape = (len(outputs), 4)
    slope = torch.randn(shape, generator=random, dtype=torch.float64)
    results = []
    for run in (run_sparse, run_dense):
        inputs = [rows.clone().requires_grad_(), weight.clone().requires_grad_()]
        result = run(*inputs)
        (result * slope).sum().backward()
        results.append([result, *(tensor.grad for tensor in inputs)])
    for ours, theirs in zip(*results):
        assert ours.abs().max() > 0
        assert (ours - theirs).abs().max() < 1e-12, f"{kernel} {stride} {padding}"


def run_densely(state, sites, rows):
    """The map of the encoder in a checkpoint, by dense convolutions in f64."""
    x, mask = to_dense(sites, rows)
    convs = [name.removesuffix(".weight") for name, tensor in state.items() if tensor.dim() == 5]
    for name in convs:
        weight = state[f"{name}.weight"].double().permute(0, 4, 1, 2, 3)
        kernel = tuple(weight.shape[2:])
        is_out = name.endswith("conv_out.0")
        if is_out or name.endswith(("conv2.0.0", "conv3.0.0", "conv4.0.0")):
            stride = (2, 1, 1) if is_out else (2, 2, 2)
            last = is_out or name.endswith("conv4.0.0")
            padding = (0, 0, 0) if is_out else (0 if last else 1, 1, 1)
            x = conv3d(x, weight, stride=stride, padding=padding)
            mask = max_pool3d(mask, kernel, stride, padding)
        else:
            x = conv3d(x, weight, padding=1)
        norm = f"{name.rsplit('.', 1)[0]}.1"
        scale, shift, mean, var = (
            state[f"{norm}.{part}"].double()[:, None, None, None]
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        x = (((x - mean) / (var + net.TRUNK_EPS).sqrt() * scale + shift) * mask).relu()
    return x.flatten(1, 2)


def main(checkpoint, reference):
    random = torch.Generator().manual_seed(11)
    # So that the gradients of a few sites are summed in pieces, and a rest.
    sparse.PIECE = 16
    check_layer(random, (5, 8, 9), (3, 3, 3))
    check_layer(random, (7, 8, 6), (3, 3, 3), (2, 2, 2), (1, 1, 1))
    check_layer(random, (6, 8, 7), (3, 3, 3), (2, 2, 2), (0, 1, 1))
    check_layer(random, (5, 4, 4), (3, 1, 1), (2, 1, 1), (0, 0, 0))

    torch.manual_seed(12)
    network = net.VoxelNetwork().eval()
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 2.0)
            elif name.endswith("running_mean"):
                tensor.uniform_(-0.2, 0.2)
    cells = torch.randperm(GRID[0] * GRID[1] * GRID[2], generator=random)[:NUM_VOXELS]
    coordinates = torch.stack(torch.unravel_index(cells, (1, *GRID)))
    sites, _ = sparse.sorted_sites(coordinates, GRID, 1)
    features = torch.rand(NUM_VOXELS, 5, generator=random) * 2 - 1

    saved = network.checkpoint()
    torch.save(saved, checkpoint)
    expected = run_densely(saved["model_state"], sites, features.double())
    other = net.VoxelNetwork().eval()
    other.load_checkpoint(saved)
    other.double()
    with torch.no_grad():
        map = other.backbone_3d(sites, features.double() * other.feature_scale, torch.float64)
        heat, box = other.dense_head(other.backbone_2d(expected))
    # The scale of the features is rounded to f32.
    difference = (map - expected).abs().max() / expected.abs().max()
    assert expected.abs().max() > 0 and difference < 1e-6, f"maps differ by {difference}"
    regressions = dict(zip(("reg", "height", "dim", "rot", "vel"), box.split([2, 1, 3, 2, 2], 1)))
    outputs = regressions | {"hm": heat}
    with open(reference, "w", encoding="utf-8") as file:
        json.dump(
            {
                "coordinates": sites.coordinates[1:].T.tolist(),
                "features": features.flatten().tolist(),
                "map_shape": list(expected.shape),
                "map": expected.flatten().tolist(),
                "outputs": {f"{k}_0": v.flatten().tolist() for k, v in outputs.items()},
            },
            file,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
