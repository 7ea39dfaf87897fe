"""Functions and layers of images and sequences: wrong arguments, narrow floats, and what is not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Generator, IntTensor, Tensor
from burnpy.backend import NumPy, errors
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.func import grad
from burnpy.nn import ConstantPad, Conv2d, ReflectionPad, ZeroPad, functional
from burnpy.nn.layers import resampling
from tests.rows import every_row

F: Any = functional  # untyped, for wrong calls


def ones(*shape: int) -> Any:
    return Tensor[NumPy].ones(shape)


def ints(*values: int) -> Any:
    return IntTensor[NumPy].from_data([*values])


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "conv1d of images": (
        lambda: F.conv1d(ones(2, 3, 4, 5), ones(4, 3, 2)),
        ShapeError,
        r"got x of shape \(2, 3, 4, 5\), expected \(N, in, length\), or \(in, length\) for one sequence",
    ),
    "conv1d, weight": (lambda: F.conv1d(ones(3, 4), ones(4, 3)), ShapeError, "takes weight of shape"),
    "conv3d, no kernel": (lambda: F.conv3d(ones(2, 3, 3, 3), ones(4, 2, 0, 1, 1)), ShapeError, "no elements"),
    "conv1d, channels": (lambda: F.conv1d(ones(3, 4), ones(4, 2, 1)), ShapeError, "with 3 channels, and weight"),
    "conv1d, too short": (
        lambda: F.conv1d(ones(3, 4), ones(4, 3, 7)),
        ShapeError,
        "sequences of length 4, padded 4, and its kernel covers 7",
    ),
    "conv1d, same": (
        lambda: F.conv1d(ones(3, 4), ones(4, 3, 1), padding="same", stride=2),
        ArgumentError,
        r'padding="same" with stride=2; expected a stride of 1',
    ),
    "conv1d, wider": (
        lambda: F.conv1d(ones(3, 4).to_dtype("float64"), ones(4, 3, 1)),
        DTypeError,
        "float64",
    ),
    "conv2d, padding": (
        lambda: F.conv2d(ones(3, 4, 4), ones(4, 3, 1, 1), padding=((1, 2, 3), 1)),
        ArgumentError,
        r"padding=\(\(1, 2, 3\), 1\); expected an int of at least 0, \(height, width\), where each may be",
    ),
    "conv2d, negative padding": (
        lambda: F.conv2d(ones(3, 4, 4), ones(4, 3, 1, 1), padding=-1),
        ArgumentError,
        "padding=-1; expected an int of at least 0",
    ),
    "conv3d, weight": (
        lambda: F.conv3d(ones(3, 4, 4, 4), ones(4, 3, 1, 1)),
        ShapeError,
        r"weight of shape \(out, in / groups, kernel depth, kernel height, kernel width\), got shape \(4, 3, 1, 1\)",
    ),
    "conv3d, padding": (
        lambda: F.conv3d(ones(3, 4, 4, 4), ones(4, 3, 1, 1, 1), padding=(1, 2)),
        ArgumentError,
        r"padding=\(1, 2\); expected an int of at least 0, \(depth, height, width\), where each may be",
    ),
    "conv3d, kernel": (
        lambda: F.conv3d(ones(3, 4, 4, 4), ones(4, 3, 5, 1, 1)),
        ShapeError,
        "volumes of 4 × 4 × 4, padded 4 × 4 × 4, and its kernel covers 5 × 1 × 1",
    ),
    "Conv2d, padding_mode": (
        lambda: Conv2d(3, 4, 3, padding_mode="symmetric", device=NumPy),  # type: ignore[arg-type]  # it is wrong
        ArgumentError,
        "padding_mode='symmetric'; expected 'zeros', 'reflect', 'replicate' or 'circular'",
    ),
    "Conv2d, reflected too far": (
        lambda: Conv2d(3, 4, 3, padding=4, padding_mode="reflect", device=NumPy)(ones(1, 3, 4, 4)),
        ShapeError,
        "it needs more than 4 elements there",
    ),
    "local_response_norm, vectors": (lambda: F.local_response_norm(ones(2, 3), 2), ShapeError, "takes x of shape"),
    "dropout2d of volumes": (lambda: F.dropout2d(ones(2, 3, 4, 4, 4)), ShapeError, r"expected \(N, channels, height,"),
    "alpha_dropout": (lambda: F.alpha_dropout(ones(2), 1.5), ArgumentError, "expected a probability"),
    "grid_sample, bicubic volumes": (
        lambda: F.grid_sample(ones(1, 1, 2, 2, 2), ones(1, 1, 1, 1, 3), mode="bicubic"),
        ArgumentError,
        'mode="bicubic" for volumes',
    ),
    "affine_grid, theta": (
        lambda: F.affine_grid(ones(2, 2, 3), (2, 1, 3, 4, 5)),
        ShapeError,
        r"theta of shape \(2, 2, 3\); for size=\(2, 1, 3, 4, 5\) it is \(2, 3, 4\)",
    ),
    "embedding_bag, no offsets": (
        lambda: F.embedding_bag(ints(0, 1), ones(3, 2)),
        KindError,
        r"takes offsets as an IntTensor with index of shape \(2,\), got None",
    ),
    "embedding_bag, offsets of rows": (
        lambda: F.embedding_bag(ints(0, 1).unsqueeze(0), ones(3, 2), ints(0)),
        ArgumentError,
        r"offsets with index of shape \(1, 2\), whose rows are the bags",
    ),
    "embedding_bag, offsets from 1": (
        lambda: F.embedding_bag(ints(0, 1), ones(3, 2), ints(1)),
        ArgumentError,
        "offsets that do not ascend from 0 to at most 2, the number of indices",
    ),
    "embedding_bag, descending offsets": (
        lambda: F.embedding_bag(ints(0, 1), ones(3, 2), ints(0, 2, 1)),
        ArgumentError,
        "offsets that do not ascend",
    ),
    "embedding_bag, last offset": (
        lambda: F.embedding_bag(ints(0, 1), ones(3, 2), ints(0, 1), include_last_offset=True),
        ArgumentError,
        "ascend from 0 to at most 2 and end there",
    ),
    "embedding_bag, out of range": (
        lambda: F.embedding_bag(ints(0, 3), ones(3, 2), ints(0)),
        errors.IndexRangeError,
        "index 3",
    ),
    "embedding_bag, factors of means": (
        lambda: F.embedding_bag(ints(0, 1), ones(3, 2), ints(0), per_sample_weights=ones(2)),
        ArgumentError,
        'per_sample_weights with mode="mean"; they are for "sum"',
    ),
    "embedding_bag, factors": (
        lambda: F.embedding_bag(ints(0, 1), ones(3, 2), ints(0), mode="sum", per_sample_weights=ones(3)),
        ShapeError,
        r"index of shape \(2,\) and per_sample_weights of shape \(3,\); they must be equal",
    ),
    "ctc_loss, blank": (
        lambda: F.ctc_loss(ones(4, 1, 3), ints(1).unsqueeze(0), [4], [1], blank=3),
        ArgumentError,
        "blank=3 for 3 classes; expected one of them",
    ),
    "ctc_loss, a blank as label": (
        lambda: F.ctc_loss(ones(4, 1, 3), ints(1, 0).unsqueeze(0), [4], [2]),
        ArgumentError,
        "the label 0, which is the blank",
    ),
    "ctc_loss, steps": (
        lambda: F.ctc_loss(ones(4, 1, 3), ints(1).unsqueeze(0), [5], [1]),
        ArgumentError,
        "input_lengths that are negative or above 4, the number of time steps",
    ),
    "ctc_loss, lengths": (
        lambda: F.ctc_loss(ones(4, 1, 3), ints(1).unsqueeze(0), [4], [2]),
        ArgumentError,
        "target_lengths that are negative or above 1, the number of labels",
    ),
    "ctc_loss, in a row": (
        lambda: F.ctc_loss(ones(4, 2, 3), ints(1, 2, 1), [4, 4], [1, 1]),
        ArgumentError,
        "3 labels in a row; expected as many as the sum of target_lengths",
    ),
    "ctc_loss, number of lengths": (
        lambda: F.ctc_loss(ones(4, 2, 3), ints(1, 2), [4], [1, 1]),
        ShapeError,
        r"input_lengths of shape \(1,\) for log_probs of shape \(4, 2, 3\), \(T, N, C\); expected shape \(2,\)",
    ),
    "ctc_loss, targets": (
        lambda: F.ctc_loss(ones(4, 2, 3), ints(1, 2, 1).unsqueeze(0), [4, 4], [1, 1]),
        ShapeError,
        r"targets of shape \(1, 3\); expected \(2, S\)",
    ),
    "ctc_loss, class": (
        lambda: F.ctc_loss(ones(4, 1, 3), ints(7).unsqueeze(0), [4], [1]),
        errors.IndexRangeError,
        "index 7",
    ),
    "multilabel_margin_loss, shapes": (
        lambda: F.multilabel_margin_loss(ones(2, 3), ints(0, 1)),
        ShapeError,
        r"scores of shape \(2, 3\) and classes of shape \(2,\)",
    ),
    "multilabel_margin_loss, class": (
        lambda: F.multilabel_margin_loss(ones(2), ints(2, -1)),
        errors.IndexRangeError,
        "index 2",
    ),
    "sigmoid_focal_loss, gamma": (
        lambda: F.sigmoid_focal_loss(ones(2), ones(2), gamma=-1.0),
        ArgumentError,
        "gamma=-1.0; expected a number above 0",
    ),
    "conv_transpose3d, nothing left": (
        lambda: F.conv_transpose3d(ones(3, 1, 1, 2), ones(3, 2, 2, 2, 2), padding=1),
        ShapeError,
        r"x with shape \(3, 1, 1, 2\); its output would be empty, of size 0 × 0 × 1; use less padding",
    ),
    "conv_transpose2d, output_padding": (
        lambda: F.conv_transpose2d(ones(3, 4, 4), ones(3, 2, 2, 2), output_padding=1),
        ArgumentError,
        "output_padding=1 with stride=1 and dilation=1; expected a number below one of them",
    ),
    "conv_transpose2d, channels": (
        lambda: F.conv_transpose2d(ones(2, 4, 4), ones(3, 2, 2, 2)),
        ShapeError,
        "with 2 channels, and weight",
    ),
    "conv_transpose1d, groups": (
        lambda: F.conv_transpose1d(ones(3, 4), ones(3, 2, 2), groups=2),
        ArgumentError,
        "groups=2 for 3 input channels, which they must divide",
    ),
    "conv_transpose1d, nothing left": (
        lambda: F.conv_transpose1d(ones(3, 1), ones(3, 2, 2), padding=1),
        ShapeError,
        r"x with shape \(3, 1\); its output would be empty, of size 0; use less padding",
    ),
    "max_pool1d, padding": (lambda: F.max_pool1d(ones(3, 4), 2, padding=2), ArgumentError, "at most half"),
    "avg_pool1d, too short": (lambda: F.avg_pool1d(ones(3, 4), 5), ShapeError, "sequences of length 4"),
    "adaptive_max_pool2d of nothing": (
        lambda: F.adaptive_max_pool2d(ones(3, 0, 4), 2),
        ShapeError,
        "which has no elements to choose from",
    ),
    "adaptive_avg_pool3d of nothing": (
        lambda: F.adaptive_avg_pool3d(ones(3, 4, 4, 0), 2),
        ShapeError,
        "which has no elements to average",
    ),
    "adaptive_avg_pool2d, no height": (
        lambda: F.adaptive_avg_pool2d(ones(3, 0, 4), (None, 2)),
        ArgumentError,
        r"output_size=\(0, 2\)",
    ),
    "adaptive_avg_pool2d, negative": (
        lambda: F.adaptive_avg_pool2d(ones(3, 4, 4), (None, -2)),
        ArgumentError,
        "output_size=-2",
    ),
    "adaptive_avg_pool3d, two sizes": (
        lambda: F.adaptive_avg_pool3d(ones(3, 4, 4, 4), (None, 2)),
        ArgumentError,
        r"output_size=\(None, 2\); expected an int of at least 1, or three of them: \(depth, height, width\)",
    ),
    "max_pool3d of images": (
        lambda: F.max_pool3d(ones(4, 4, 4), 2),
        ShapeError,
        r"expected \(N, channels, depth, height, width\), or \(channels, depth, height, width\) for one volume",
    ),
    "max_pool3d, kernel": (
        lambda: F.max_pool3d(ones(3, 4, 4, 2), 3),
        ShapeError,
        "got volumes of 4 × 4 × 2, padded 4 × 4 × 2, and its kernel covers 3 × 3 × 3",
    ),
    "max_pool3d, sizes": (
        lambda: F.max_pool3d(ones(3, 4, 4, 2), (1, 2)),
        ArgumentError,
        r"kernel_size=\(1, 2\); expected an int of at least 1, or three of them: \(depth, height, width\)",
    ),
    "lp_pool2d, p": (lambda: F.lp_pool2d(ones(3, 4, 4), -1, 2), ArgumentError, "norm_type=-1; expected a number above"),
    "max_unpool2d, indices": (
        lambda: F.max_unpool2d(ones(1, 2, 2), ones(1, 2, 3).int(), 2),
        ShapeError,
        r"x of shape \(1, 2, 2\) and indices of shape \(1, 2, 3\); they must be equal",
    ),
    "max_unpool2d, out of range": (
        lambda: F.max_unpool2d(ones(1, 2, 2), ones(1, 2, 2).int() * 16, 2),
        errors.IndexRangeError,
        "index 16",
    ),
    "max_unpool3d, output_size": (
        lambda: F.max_unpool3d(ones(1, 2, 2, 2), ones(1, 2, 2, 2).int(), 2, output_size=(4, 6, 4)),
        ArgumentError,
        r"output_size=\(4, 6, 4\); expected sizes from 3 × 3 × 3 to 5 × 5 × 5, which windows",
    ),
    "unfold, vectors": (lambda: F.unfold(ones(3, 4), 2), ShapeError, "expected .N, channels"),
    "fold, windows": (
        lambda: F.fold(ones(4, 5), (2, 3), 2),
        ShapeError,
        "with 1 × 2 windows of 2 × 2, expected a last dim of 2, and a dim before it divisible by 4",
    ),
    "interpolate, neither": (lambda: F.interpolate(ones(1, 1, 2)), ArgumentError, "neither size nor scale_factor"),
    "interpolate, both": (lambda: F.interpolate(ones(1, 1, 2), 3, scale_factor=2), ArgumentError, "both size and"),
    "interpolate, mode": (lambda: F.interpolate(ones(1, 1, 2), 3, mode="cubic"), ArgumentError, "expected 'nearest', "),
    "interpolate, dims": (
        lambda: F.interpolate(ones(1, 1, 2), 3, mode="bilinear"),
        ShapeError,
        r'with mode="bilinear" takes x of shape \(N, channels, height, width\), got shape \(1, 1, 2\)',
    ),
    "interpolate, corners": (
        lambda: F.interpolate(ones(1, 1, 2), 3, align_corners=True),
        ArgumentError,
        'align_corners=True with mode="nearest"',
    ),
    "interpolate, antialias": (
        lambda: F.interpolate(ones(1, 1, 2, 2), 1, antialias=True),
        ArgumentError,
        'antialias=True with mode="nearest"; it is for "bilinear" and "bicubic"',
    ),
    "interpolate, to nothing": (lambda: F.interpolate(ones(1, 1, 2), scale_factor=0.1), ArgumentError, "positive"),
    "grid_sample, shapes": (lambda: F.grid_sample(ones(1, 1, 2, 2), ones(2, 1, 1, 2)), ShapeError, "a grid of shape"),
    "grid_sample, mode": (
        lambda: F.grid_sample(ones(1, 1, 2, 2), ones(1, 1, 1, 2), mode="area"),
        ArgumentError,
        "mode='area'; expected 'bilinear', 'nearest' or 'bicubic'",
    ),
    "affine_grid, size": (lambda: F.affine_grid(ones(1, 2, 3), 4), ArgumentError, "size=4; expected a tuple of ints"),
    "pixel_shuffle": (lambda: F.pixel_shuffle(ones(3, 2, 2), 2), ShapeError, "whose square 4 must divide them"),
    "pixel_unshuffle": (lambda: F.pixel_unshuffle(ones(3, 2, 3), 2), ShapeError, "images of 2 × 3, and downscale"),
    "group_norm": (lambda: F.group_norm(ones(2, 3), 2), ShapeError, "num_groups=2, which must divide them"),
    "group_norm, weight": (lambda: F.group_norm(ones(2, 4), 2, ones(2)), ShapeError, r"weight of shape \(2,\)"),
    "instance_norm": (lambda: F.instance_norm(ones(2, 3, 1)), ShapeError, "a variance takes two"),
    "rms_norm": (lambda: F.rms_norm(ones(2, 3), 2), ShapeError, "must be its last dimensions"),
    "rms_norm of ints": (lambda: F.rms_norm(ones(2, 3).int(), 3), KindError, "float Tensor as x"),
    "bilinear": (lambda: F.bilinear(ones(2), ones(3), ones(1, 3, 2)), ShapeError, r"\(out, in1, in2\)"),
    "grouped queries": (
        lambda: F.scaled_dot_product_attention(ones(3, 2, 4), ones(2, 2, 4), ones(2, 2, 4), enable_gqa=True),
        ShapeError,
        "where G divides H",
    ),
}


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_places_of_16_bits_are_computed_in_float32(mode: str) -> None:
    """In float16 they would be 1/4 apart in images of 600 elements."""
    x = (Tensor[NumPy].arange(600, dtype="float16") % 2.0).reshape(1, 1, 1, 600).expand(1, 1, 4, 600)
    grid = Tensor[NumPy].from_data([[[[-0.3, 0.1], [0.7, -0.4]]]], dtype="float16")
    found, want = (F.grid_sample(x.to_dtype(d), grid.to_dtype(d), mode=mode) for d in ("float16", "float64"))
    np.testing.assert_allclose(found.to_numpy(), want.to_numpy(), atol=3e-3)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_places_in_large_images_are_computed_in_float64(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng: Any = np.random.default_rng(0)
    x, grid = (
        Tensor[NumPy].from_data(a, dtype="float32")
        for a in (rng.normal(size=(1, 2, 5, 6)), rng.uniform(-1, 1, (1, 4, 3, 2)))
    )
    small = F.grid_sample(x, grid, mode=mode)
    monkeypatch.setattr(resampling, "_MOST_FLOAT32", 29)
    large = F.grid_sample(x, grid, mode=mode)
    exact = F.grid_sample(x.to_dtype("float64"), grid.to_dtype("float64"), mode=mode)
    assert large.dtype == "float32"
    np.testing.assert_allclose(large.to_numpy(), exact.to_numpy(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(small.to_numpy(), exact.to_numpy(), rtol=1e-5, atol=1e-5)


@every_row("name", WRONG)
def test_wrong_arguments_are_explained(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


SHAPES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "bilinear": (lambda x: F.interpolate(x, 6, mode="bilinear"), (2, 3, 4, 5)),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"), (2, 3, 4, 5)),
    "nearest": (lambda x: F.interpolate(x, 7), (2, 3, 4)),
    "area": (lambda x: F.interpolate(x, 2, mode="area"), (2, 3, 4, 5)),
    "group_norm": (lambda x: F.group_norm(x, 2), (2, 4, 5)),
    "instance_norm": (lambda x: F.instance_norm(x), (2, 4, 5)),
    "rms_norm": (lambda x: F.rms_norm(x, 5), (2, 4, 5)),
    "conv_transpose1d": (lambda x: F.conv_transpose1d(x, x.ones_like()[0].unsqueeze(1), stride=2), (2, 4, 5)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 3), (2, 3, 4, 5)),
    "conv3d": (lambda x: F.conv3d(x, x.ones_like()[:, :, :2, :3, :2], padding=1), (2, 2, 3, 4, 5)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2, padding=1), (2, 3, 4, 5)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, padding=1), (2, 3, 4, 5)),
    "lp_pool2d": (lambda x: F.lp_pool2d(x, 2, 2), (2, 4, 5)),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, None), (2, 4, 5)),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (3, None, 2)), (2, 3, 4, 5)),
    "fold": (lambda x: F.fold(F.unfold(x, 2), x.shape[-2:], 2), (2, 3, 4, 5)),
}


@every_row("dtype", ["float16", "bfloat16", "float32"])
@every_row("name", SHAPES)
def test_narrow_floats_agree_with_float64(name: str, dtype: str) -> None:
    function, shape = SHAPES[name]
    x = Tensor[NumPy].from_data(np.random.default_rng(0).standard_normal(shape), dtype="float32").to_dtype(dtype)
    found, exact = function(x), function(x.to_dtype("float64"))
    assert found.dtype == dtype
    step = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}[dtype]
    np.testing.assert_allclose(found.to_dtype("float64").to_numpy(), exact.to_numpy(), rtol=8 * step, atol=8 * step)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_where_it_is(value: float) -> None:
    x = np.ones((1, 1, 8, 8))
    x[0, 0, 0, 0] = value
    out = F.interpolate(Tensor[NumPy].from_data(x), 16, mode="bilinear").to_numpy()
    assert not np.isfinite(out[0, 0, :2, :2]).any()
    assert np.isfinite(out[0, 0, 4:]).all()
    assert np.isfinite(out[0, 0, :, 4:]).all()


@every_row("padding", [(1, 2, 3), (), 1.5, (1, 2.5), "ab", None])
def test_a_padding_is_an_int_or_pairs(padding: Any) -> None:
    with pytest.raises(errors.ArgumentError, match=r"ReflectionPad\(\) got padding="):
        ReflectionPad(padding)


@pytest.mark.parametrize("dims", [0, -1, 1.0, True, "2"])
def test_dims_are_positive(dims: Any) -> None:
    with pytest.raises(errors.ArgumentError, match=r"ConstantPad\(\) got dims="):
        ConstantPad(1, dims=dims)


def test_one_number_is_for_the_last_dims() -> None:
    x = Tensor[NumPy].ones((2, 3, 4, 5))
    assert [ZeroPad(1, dims=dims)(x).shape for dims in (1, 2, 3)] == [(2, 3, 4, 7), (2, 3, 6, 7), (2, 5, 6, 7)]
    with pytest.raises(errors.ShapeError, match="5 pairs of shape"):
        ZeroPad(1, dims=5)(x)


def test_pairs_of_numpys_kind_are_refused() -> None:
    pairs: Any = ((1, 1), (0, 0))
    with pytest.raises(
        errors.ArgumentError, match=r"pad=\(\(1, 1\), \(0, 0\)\); expected pairs in a row, .*\(left, right, top"
    ):
        functional.pad(Tensor[NumPy].ones((2, 3)), pairs)


@every_row("p", [0.25, 0.75])
def test_channels_are_dropped_whole(p: float) -> None:
    for name, shape in (("dropout1d", (40, 50, 3)), ("dropout2d", (40, 50, 3, 2)), ("dropout3d", (40, 50, 1, 3, 2))):
        out = getattr(F, name)(ones(*shape), p, generator=Generator(1)).to_numpy().reshape((2000, -1))
        assert np.isin(out, np.array([0.0, 1 / (1 - p)], np.float32)).all()
        assert (out == out[:, :1]).all()
        assert abs((out[:, 0] == 0).mean() - p) < 0.05
    one = F.dropout2d(ones(50, 3, 2), p, generator=Generator(1)).to_numpy().reshape((50, 6))
    assert (one == one[:, :1]).all()
    assert 0 < (one[:, 0] == 0).sum() < 50


@every_row("p", [0.1, 0.5, 0.9])
def test_alpha_dropout_preserves_mean_and_variance(p: float) -> None:
    x = Tensor[NumPy].from_data(np.random.default_rng(0).standard_normal((300, 400, 4)))
    for drop in (F.alpha_dropout, F.feature_alpha_dropout):
        out = drop(x, p, generator=Generator(2)).to_numpy()
        assert abs(out.mean()) < 0.02
        assert abs(out.var() - 1.0) < 0.05
    same = F.feature_alpha_dropout(x * 0.0, p, generator=Generator(2)).to_numpy().reshape((120000, 4))
    assert (same == same[:, :1]).all()
    assert (F.alpha_dropout(x, 1.0).to_numpy() == 0).all()


def test_focal_loss_is_cross_entropy_times_a_power() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(50), rng.integers(0, 2, 50).astype("float64")
    p = np.where(y == 1, 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x)))
    expected = -np.where(y == 1, 0.3, 0.7) * (1 - p) ** 1.5 * np.log(p)
    found = F.sigmoid_focal_loss(
        Tensor[NumPy].from_data(x), Tensor[NumPy].from_data(y), alpha=0.3, gamma=1.5, reduction="none"
    )
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-12)


AVERAGES: list[Callable[[Any], Any]] = [
    lambda x: F.avg_pool2d(x, 5),
    lambda x: F.avg_pool2d(x, 3, stride=1, padding=1),
    lambda x: F.avg_pool1d(x[0], 7),
]


@every_row("dtype", ["float16", "bfloat16"])
@every_row("f", AVERAGES)
def test_averages_of_narrow_floats_are_summed_in_float32(f: Callable[[Any], Any], dtype: str) -> None:
    narrow = (Tensor[NumPy].normal((1, 1, 9, 9), generator=Generator(0)) * 2.0**14).to_dtype(dtype)
    assert f(narrow).isfinite().all().item()
    assert f(narrow).tolist() == f(narrow.float()).to_dtype(dtype).tolist()
    slopes: Any = grad(lambda x: f(x).float().sum())
    assert slopes(narrow).tolist() == slopes(narrow.float()).to_dtype(dtype).tolist()
