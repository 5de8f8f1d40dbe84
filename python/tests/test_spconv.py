"""Modules with spconv's names: encoders of OpenPCDet against spconv's results, layers against dense sums.

With torch the modules and arrays are torch's, also on a GPU; without it numpy's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tables
from test_sparse import dense_of, expected_of, scene

from det_post import ops, spconv
from det_post.spconv import _module as base

try:
    import torch

    HAS_TORCH = True
    DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
except ImportError:
    HAS_TORCH = False
    DEVICES = ["cpu"]


@pytest.fixture(autouse=True, params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The device of all modules and arrays."""
    if not HAS_TORCH:
        yield request.param
        return
    with torch.no_grad():
        yield request.param


def array_of(values: Any, device: str) -> Any:
    return torch.from_numpy(np.array(values)).to(device) if HAS_TORCH else np.array(values)


def values_of(array: Any) -> Any:
    return array.cpu().numpy() if HAS_TORCH else np.asarray(array)


def placed(module: Any, device: str) -> Any:
    module.eval()
    return module.to(device) if HAS_TORCH else module


def loaded(module: Any, state: dict[str, Any], device: str) -> Any:
    module.load_state_dict({name: array_of(values, "cpu") for name, values in state.items()})
    return placed(module, device)


class BatchNorm(base._Module):
    """torch's of running statistics, where there is no torch."""

    def __init__(self, channels: int, eps: float = 1e-3) -> None:
        super().__init__()
        self.eps = eps
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_parameter(name, np.zeros(channels, np.float32))

    def forward(self, features: Any) -> Any:
        state: Any = self
        scale = state.weight / np.sqrt(state.running_var + np.float32(self.eps))
        return ((features - state.running_mean) * scale + state.bias).astype(np.float32)


class Relu(base._Module):
    def forward(self, features: Any) -> Any:
        return np.maximum(features, 0)


def norm(channels: int) -> Any:
    return torch.nn.BatchNorm1d(channels, eps=1e-3) if HAS_TORCH else BatchNorm(channels)


def relu() -> Any:
    return torch.nn.ReLU() if HAS_TORCH else Relu()


def block(inputs: int, outputs: int, key: str, stride: Any = 1, padding: Any = 0, kernel: Any = 3) -> Any:
    """``post_act_block`` of OpenPCDet."""
    if stride == 1:
        conv: Any = spconv.SubMConv3d(inputs, outputs, kernel, bias=False, indice_key=key)
    else:
        conv = spconv.SparseConv3d(
            inputs, outputs, kernel, stride=stride, padding=padding, bias=False, indice_key=key
        )
    return spconv.SparseSequential(conv, norm(outputs), relu())


class BasicBlock(spconv.SparseModule):
    """``SparseBasicBlock`` of OpenPCDet."""

    def __init__(self, channels: int, key: str) -> None:
        super().__init__()
        options: Any = {"kernel_size": 3, "stride": 1, "padding": 1, "bias": True, "indice_key": key}
        self.conv1 = spconv.SubMConv3d(channels, channels, **options)
        self.bn1 = norm(channels)
        self.relu = relu()
        self.conv2 = spconv.SubMConv3d(channels, channels, **options)
        self.bn2 = norm(channels)

    def forward(self, x: Any) -> Any:
        out = self.conv1(x)
        out = out.replace_feature(self.relu(self.bn1(out.features)))
        out = self.conv2(out)
        out = out.replace_feature(self.bn2(out.features) + x.features)
        return out.replace_feature(self.relu(out.features))


