"""Refusals of the exporters in tools/, with stand-ins for torch that know only shapes."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import pytest
from conftest import ROOT


class Weight:
    """The shape of a tensor."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def dim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of tools/ beside a torch without operations."""

    class Module:
        """In place of torch's."""

    torch, nn = types.ModuleType("torch"), types.ModuleType("torch.nn")
    for name, value in {"Module": Module, "ModuleList": list, "Identity": object}.items():
        setattr(nn, name, value)
    setattr(torch, "nn", nn)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.nn", nn)
    monkeypatch.syspath_prepend(ROOT / "tools")

    def load(name: str) -> Any:
        monkeypatch.delitem(sys.modules, name, raising=False)
        module = importlib.import_module(name)
        monkeypatch.delitem(sys.modules, name)
        return module

    return load


def normalized(conv: str, norm: str, *shape: int, channels: int) -> dict[str, Weight]:
    return {
        f"{conv}.weight": Weight(*shape),
        f"{norm}.weight": Weight(channels),
        f"{norm}.running_var": Weight(channels),
    }


def backbone() -> dict[str, Weight]:
    """Two blocks with an upsampling each, a shared convolution and one output."""
    state = {}
    for at, (num_in, num_out) in enumerate([(256, 128), (128, 256)]):
        block, up = f"backbone_2d.blocks.{at}", f"backbone_2d.deblocks.{at}"
        state |= normalized(f"{block}.1", f"{block}.2", num_out, num_in, 3, 3, channels=num_out)
        state |= normalized(f"{up}.0", f"{up}.1", num_out, 256, 2, 2, channels=256)
    shared = "dense_head.shared_conv"
    state |= normalized(f"{shared}.0", f"{shared}.1", 64, 512, 3, 3, channels=64)
    return state | {"dense_head.heads_list.0.hm.1.weight": Weight(3, 64, 3, 3)}


def test_backbones_with_layers_of_other_kinds_are_refused(tools: Any) -> None:
    dense = tools("export_dense")
    dense.sequence = lambda _state, convs, *_: convs
    dense.upsampling = lambda _state, conv, _channels: conv
    assert dense.DenseNetwork(backbone(), 256, None).output_names == ["hm_0"]
    deblock = "backbone_2d.deblocks.2"
    longer = normalized(f"{deblock}.0", f"{deblock}.1", 512, 512, 2, 2, channels=512)
    block = "backbone_2d.blocks.0.0"
    residual = normalized(f"{block}.conv1", f"{block}.bn1", 128, 256, 3, 3, channels=128)
    for more, words in [
        (longer, r"^1 convolutions follow 2 blocks .*: backbone_2d.deblocks.2.0$"),
        (residual, r"^1 of 5 convolutions .* no batch normalization .*: backbone_2d.blocks.0.0.conv1$"),
    ]:
        with pytest.raises(dense.ExportError, match=words):
            dense.DenseNetwork(backbone() | more, 256, None)
    without = {name: of for name, of in backbone().items() if ".deblocks.1." not in name}
    with pytest.raises(dense.ExportError, match="backbone_2d.deblocks.1 has 0 convolutions; one"):
        dense.DenseNetwork(without, 256, None)


def test_decoders_without_a_tensor_are_refused_by_its_name(tools: Any) -> None:
    view = tools("export_view_decoder")
    for facts, tensors, name in [
        (view.detr3d_facts, {"transformer.decoder.layers.0.x": Weight(1)}, "query_embedding.weight"),
        (view.sparse4d_facts, {}, "instance_bank.instance_feature"),
    ]:
        with pytest.raises(view.ExportError, match=f"no {name} in the checkpoint"):
            facts(tensors)
