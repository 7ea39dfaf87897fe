"""Functions of `burnpy.nn.functional` beside PyTorch's: values, first and second derivatives, single members and empty
batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
from burnpy.nn import functional as F  # noqa: N812  # PyTorch's name for it
from tests.parity.closeness import assert_close

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning", "ignore:Using padding=.same")
T: Any = torch.nn.functional if hasattr(torch, "nn") else None

Train = Autodiff[NumPy]
Twice = Autodiff[Train]


def data(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape)


def agree(ours: Callable[..., Any], theirs: Callable[..., Any], *inputs: Any) -> None:
    """Compare values, first derivatives of a weighed sum of sines, and second derivatives of theirs, by each input."""
    mine = [Tensor.from_data(x, device=Twice).require_grad() for x in inputs]
    others = [torch.tensor(x, requires_grad=True) for x in inputs]
    out, out_ = ours(*mine), theirs(*others)
    assert_close(out, out_, "value")
    first = out.sin().sum().backward()
    first_ = torch.autograd.grad(out_.sin().sum(), others, create_graph=True)
    for x, g_ in zip(mine, first_, strict=True):
        assert_close(first[x], g_, "first derivative")
    total: Any = sum(((first[x] * first[x]).sum() for x in mine[1:]), (first[mine[0]].square()).sum())
    total_: Any = sum(g.square().sum() for g in first_)
    second = total.backward()
    second_ = torch.autograd.grad(total_, others, allow_unused=True, materialize_grads=True)
    for x, g_ in zip(mine, second_, strict=True):
        if x.inner() not in second and not g_.any():  # nothing depends on it, as with an empty batch
            continue
        np.testing.assert_allclose(second[x.inner()].to_numpy(), g_.numpy(), rtol=1e-9, atol=1e-9)


CONV1D: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": 3, "padding": 2, "dilation": 2, "groups": 2},
    {"padding": "same", "dilation": 3},
    {"padding": "valid", "groups": 4},
]
TRANSPOSED: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1, "output_padding": 1},
    {"stride": 3, "padding": 2, "dilation": 2, "groups": 2, "output_padding": 2},
    {"stride": 1, "padding": 2, "dilation": 3, "output_padding": 2},
    {"stride": 2, "padding": 0, "dilation": 4, "output_padding": 3, "groups": 4},
]


@pytest.mark.parametrize("settings", CONV1D, ids=str)
@pytest.mark.parametrize("shape", [(2, 4, 9), (4, 9), (0, 4, 9)], ids=str)
def test_conv1d(settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    weight = data(8, 4 // settings.get("groups", 1), 4)
    agree(
        lambda x, w, b: F.conv1d(x, w, b, **settings),
        lambda x, w, b: T.conv1d(x, w, b, **settings),
        data(*shape),
        weight,
        data(8),
    )
    agree(lambda x, w: F.conv1d(x, w, **settings), lambda x, w: T.conv1d(x, w, **settings), data(*shape), weight)


@pytest.mark.parametrize("settings", TRANSPOSED, ids=str)
@pytest.mark.parametrize("shape", [(2, 4, 5), (4, 5), (0, 4, 5)], ids=str)
def test_conv_transpose1d(settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    weight = data(4, 3, 4)
    bias = data(3 * settings.get("groups", 1))
    agree(
        lambda x, w, b: F.conv_transpose1d(x, w, b, **settings),
        lambda x, w, b: T.conv_transpose1d(x, w, b, **settings),
        data(*shape),
        weight,
        bias,
    )


@pytest.mark.parametrize(
    "settings", [*TRANSPOSED, {"stride": (2, 3), "padding": (1, 0), "output_padding": (0, 2)}], ids=str
)
@pytest.mark.parametrize("shape", [(2, 4, 3, 5), (4, 3, 5), (0, 4, 3, 5), (2, 16, 3, 5)], ids=str)
def test_conv_transpose2d(settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    weight = data(shape[-3], 2, 4, 3)
    bias = data(2 * settings.get("groups", 1))
    agree(
        lambda x, w, b: F.conv_transpose2d(x, w, b, **settings),
        lambda x, w, b: T.conv_transpose2d(x, w, b, **settings),
        data(*shape),
        weight,
        bias,
    )
    agree(
        lambda x, w: F.conv_transpose2d(x, w, **settings),
        lambda x, w: T.conv_transpose2d(x, w, **settings),
        data(*shape),
        weight,
    )


@pytest.mark.parametrize("sides", [((0, 1), (2, 0)), ((3, 1), 1), ((0, 0), (1, 2)), [[1, 2], [1, 2]]], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 5, 6), (3, 5, 6), (0, 3, 5, 6)], ids=str)
def test_conv2d_with_uneven_padding(sides: Any, shape: tuple[int, ...]) -> None:
    above, below = (sides[0], sides[0]) if isinstance(sides[0], int) else sides[0]
    left, right = (sides[1], sides[1]) if isinstance(sides[1], int) else sides[1]
    agree(
        lambda x, w, b: F.conv2d(x, w, b, padding=sides, stride=2),
        lambda x, w, b: T.conv2d(T.pad(x, (left, right, above, below)), w, b, 2),
        data(*shape),
        data(4, 3, 2, 3),
        data(4),
    )


@pytest.mark.parametrize("sides", [(0, 2), (3, 1), (2, 2)])
def test_conv1d_with_uneven_padding(sides: tuple[int, int]) -> None:
    agree(
        lambda x, w: F.conv1d(x, w, padding=sides, dilation=2),
        lambda x, w: T.conv1d(T.pad(x, sides), w, dilation=2),
        data(2, 3, 7),
        data(4, 3, 3),
    )