class Encoder(spconv.SparseModule):
    """``VoxelResBackBone8x`` and ``VoxelBackBone8x`` of OpenPCDet."""

    def __init__(self, is_residual: bool) -> None:
        super().__init__()
        sequence = spconv.SparseSequential
        conv = spconv.SubMConv3d(5, 16, 3, padding=1, bias=False, indice_key="subm1")
        self.conv_input = sequence(conv, norm(16), relu())
        widths = (16, 32, 64, 128) if is_residual else (16, 32, 64, 64)

        def rest(place: int) -> list[Any]:
            channels, key = widths[place - 1], f"res{place}" if is_residual else f"subm{place}"
            num = 1 if place == 1 and not is_residual else 2
            if is_residual:
                return [BasicBlock(channels, key) for _ in range(num)]
            return [block(channels, channels, key) for _ in range(num)]

        self.conv1 = sequence(*rest(1))
        self.conv2 = sequence(block(16, 32, "spconv2", 2, 1), *rest(2))
        self.conv3 = sequence(block(32, 64, "spconv3", 2, 1), *rest(3))
        self.conv4 = sequence(block(64, widths[3], "spconv4", 2, (0, 1, 1)), *rest(4))
        out = spconv.SparseConv3d(
            widths[3], 128, (3, 1, 1), stride=(2, 1, 1), padding=0, bias=False,
            indice_key="spconv_down2",
        )
        self.conv_out = sequence(out, norm(128), relu())

    def forward(self, x: Any) -> dict[str, Any]:
        x = self.conv_input(x)
        stages = {}
        for place in range(1, 5):
            x = getattr(self, f"conv{place}")(x)
            stages[f"x_conv{place}"] = x
        stages["out"] = self.conv_out(x)
        return stages


def parameter(name: str, shape: Any, seed: int, range_: tuple[float, float]) -> Any:
    """A tensor of the encoders' files, from their seed."""
    mask = (1 << 64) - 1
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001B3 & mask
    golden = 0x9E3779B97F4A7C15
    start = np.uint64(key ^ (seed * golden & mask))
    with np.errstate(over="ignore"):
        x = start + np.arange(1, np.prod(shape) + 1, dtype=np.uint64) * np.uint64(golden)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    low, high = range_
    values = low + (high - low) * (((x >> np.uint64(40)).astype(np.float64) + 0.5) / 16777216)
    return values.astype(np.float32).reshape(shape)


def state_of(module: Any, file: Any, seed: int) -> dict[str, Any]:
    """A checkpoint of the file's parameters."""
    state = {}
    for name, value in module.state_dict().items():
        shape = tuple(value.shape)
        kind = name.rpartition(".")[2]
        if kind == "num_batches_tracked":
            state[name] = np.int64(0)
        elif kind.startswith("running"):
            state[name] = file[f"bn/{name}"]
        elif len(shape) == 5:
            most = np.sqrt(6 / (shape[4] * min(np.prod(shape[1:4]), 8)))
            state[name] = parameter(name, shape, seed, (-most, most))
        elif kind == "weight":
            state[name] = parameter(name, shape, seed, (0.5, 1.5))
        else:
            is_norm = f"bn/{name.rpartition('.')[0]}.running_mean" in file.files
            most = 0.25 if is_norm else 0.1
            state[name] = parameter(name, shape, seed, (-most, most))
    return state


