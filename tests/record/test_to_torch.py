"""Weights of our models under PyTorch's names and in its layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Tensor
from burnpy.backend import NumPy, errors
from burnpy.nn import Linear, Module, Param, Sequential
from burnpy.record import from_torch, read_torch, to_torch
from tests.record.nets import Train
from tests.record.test_from_torch import CHECKPOINT, Layers


@pytest.mark.parametrize("device", [NumPy, Train])
def test_it_is_the_way_back_of_from_torch(device: Any) -> None:
    theirs = read_torch(CHECKPOINT, "model")
    ours = to_torch(from_torch(Layers(device), CHECKPOINT, key="model"))
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        assert (ours[name].dtype, ours[name].shape) == (array.dtype, array.shape), name
        assert ours[name].tobytes() == array.tobytes(), name


def test_arrays_are_copies_which_others_may_write_to() -> None:
    model = Linear(2, 3, device=NumPy)
    state = to_torch(model)
    assert all(array.flags.writeable and array.flags.c_contiguous for array in state.values())
    state["weight"][:] = 7.0
    assert 7.0 not in model.weight.value.to_numpy()
    assert to_torch(model.astype("float16"))["bias"].dtype == np.float16


def test_what_is_shared_is_there_under_both_names() -> None:
    class Tied(Module[Any]):
        def __init__(self) -> None:
            self.first = Param(Tensor[NumPy].ones((2, 2)))
            self.second = self.first

    assert list(to_torch(Tied())) == ["first", "second"]


def test_files_that_others_read(tmp_path: Path) -> None:
    safetensors = pytest.importorskip(
        "safetensors.numpy", reason="writes a file by safetensors, which is not installed"
    )
    model = Sequential(Linear(2, 3, device=NumPy), Linear(3, 1, device=NumPy))
    safetensors.save_file(to_torch(model), tmp_path / "net.safetensors")
    again = from_torch(Sequential(Linear(2, 3, device=NumPy), Linear(3, 1, device=NumPy)), tmp_path / "net.safetensors")
    assert again.into_record().keys() == model.into_record().keys()
    assert again[0].weight.value.tolist() == model[0].weight.value.tolist()


def test_what_is_no_model_is_refused() -> None:
    wrong: Any = {"weight": np.ones(2)}
    with pytest.raises(errors.KindError, match=r"to_torch\(\) takes a model, got a dict"):
        to_torch(wrong)
