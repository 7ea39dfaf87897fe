"""Functions of `burnpy.nn.functional` beside PyTorch's: values, first and second derivatives, single members and empty
batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, Tensor
from burnpy.backend import NumPy
from burnpy.nn import functional as F  # noqa: N812  # PyTorch's name for it
from burnpy.testing import gradgradcheck
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


POOLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("max_pool1d", (2,), {}),
    ("max_pool1d", (3,), {"stride": 2, "padding": 1, "dilation": 2, "ceil_mode": True}),
    ("avg_pool1d", (2,), {}),
    ("avg_pool1d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}),
    ("adaptive_avg_pool1d", (4,), {}),
    ("adaptive_max_pool1d", (3,), {}),
    ("adaptive_max_pool1d", (4,), {}),
    ("adaptive_max_pool1d", (11,), {}),
]


@pytest.mark.parametrize(("name", "sizes", "settings"), POOLS, ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 9), (3, 9), (0, 3, 9)], ids=str)
def test_pools_of_sequences(name: str, sizes: Any, settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    if name in ("adaptive_avg_pool1d", "adaptive_max_pool1d") and not shape[0]:
        assert getattr(F, name)(Tensor[NumPy].zeros(shape), *sizes).shape == (*shape[:-1], *sizes)
        return
    ours, theirs = getattr(F, name), getattr(T, name)
    agree(lambda x: ours(x, *sizes, **settings), lambda x: theirs(x, *sizes, **settings), data(*shape))


@pytest.mark.parametrize("size", [1, 3, (2, 4), (5, 6), (7, 9)], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 5, 6), (3, 5, 6)], ids=str)
def test_adaptive_max_pool2d(size: Any, shape: tuple[int, ...]) -> None:
    agree(lambda x: F.adaptive_max_pool2d(x, size), lambda x: T.adaptive_max_pool2d(x, size), data(*shape))


@pytest.mark.parametrize("seed", range(6))
def test_indices_of_adaptive_pools_and_of_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, (2, 3, *map(int, rng.integers(2, 9, 2)))).astype("float64")
    size = tuple(map(int, rng.integers(1, 9, 2)))
    given, mine = torch.from_numpy(x).requires_grad_(), Tensor[Train].from_data(x).require_grad()
    expected, places = T.adaptive_max_pool2d(given, size, return_indices=True)
    found, indices = F.adaptive_max_pool2d(mine, size, return_indices=True)
    assert_close(found, expected)
    np.testing.assert_array_equal(indices.to_numpy(), places.numpy())
    expected.sum().backward()
    assert_close(found.sum().backward()[mine], given.grad)
    expected, places = T.adaptive_max_pool1d(given[0, 0], size[1], return_indices=True)
    found, indices = F.adaptive_max_pool1d(mine[0, 0], size[1], return_indices=True)
    np.testing.assert_array_equal(indices.to_numpy(), places.numpy())
    expected, places = T.max_pool1d(given[0], 2, return_indices=True) if x.shape[3] > 1 else (None, None)
    if places is not None:
        np.testing.assert_array_equal(
            F.max_pool1d(mine[0, :, 0], 2, return_indices=True)[1].to_numpy(),
            T.max_pool1d(given[0, :, 0], 2, return_indices=True)[1].numpy(),
        )


WINDOWS: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": (1, 3), "padding": (0, 2), "dilation": (1, 2)},
    {"stride": 2, "dilation": 2, "padding": 2},
]


@pytest.mark.parametrize("settings", WINDOWS, ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 5, 6), (3, 5, 6)], ids=str)
def test_unfold_and_fold(settings: dict[str, Any], shape: tuple[int, ...]) -> None:
    agree(lambda x: F.unfold(x, (2, 3), **settings), lambda x: T.unfold(x, (2, 3), **settings), data(*shape))
    columns = data(*F.unfold(Tensor[NumPy].zeros(shape), (2, 3), **settings).shape)
    size = shape[-2:]
    agree(lambda x: F.fold(x, size, (2, 3), **settings), lambda x: T.fold(x, size, (2, 3), **settings), columns)


def test_unfold_of_an_empty_batch() -> None:
    assert F.unfold(Tensor[NumPy].zeros((0, 3, 5, 6)), 2).shape == (0, 12, 20)
    assert F.fold(Tensor[NumPy].zeros((0, 12, 20)), (5, 6), 2).shape == (0, 3, 5, 6)


@pytest.mark.parametrize("lead", [(2,), (), (2, 3)], ids=str)
def test_pixel_shuffle_and_back(lead: tuple[int, ...]) -> None:
    agree(lambda x: F.pixel_shuffle(x, 2), lambda x: T.pixel_shuffle(x, 2), data(*lead, 8, 3, 5))
    agree(lambda x: F.pixel_unshuffle(x, 3), lambda x: T.pixel_unshuffle(x, 3), data(*lead, 2, 3, 6))


def test_pixel_shuffle_of_an_empty_batch() -> None:
    """PyTorch's derivative refuses one."""
    x = Tensor[Train].zeros((0, 8, 3, 5)).require_grad()
    out = F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2)
    assert out.shape == x.shape == out.sum().backward()[x].shape