@pytest.mark.parametrize("kind", ["res8x", "plain8x"])
@pytest.mark.parametrize("version", [1, 2])
def test_encoders_of_openpcdet_are_those_of_spconv(kind: str, version: int, device: str) -> None:
    tables.read("tables.json")
    file = np.load(tables.FOLDER / "sparse" / f"{kind}_mini.npz")
    module: Any = Encoder(kind == "res8x")
    state = state_of(module, file, seed=21)
    if version == 1:
        for name, value in state.items():
            if value.ndim == 5:
                state[name] = np.ascontiguousarray(value.transpose(1, 2, 3, 4, 0))
    module = loaded(module, state, device)
    coordinates, features = file["in_coords"], file["in_features"]
    x = spconv.SparseConvTensor(
        array_of(features, device), array_of(coordinates, device), (41, 64, 64), 1
    )
    found = module(x)
    # Rows keep the order of the caller until the first strided layer.
    np.testing.assert_array_equal(values_of(found["x_conv1"].indices), coordinates)
    for level, (stage, tensor) in enumerate(found.items()):
        cells = values_of(tensor.indices).astype(np.int64)
        depth, rows, columns = file[f"level{level}/shape"]
        assert tensor.spatial_shape == [depth, rows, columns]
        keys = ((cells[:, 0] * depth + cells[:, 1]) * rows + cells[:, 2]) * columns + cells[:, 3]
        order = np.argsort(keys)
        np.testing.assert_array_equal(keys[order], file[f"level{level}/keys"])
        values = values_of(tensor.features)[order]
        expected = file[f"{stage}/features"]
        bound = 1e-5 * np.abs(expected).max()
        np.testing.assert_allclose(values[file[f"{stage}/rows"]], expected, atol=bound)
        np.testing.assert_allclose(
            values.sum(0, dtype=np.float64), file[f"{stage}/sum"], atol=bound * len(values)
        )
    map_ = values_of(found["out"].dense())
    expected = file["bev"]
    found_map = map_.reshape(expected.shape)
    np.testing.assert_allclose(found_map, expected, atol=1e-5 * np.abs(expected).max())
    pairs = found["x_conv2"].find_indice_pair("spconv2").indice_pair_num
    np.testing.assert_array_equal(values_of(pairs), file["level1/down_pairs"])


def tensor_of(device: str, seed: int = 1, channels: int = 4) -> tuple[Any, Any, Any]:
    """A tensor of rows in any order, its cells and its features."""
    cells = np.unique(scene(seed), axis=0)
    np.random.default_rng(seed).shuffle(cells)
    features = np.random.default_rng(seed).normal(0, 1, (len(cells), channels)).astype(np.float32)
    x = spconv.SparseConvTensor(array_of(features, device), array_of(cells, device), [5, 7, 6], 2)
    return x, cells, features


def weights(module: Any, seed: int) -> tuple[dict[str, Any], Any, Any]:
    rng = np.random.default_rng(seed)
    state = {
        name: rng.normal(0, 1, tuple(value.shape)).astype(np.float32)
        for name, value in module.state_dict().items()
    }
    return state, state["weight"], state.get("bias", np.float32(0))


def grid_of(cells: Any, features: Any) -> Any:
    class Level:
        batch_size, shape, coordinates = 2, (5, 7, 6), cells

    return dense_of(Level, features)


@pytest.mark.parametrize("kind", ["SubMConv3d", "SparseConv3d", "SparseConvTranspose3d"])
def test_layers_are_dense_ones_at_their_sites(kind: str, device: str) -> None:
    x, cells, features = tensor_of(device)
    is_subm = kind == "SubMConv3d"
    options: Any = {"padding": 7} if is_subm else {"stride": 2, "padding": 1}
    module = getattr(spconv, kind)(4, 3, (3, 1, 3), bias=not is_subm, **options)
    state, weight, bias = weights(module, 2)
    out = loaded(module, state, device)(x)
    steps = (1, 1, 1) if is_subm else (2, 2, 2)
    mode = {"SubMConv3d": "submanifold", "SparseConv3d": "strided"}.get(kind, "transposed")
    around = (0, 0, 0) if is_subm else (1, 1, 1)
    geometry = ((3, 1, 3), steps, around, (1, 1, 1))
    found_cells = values_of(out.indices)
    expected = expected_of(mode, geometry, grid_of(cells, features), found_cells, weight)
    np.testing.assert_allclose(values_of(out.features), expected + bias, atol=2e-5)
    if is_subm:
        np.testing.assert_array_equal(found_cells, cells)
        np.testing.assert_array_equal(values_of(x.features), features)


