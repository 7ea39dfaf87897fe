"""Functions of volumes, and of pools of one to three dimensions, beside PyTorch's, as `test_networks` compares them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import IntTensor, Tensor
from burnpy.nn import functional as F  # noqa: N812  # PyTorch's name for it
from tests.parity.closeness import assert_close
from tests.rows import every_row

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

from tests.parity.test_networks import T, Train, agree, data  # noqa: E402  # after the check that PyTorch is there

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning", "ignore:Using padding=.same")

SIZES = {1: (9,), 2: (7, 6), 3: (5, 6, 4)}
WINDOWS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 1, "padding": 1},
]
UNEVEN: list[dict[str, Any]] = [
    {"kernel_size": (3, 2, 1), "stride": (1, 2, 3), "padding": (1, 0, 0), "ceil_mode": True},
    {"kernel_size": (2, 3, 2), "stride": (2, 1, 1), "padding": (0, 1, 1)},
]
POOLS: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    **{
        f"{kind}_pool{dims}d, {k}": (f"{kind}_pool{dims}d", settings, (2, 3, *SIZES[dims]))
        for kind in ("max", "avg")
        for dims in (1, 2, 3)
        for k, settings in enumerate(WINDOWS)
    },
    **{
        f"{kind}_pool3d, uneven {k}": (f"{kind}_pool3d", settings, (3, *SIZES[3]))
        for kind in ("max", "avg")
        for k, settings in enumerate(UNEVEN)
    },
    "max_pool3d, dilation": ("max_pool3d", {"kernel_size": 2, "dilation": (2, 1, 3), "stride": 1}, (1, 2, 5, 6, 4)),
    **{
        f"avg_pool3d, {flag} {divisor}": (
            "avg_pool3d",
            {**WINDOWS[1], "count_include_pad": flag, "divisor_override": divisor},
            (2, 1, 5, 6, 4),
        )
        for flag in (True, False)
        for divisor in (None, 7, -3)
    },
    **{
        f"lp_pool{dims}d, {p}": (
            f"lp_pool{dims}d",
            {"norm_type": p, "kernel_size": 2, "stride": 1 if p == 2 else None, "ceil_mode": p == 4},
            (2, 3, *SIZES[dims]),
        )
        for dims in (1, 2, 3)
        for p in (2, 4, float("inf"))
    },
    **{
        f"adaptive_{kind}_pool{dims}d, {size}": (
            f"adaptive_{kind}_pool{dims}d",
            {"output_size": size},
            (2, 3, *SIZES[dims]),
        )
        for kind in ("max", "avg")
        for dims, sizes in {
            1: (1, 4, 11),
            2: (3, (None, 2), (5, None), (None, None)),
            3: (1, 3, (None, 2, 3), (4, None, None), (None,) * 3, (7, 5, 3), (5, 8, 4)),
        }.items()
        for size in sizes
    },
}


@every_row("name", POOLS)
def test_pools(name: str) -> None:
    function, settings, shape = POOLS[name]
    agree(lambda x: getattr(F, function)(x, **settings), lambda x: getattr(T, function)(x, **settings), data(*shape))


@every_row("dims", [1, 2, 3])
@every_row("seed", range(3))
def test_indices_and_unpooling(dims: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.permutation(2 * 3 * 7**dims).reshape((2, 3, *(7,) * dims)).astype("float64")
    settings: dict[str, Any] = [{}, {"stride": 3}, {"stride": 3, "padding": 1}][seed]
    size = 3 if seed else 2
    pool, unpool = f"max_pool{dims}d", f"max_unpool{dims}d"
    expected, places = getattr(T, pool)(torch.tensor(x), size, **settings, return_indices=True)
    found, indices = getattr(F, pool)(Tensor[Train].from_data(x), size, **settings, return_indices=True)
    np.testing.assert_array_equal(found.to_numpy(), expected.numpy())
    np.testing.assert_array_equal(indices.to_numpy(), places.numpy())
    for given in ((7,) * dims, x.shape):
        agree(
            lambda v, given=given: getattr(F, unpool)(
                v, IntTensor.from_data(places.numpy(), device=v.device), size, **settings, output_size=given
            ),
            lambda v, given=given: getattr(T, unpool)(v, places, size, **settings, output_size=given),
            expected.numpy(),
        )
    ties = rng.integers(-2, 3, x.shape).astype("float64")
    adaptive = f"adaptive_max_pool{dims}d"
    for name, arguments in ((pool, {"kernel_size": size, **settings}), (adaptive, {"output_size": 3})):
        expected, places = getattr(T, name)(torch.tensor(ties), **arguments, return_indices=True)
        found, indices = getattr(F, name)(Tensor[Train].from_data(ties), **arguments, return_indices=True)
        np.testing.assert_array_equal(found.to_numpy(), expected.numpy())
        np.testing.assert_array_equal(indices.to_numpy(), places.numpy())


CONV3D: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": (3, 1, 2), "padding": (2, 0, 1), "dilation": (1, 2, 1), "groups": 2},
    {"padding": "same", "dilation": (2, 1, 3)},
    {"padding": "valid", "groups": 4},
]
TRANSPOSED: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1, "output_padding": 1},
    {"stride": (3, 1, 2), "padding": (2, 0, 1), "dilation": 2, "groups": 2, "output_padding": (2, 1, 0)},
    {"stride": 1, "padding": 1, "dilation": 3, "output_padding": 2, "groups": 4},
]


@every_row("settings", CONV3D)
@every_row("shape", [(2, 4, 5, 6, 7), (4, 5, 4, 6), (0, 4, 5, 6, 7)])
def test_conv3d(settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    weight = data(8, 4 // settings.get("groups", 1), 3, 2, 2)
    agree(
        lambda x, w, b: F.conv3d(x, w, b, **settings),
        lambda x, w, b: T.conv3d(x, w, b, **settings),
        data(*shape),
        weight,
        data(8),
    )
    agree(lambda x, w: F.conv3d(x, w, **settings), lambda x, w: T.conv3d(x, w, **settings), data(*shape), weight)


@every_row("settings", TRANSPOSED)
@every_row("shape", [(2, 4, 3, 4, 3), (4, 3, 2, 4)])
def test_conv_transpose3d(settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    groups = settings.get("groups", 1)
    agree(
        lambda x, w, b: F.conv_transpose3d(x, w, b, **settings),
        lambda x, w, b: T.conv_transpose3d(x, w, b, **settings),
        data(*shape),
        data(4, 8 // groups, 3, 2, 2),
        data(8),
    )


def test_conv3d_with_uneven_padding() -> None:
    agree(
        lambda x, w: F.conv3d(x, w, padding=((0, 1), 2, (3, 0)), stride=2),
        lambda x, w: T.conv3d(T.pad(x, (3, 0, 2, 2, 0, 1)), w, stride=2),
        data(2, 3, 4, 5, 4),
        data(4, 3, 2, 3, 2),
    )


@every_row("size", [1, 2, 3, 4, 9])
@every_row("shape", [(2, 5, 4), (2, 5, 3, 4), (1, 4, 2, 3, 2), (0, 3, 4)])
def test_local_response_norm(size: int, shape: tuple[int, ...]) -> None:
    settings = {"alpha": 0.5, "beta": 0.6, "k": 1.5}
    agree(
        lambda x: F.local_response_norm(x, size, **settings),
        lambda x: T.local_response_norm(x, size, **settings),
        data(*shape),
    )


@every_row("mode", ["bilinear", "nearest"])
@every_row("padding_mode", ["zeros", "border", "reflection"])
@every_row("align_corners", [True, False])
def test_grid_sample_of_volumes(mode: Any, padding_mode: Any, align_corners: bool) -> None:
    settings = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    x, grid = data(2, 3, 4, 5, 6), 1.3 * np.tanh(data(2, 3, 2, 4, 3))
    if mode == "nearest":
        agree(
            lambda x: F.grid_sample(x, Tensor.from_data(grid, device=x.device), **settings),
            lambda x: T.grid_sample(x, torch.tensor(grid), **settings),
            x,
        )
        return
    mine, others = (
        [Tensor[Train].from_data(a).require_grad() for a in (x, grid)],
        [torch.tensor(a, requires_grad=True) for a in (x, grid)],
    )
    out, out_ = F.grid_sample(*mine, **settings), T.grid_sample(*others, **settings)
    assert_close(out, out_, "value")
    grads, grads_ = out.sin().sum().backward(), torch.autograd.grad(out_.sin().sum(), others)
    for a, b in zip(mine, grads_, strict=True):
        assert_close(grads[a], b, "first derivative")


@every_row("align_corners", [True, False])
@every_row("size", [(2, 1, 3, 4, 5), (2, 3, 2, 2, 3), (2, 1, 3, 4)])
def test_affine_grid(align_corners: bool, size: tuple[int, ...]) -> None:
    dims = len(size) - 2
    agree(
        lambda t: F.affine_grid(t, size, align_corners=align_corners),
        lambda t: T.affine_grid(t, size, align_corners=align_corners),
        data(2, dims, dims + 1),
    )


BAGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "offsets": ([3, 1, 1, 4, 0, 2], {"offsets": [0, 2, 2, 5]}),
    "rows": ([[3, 1, 1], [4, 0, 2]], {}),
    "last offset": ([3, 1, 1, 4, 0, 2], {"offsets": [0, 2, 2, 6], "include_last_offset": True}),
    "padding": ([3, 1, 1, 4, 0, 2, 1], {"offsets": [0, 2, 6], "padding_idx": 1}),
    "padding from the end": ([[3, 1, 4], [4, 4, 4]], {"padding_idx": -1}),
    "an empty bag at the end": ([3, 1], {"offsets": [0, 2]}),
}


@every_row("mode", ["sum", "mean", "max"])
@every_row("name", BAGS)
def test_embedding_bag(name: str, mode: Any) -> None:
    index, given = BAGS[name]
    index, settings = np.array(index), {**given, "mode": mode}
    offsets = settings.pop("offsets", None)

    def of_ours(weight: Any, *factors: Any) -> Any:
        ints: Any = [None if x is None else IntTensor.from_data(x, device=weight.device) for x in (index, offsets)]
        return F.embedding_bag(ints[0], weight, ints[1], per_sample_weights=factors[0] if factors else None, **settings)

    def of_theirs(weight: Any, *factors: Any) -> Any:
        ints = [None if x is None else torch.tensor(x) for x in (index, offsets)]
        return T.embedding_bag(ints[0], weight, ints[1], per_sample_weights=factors[0] if factors else None, **settings)

    for factors in ([], [data(*index.shape)])[: 2 if mode == "sum" else 1]:
        arrays = [data(5, 3), *factors]
        mine, others = (
            [Tensor[Train].from_data(a).require_grad() for a in arrays],
            [torch.tensor(a, requires_grad=True) for a in arrays],
        )
        out, out_ = of_ours(*mine), of_theirs(*others)
        assert_close(out, out_, "value")
        grads, grads_ = out.sin().sum().backward(), torch.autograd.grad(out_.sin().sum(), others)
        for a, b in zip(mine, grads_, strict=True):
            assert_close(grads[a], b, "first derivative")


def test_a_root_of_zeros_has_gradient_0() -> None:
    x = Tensor[Train].zeros((1, 1, 4)).require_grad()
    assert F.lp_pool1d(x, 2, 2).sum().backward()[x].tolist() == [[[0.0] * 4]]