def test_channel_shuffle() -> None:
    agree(lambda x: F.channel_shuffle(x, 3), lambda x: T.channel_shuffle(x, 3), data(2, 6, 3, 2))


SEQUENCE_SIZES: list[dict[str, Any]] = [{"size": 7}, {"size": 3}, {"scale_factor": 2}, {"scale_factor": 1.7}]
IMAGE_SIZES: list[dict[str, Any]] = [
    {"size": 7},
    {"size": (3, 9)},
    {"size": (1, 1)},
    {"scale_factor": 2},
    {"scale_factor": (0.6, 2.3)},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
]


@pytest.mark.parametrize("sizes", SEQUENCE_SIZES, ids=str)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "linear, corners", "area"])
def test_interpolate_sequences(mode: str, sizes: dict[str, Any]) -> None:
    settings = {**sizes, "mode": mode.partition(",")[0], **({"align_corners": True} if "," in mode else {})}
    agree(lambda x: F.interpolate(x, **settings), lambda x: T.interpolate(x, **settings), data(2, 3, 5))


def test_the_nearest_element_is_rounded_as_in_pytorch() -> None:
    for source in range(2, 30):
        x = np.arange(source, dtype=np.float32).reshape(1, 1, source)
        for size in range(2, 60):
            ours = F.interpolate(Tensor[NumPy].from_data(x), size).tolist()
            assert ours == T.interpolate(torch.from_numpy(x), size).tolist(), (source, size)


@pytest.mark.parametrize("sizes", IMAGE_SIZES, ids=str)
@pytest.mark.parametrize(
    "mode", ["nearest", "nearest-exact", "bilinear", "bilinear, corners", "bicubic", "bicubic, corners", "area"]
)
def test_interpolate_images(mode: str, sizes: dict[str, Any]) -> None:
    settings = {**sizes, "mode": mode.partition(",")[0], **({"align_corners": True} if "," in mode else {})}
    agree(lambda x: F.interpolate(x, **settings), lambda x: T.interpolate(x, **settings), data(2, 3, 5, 4))
    assert F.interpolate(Tensor[NumPy].zeros((0, 3, 5, 4)), **settings).shape[:2] == (0, 3)


@pytest.mark.parametrize("mode", ["bilinear", "bilinear, corners", "bicubic", "bicubic, corners"])
@pytest.mark.parametrize("sizes", [*IMAGE_SIZES, {"size": (2, 9)}, {"scale_factor": 0.3}], ids=str)
def test_interpolate_with_antialias(mode: str, sizes: dict[str, Any]) -> None:
    settings = {**sizes, "mode": mode.partition(",")[0], **({"align_corners": True} if "," in mode else {})}
    settings["antialias"] = True
    agree(lambda x: F.interpolate(x, **settings), lambda x: T.interpolate(x, **settings), data(2, 3, 11, 7))


@pytest.mark.parametrize("sizes", [{"size": (2, 7, 4)}, {"size": 3}, {"scale_factor": (1.5, 0.7, 2.0)}], ids=str)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "trilinear", "trilinear, corners", "area"])
def test_interpolate_volumes(mode: str, sizes: dict[str, Any]) -> None:
    settings = {**sizes, "mode": mode.partition(",")[0], **({"align_corners": True} if "," in mode else {})}
    agree(lambda x: F.interpolate(x, **settings), lambda x: T.interpolate(x, **settings), data(2, 3, 3, 5, 4))


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, padding_mode: str, align_corners: bool) -> None:
    settings: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    grid = np.random.default_rng(3).uniform(-1.9, 1.9, (2, 3, 4, 2))
    if padding_mode != "zeros":
        grid[0, 0, :3] = (-1.0, 1.0), (1.0, -0.5), (3.0, -1.0)  # at the kinks

    mine = [Tensor[Train].from_data(a).require_grad() for a in (data(2, 3, 5, 4), grid)]
    others = [torch.tensor(a, requires_grad=True) for a in (data(2, 3, 5, 4), grid)]
    out, out_ = F.grid_sample(mine[0], mine[1], **settings), T.grid_sample(*others, **settings)
    assert_close(out, out_)
    grads = out.sin().sum().backward()
    for x, g_ in zip(mine, torch.autograd.grad(out_.sin().sum(), others), strict=True):
        found = x.grad(grads)
        np.testing.assert_allclose(0.0 if found is None else found.to_numpy(), g_.numpy(), rtol=1e-9, atol=1e-11)
    if mode == "bilinear":  # PyTorch's derivative of it has none; by differences
        few = [Tensor[Train].from_data(a).require_grad() for a in (data(1, 1, 3, 4), grid[1:, :2])]
        assert gradgradcheck(lambda x, grid: F.grid_sample(x, grid, **settings), tuple(few))