def test_inverse_layers_return_to_the_rows_of_the_caller(device: str) -> None:
    x, cells, features = tensor_of(device)
    down = placed(spconv.SparseConv3d(4, 5, 3, 2, 1, bias=False, indice_key="down"), device)
    up = spconv.SparseInverseConv3d(5, 2, 3, indice_key="down", bias=False)
    state, weight, _ = weights(up, 3)
    coarse = down(x)
    fine = loaded(up, state, device)(coarse)
    np.testing.assert_array_equal(values_of(fine.indices), cells)
    assert fine.spatial_shape == [5, 7, 6]
    data = coarse.find_indice_pair("down")
    pairs, numbers = values_of(data.indice_pairs), values_of(data.indice_pair_num)
    assert data.out_spatial_shape == coarse.spatial_shape and data.spatial_shape == [5, 7, 6]
    rows = values_of(coarse.features)
    expected = np.zeros((len(cells), 2))
    for tap in range(27):
        inputs, outputs = pairs[:, tap, : numbers[tap]]
        place = np.unravel_index(tap, (3, 3, 3))
        np.add.at(expected, inputs, rows[outputs] @ weight[(slice(None), *place)].T)
    np.testing.assert_allclose(values_of(fine.features), expected, atol=2e-5)


def test_pooling_and_dense_maps(device: str) -> None:
    x, cells, features = tensor_of(device)
    grid = grid_of(cells, features)
    np.testing.assert_array_equal(values_of(x.dense()), grid.transpose(0, 4, 1, 2, 3))
    np.testing.assert_array_equal(values_of(x.dense(channels_first=False)), grid)
    np.testing.assert_array_equal(
        values_of(placed(spconv.ToDense(), device)(x)), grid.transpose(0, 4, 1, 2, 3)
    )
    out = placed(spconv.SparseMaxPool3d(2, indice_key="pool"), device)(x)
    assert out.spatial_shape == [2, 3, 3]
    for row, (batch, z, y, x_) in zip(values_of(out.features), values_of(out.indices)):
        window = grid[batch, 2 * z : 2 * z + 2, 2 * y : 2 * y + 2, 2 * x_ : 2 * x_ + 2]
        np.testing.assert_array_equal(row, window.max((0, 1, 2)))
    back = placed(spconv.SparseInverseConv3d(4, 4, 2, indice_key="pool"), device)(out)
    np.testing.assert_array_equal(values_of(back.indices), cells)


@pytest.mark.parametrize("ndim", [1, 2])
def test_layers_of_fewer_axes(ndim: int, device: str) -> None:
    rng = np.random.default_rng(ndim)
    shape = (9, 8)[:ndim]
    cells = np.unique(np.stack([rng.integers(0, size, 30) for size in (2, *shape)], 1), axis=0)
    cells = cells.astype(np.int32)
    features = rng.normal(0, 1, (len(cells), 3)).astype(np.float32)
    x = spconv.SparseConvTensor(array_of(features, device), array_of(cells, device), shape, 2)
    module = spconv.SparseSequential(
        getattr(spconv, f"SubMConv{ndim}d")(3, 4, 3, indice_key="a"),
        getattr(spconv, f"SparseConv{ndim}d")(4, 5, 3, stride=2, padding=1, indice_key="b"),
        getattr(spconv, f"SparseMaxPool{ndim}d")(1),
        getattr(spconv, f"SparseInverseConv{ndim}d")(5, 3, 3, indice_key="b"),
        getattr(spconv, f"SparseConvTranspose{ndim}d")(3, 2, 2, stride=2),
    )
    assert module[0].state_dict()["weight"].shape == (4, *(3,) * ndim, 3)
    found = placed(module, device)
    kept = module[3](module[2](module[1](module[0](x))))
    np.testing.assert_array_equal(values_of(kept.indices), cells)
    out = found(x)
    assert out.spatial_shape == [2 * size for size in shape]
    assert tuple(out.dense().shape) == (2, 2, *out.spatial_shape)


def test_layers_of_one_key_share_their_pairs(device: str) -> None:
    x, _, _ = tensor_of(device)
    first = placed(spconv.SubMConv3d(4, 4, 3, indice_key="a"), device)
    out = first(x)
    assert not x.indice_dict
    data = out.find_indice_pair("a")
    again = placed(spconv.SubMConv3d(4, 2, 3, indice_key="a"), device)(out)
    assert again.find_indice_pair("a") is data
    assert out.find_indice_pair(None) is None and out.find_indice_pair("b") is None
    coarse = placed(spconv.SparseConv3d(4, 4, 3, 2, indice_key="down"), device)(out)
    other, _, _ = tensor_of(device, seed=9)
    other.indice_dict = out.indice_dict
    cases = [
        ("submanifold layers of one kernel_size", spconv.SubMConv3d(4, 2, 1, indice_key="a"), out),
        ("other layers need", spconv.SparseConv3d(4, 2, 3, indice_key="a"), out),
        ("other layers need", spconv.SparseMaxPool3d(2, indice_key="down"), coarse),
        ("other indices than this", spconv.SubMConv3d(4, 2, 3, indice_key="a"), other),
        ("'b' is not there; there are: 'a', 'down'",
            spconv.SparseInverseConv3d(4, 2, 3, indice_key="b"), coarse),
        ("of a submanifold layer", spconv.SparseInverseConv3d(4, 2, 3, indice_key="a"), out),
        ("needs a strided one of kernel_size", spconv.SparseInverseConv3d(
            4, 2, 2, indice_key="down"), coarse),
        ("other indices than indice_key 'down' led to", spconv.SparseInverseConv3d(
            4, 2, 3, indice_key="down"), coarse.moved(out.features, out.rows, coarse.indice_dict)),
    ]
    for words, module, tensor in cases:
        with pytest.raises(ValueError, match=words):
            placed(module, device)(tensor)


def test_what_spconv_leaves_undefined_is_refused(device: str) -> None:
    cells = np.array([[0, 1, 1, 1], [0, 1, 1, 1], [0, 9, 0, 0]], np.int32)
    features = array_of(np.ones((3, 4), np.float32), device)
    x = spconv.SparseConvTensor(features, array_of(cells, device), [2, 2, 2], 1)
    layer = placed(spconv.SubMConv3d(4, 2, 3), device)
    with pytest.raises(ValueError, match="of 3 indices 1 are at a cell .* 1 are outside"):
        layer(x)
    y = spconv.SparseConvTensor(features, array_of(cells[:1], device), [2, 2, 2], 1)
    with pytest.raises(ValueError, match="3 rows of features for 1 indices"):
        layer(y)
    with pytest.raises(ValueError, match="groups is 2"):
        spconv.SubMConv3d(4, 2, 3, groups=2)
    with pytest.raises(ValueError, match="submanifold layer"):
        spconv.SubMConv3d(4, 2, 3, stride=2)
    with pytest.raises(ValueError, match="put the activation behind"):
        spconv.SubMConv3d(4, 2, 3, act_type="ReLU")
    with pytest.raises(RuntimeError, match="size mismatch|is required"):
        layer.load_state_dict({"weight": array_of(np.ones((2, 3, 3, 3, 5), np.float32), "cpu"),
                               "bias": array_of(np.ones(2, np.float32), "cpu")})


def test_weights_are_packed_again_when_they_change(device: str) -> None:
    x, _, _ = tensor_of(device)
    layer = spconv.SubMConv3d(4, 2, 3)
    state, _, _ = weights(layer, 1)
    first = values_of(loaded(layer, state, device)(x).features)
    state = {name: 2 * value for name, value in state.items()}
    np.testing.assert_allclose(values_of(loaded(layer, state, device)(x).features), 2 * first, 1e-5)
    if HAS_TORCH:
        layer.weight.mul_(2)
        layer.bias.mul_(2)
        np.testing.assert_allclose(values_of(layer(x).features), 4 * first, 1e-5)
        layer.weight.data.mul_(2)
        layer.bias.data.mul_(2)
        layer.eval()
        np.testing.assert_allclose(values_of(layer(x).features), 8 * first, 1e-5)