@pytest.mark.parametrize("align_corners", [False, True])
def test_affine_grid(align_corners: bool) -> None:
    for size in ((2, 3, 4, 5), (2, 3, 1, 5))[: 1 if align_corners else 2]:  # of one row it warns
        agree(
            lambda theta: F.affine_grid(theta, size, align_corners=align_corners),  # noqa: B023  # called at once
            lambda theta: T.affine_grid(theta, size, align_corners),  # noqa: B023
            data(2, 2, 3),
        )


@pytest.mark.parametrize("shape", [(3, 6), (2, 6, 5), (2, 6, 3, 4), (2, 6, 2, 2, 3)], ids=str)
def test_group_norm(shape: tuple[int, ...]) -> None:
    agree(
        lambda x, w, b: F.group_norm(x, 3, w, b, eps=1e-3),
        lambda x, w, b: T.group_norm(x, 3, w, b, 1e-3),
        data(*shape),
        data(6),
        data(6) + 1.0,
    )
    agree(lambda x: F.group_norm(x, 2), lambda x: T.group_norm(x, 2), data(*shape))


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 3, 4), (2, 6, 2, 2, 3)], ids=str)
def test_instance_norm(shape: tuple[int, ...]) -> None:
    agree(
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=1e-3),
        lambda x, w, b: T.instance_norm(x, weight=w, bias=b, eps=1e-3),
        data(*shape),
        data(6),
        data(6) + 1.0,
    )
    agree(F.instance_norm, T.instance_norm, data(*shape))
    mean, var = np.full(6, 0.5), np.linspace(1.0, 2.0, 6)
    agree(
        lambda x, w: F.instance_norm(
            x, Tensor.from_data(mean, device=x.device), Tensor.from_data(var, device=x.device), w, use_input_stats=False
        ),
        lambda x, w: T.instance_norm(x, torch.tensor(mean), torch.tensor(var), w, use_input_stats=False),
        data(*shape),
        data(6),
    )


@pytest.mark.parametrize("eps", [None, 0.1])
@pytest.mark.parametrize("sizes", [(4,), (3, 4)], ids=str)
def test_rms_norm(sizes: tuple[int, ...], eps: float | None) -> None:
    agree(
        lambda x, w: F.rms_norm(x, sizes, w, eps=eps),
        lambda x, w: T.rms_norm(x, sizes, w, eps),
        data(2, 3, 4),
        data(*sizes),
    )
    agree(lambda x: F.rms_norm(x, sizes, eps=eps), lambda x: T.rms_norm(x, sizes, None, eps), data(2, 3, 4))


def test_norms_of_empty_batches() -> None:
    x = Tensor[Train].zeros((0, 6, 5)).require_grad()
    for out in (F.group_norm(x, 3), F.instance_norm(x), F.rms_norm(x, 5)):
        assert out.shape == out.sum().backward()[x].shape == (0, 6, 5)


@pytest.mark.parametrize("lead", [(3,), (), (2, 3), (0,)], ids=str)
def test_bilinear(lead: tuple[int, ...]) -> None:
    agree(F.bilinear, T.bilinear, data(*lead, 4), data(*lead, 5), data(2, 4, 5), data(2))


MASKS: dict[str, Any] = {"none": None, "of all heads": (3, 5), "of each head": (2, 6, 3, 5), "of members": (2, 1, 3, 5)}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_attention_of_grouped_queries(groups: int, mask: str) -> None:
    shape = MASKS[mask]
    allowed = None if shape is None else np.random.default_rng(0).uniform(size=shape) > 0.3
    if allowed is not None:
        allowed[..., 0] = True

    def ours(q: Any, k: Any, v: Any) -> Any:
        chosen = None if allowed is None else BoolTensor.from_data(allowed, device=q.device)
        return F.scaled_dot_product_attention(q, k, v, chosen, scale=0.3, enable_gqa=True)

    def theirs(q: Any, k: Any, v: Any) -> Any:
        chosen = None if allowed is None else torch.tensor(allowed)
        return T.scaled_dot_product_attention(q, k, v, chosen, scale=0.3, enable_gqa=True)

    agree(ours, theirs, data(2, 6, 3, 4), data(2, groups, 5, 4), data(2, groups, 5, 2))


def test_causal_attention_of_grouped_queries() -> None:
    agree(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, causal=True, enable_gqa=True),
        lambda q, k, v: T.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        data(4, 3, 4),
        data(2, 3, 4),
        data(2, 3, 5),
    )