def test_features_of_16_bits_stay_so(device: str) -> None:
    x, _, features = tensor_of(device)
    layer = placed(spconv.SubMConv3d(4, 2, 3), device)
    half = layer(x.replace_feature(array_of(features.astype(np.float16), device)))
    assert values_of(half.features).dtype == np.float16
    full = values_of(layer(x).features)
    np.testing.assert_allclose(values_of(half.features), full, atol=4e-3 * np.abs(full).max(initial=1))
    if HAS_TORCH:
        wide = layer(x.replace_feature(x.features.bfloat16())).features
        assert wide.dtype == torch.bfloat16
        bound = 3e-2 * max(1, float(np.abs(full).max()))
        np.testing.assert_allclose(values_of(wide.float()), full, atol=bound)


def test_tensors_add_at_the_same_sites(device: str) -> None:
    x, cells, features = tensor_of(device)
    order = np.argsort(cells[:, 3], kind="stable")
    y = spconv.SparseConvTensor(
        array_of(features[order], device), array_of(cells[order], device), [5, 7, 6], 2
    )
    np.testing.assert_array_equal(values_of((x + y).features), 2 * features)
    np.testing.assert_array_equal(values_of((x + x.features).features), 2 * features)
    other, _, _ = tensor_of(device, seed=5)
    with pytest.raises(ValueError, match="same sites"):
        x + other
    assert x.spatial_size == 210 and x.sparity == len(cells) / 420
    dense = spconv.scatter_nd(x.indices, x.features, (2, 5, 7, 6, 4))
    np.testing.assert_array_equal(values_of(dense), grid_of(cells, features))


def test_nothing_is_trained(device: str) -> None:
    x, _, _ = tensor_of(device)
    layer = placed(spconv.SubMConv3d(4, 2, 3), device)
    if not HAS_TORCH:
        layer.train()
        assert layer(x).features.shape[1] == 2
        return
    layer.train()
    layer(x)
    with torch.enable_grad():
        with pytest.raises(RuntimeError, match="computes no gradients"):
            layer(x)
        layer.eval()
        assert not layer(x).features.requires_grad
    assert isinstance(layer, torch.nn.Module) and spconv.is_spconv_module(layer)
    assert spconv.is_sparse_conv(layer) and isinstance(layer, spconv.conv.SparseConvolution)


def test_modules_have_names_and_places(device: str) -> None:
    module = spconv.SparseSequential(spconv.SubMConv3d(1, 1, 1), last=spconv.RemoveGrid())
    assert len(module) == 2 and module[1] is module._modules["last"]
    module.add(spconv.ToDense())
    assert list(module._modules) == ["0", "last", "2"]
    with pytest.raises(KeyError):
        module.add(spconv.ToDense(), "last")
    assert set(module.state_dict()) == {"0.weight", "0.bias"}


def test_no_rows_give_no_rows(device: str) -> None:
    x = spconv.SparseConvTensor(
        array_of(np.zeros((0, 4), np.float32), device),
        array_of(np.zeros((0, 4), np.int32), device), [5, 7, 6], 1,
    )
    out = placed(spconv.SparseSequential(
        spconv.SubMConv3d(4, 4, 3), relu(), spconv.SparseConv3d(4, 2, 3, 2, 1)), device)(x)
    assert tuple(out.features.shape) == (0, 2) and len(out.indices) == 0
    assert not values_of(out.dense()).any()


def test_an_operation_serves_a_layer(device: str) -> None:
    """A layer is one call of ops.sparse_conv on rows in the order of the sites."""
    x, cells, features = tensor_of(device)
    layer = placed(spconv.SubMConv3d(4, 2, 3, bias=False), device)
    sites = ops.Sites(cells, (5, 7, 6), batch_size=2)
    expected = ops.sparse_conv(
        features[sites.rows], ops.Rulebook(sites, 3), values_of(layer.state_dict()["weight"])
    )
    np.testing.assert_allclose(values_of(layer(x).features)[sites.rows], expected, atol=1e-6)
