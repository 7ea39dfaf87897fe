"""Augmentations: what they do to images, on any dtype, and that a sample's does not depend on its batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from burnpy.backend import NumPy
from burnpy.data import ArrayDataset, BatchRandom, Loader, Transform, collate
from burnpy.data.transforms import ColourJitter, Crop, Cutout, Flip, Mixup, Normalize, Rotate, Shift, turned
from burnpy.errors import ArgumentError, BurnpyError, DTypeError, KindError, ShapeError
from tests.rows import every_row

IMAGES = np.random.default_rng(0).uniform(0.1, 1.0, (40, 3, 7, 6))
EACH = [
    Shift(2),
    Shift(2, fill=1.0),
    Crop(3, 4),
    Crop(3, 4, center=True),
    Flip(),
    Flip(vertical=True),
    Rotate(30.0),
    ColourJitter(0.3, 0.3, 0.3),
    Cutout(3),
    Normalize([0.5] * 3, [0.2] * 3),
]
DTYPES: list[Any] = [np.float32, np.float64, np.uint8, np.float16, bfloat16]


def rng(samples: Any) -> BatchRandom:
    return BatchRandom(7, 3, list(samples))


def images(dtype: Any) -> Any:
    return (IMAGES * 255).astype(dtype) if dtype is np.uint8 else IMAGES.astype(dtype)


@every_row("dtype", DTYPES)
@every_row("transform", EACH, ids=repr)
def test_a_sample_does_not_depend_on_its_batch(transform: Any, dtype: Any) -> None:
    x = images(dtype)
    whole = transform({"x": x, "y": 1}, rng(range(40)))
    assert whole["y"] == 1
    assert whole["x"].dtype == (np.float32 if isinstance(transform, Normalize) else dtype)
    rows = [17, 3, 39]
    assert np.array_equal(transform({"x": x[rows]}, rng(rows))["x"], whole["x"][rows])
    assert transform({"x": x[:0]}, rng([]))["x"].shape == (0, *whole["x"].shape[1:])


@every_row("transform", EACH, ids=repr)
def test_the_given_images_are_not_changed_nor_shared(transform: Any) -> None:
    x = IMAGES.copy()
    out = transform({"x": x}, rng(range(40)))["x"]
    assert np.array_equal(x, IMAGES)
    assert not np.shares_memory(out, x)


def test_shift() -> None:
    out = Shift(2, fill=-1.0)({"x": IMAGES}, rng(range(40)))["x"]
    padded = np.pad(IMAGES, ((0, 0), (0, 0), (2, 2), (2, 2)), constant_values=-1.0)
    seen = set()
    for image, result in zip(padded, out, strict=True):
        places = [(i, j) for i in range(5) for j in range(5) if np.array_equal(image[:, i : i + 7, j : j + 6], result)]
        assert len(places) == 1
        seen |= set(places)
    assert {i for i, _ in seen} == {j for _, j in seen} == set(range(5))


def test_crop() -> None:
    out = Crop(5, 5)({"x": IMAGES}, rng(range(40)))["x"]
    seen = set()
    for image, result in zip(IMAGES, out, strict=True):
        seen |= {(i, j) for i in range(3) for j in range(2) if np.array_equal(image[:, i : i + 5, j : j + 5], result)}
    assert seen == {(i, j) for i in range(3) for j in range(2)}
    assert np.array_equal(Crop(5, 4, center=True)({"x": IMAGES}, rng(range(40)))["x"], IMAGES[:, :, 1:6, 1:5])
    assert np.array_equal(Crop(7, 6)({"x": IMAGES}, rng(range(40)))["x"], IMAGES)


@pytest.mark.parametrize(("vertical", "dim"), [(False, 3), (True, 2)])
def test_flip(vertical: bool, dim: int) -> None:
    out = Flip(vertical=vertical)({"x": IMAGES}, rng(range(40)))["x"]
    mirrored = np.flip(IMAGES, dim)
    flipped = [np.array_equal(result, image) for result, image in zip(out, mirrored, strict=True)]
    assert all(f or np.array_equal(out[k], IMAGES[k]) for k, f in enumerate(flipped))
    assert 10 < sum(flipped) < 30
    assert np.array_equal(Flip(0.0)({"x": IMAGES}, rng(range(40)))["x"], IMAGES)


def test_rotate() -> None:
    square = IMAGES[:, :, :6]
    quarter = np.full(40, np.pi / 2)
    assert np.allclose(turned(square, quarter, 0.0), np.rot90(square, axes=(2, 3)))
    assert np.allclose(turned(square, -2 * quarter, 0.0), np.rot90(square, 2, axes=(2, 3)))
    assert np.array_equal(Rotate(0.0)({"x": IMAGES}, rng(range(40)))["x"], IMAGES)
    assert np.allclose(Rotate(45.0, fill=0.7)({"x": np.full((40, 1, 8, 8), 0.7)}, rng(range(40)))["x"], 0.7)
    corners = Rotate(45.0)({"x": np.ones((40, 1, 8, 8))}, rng(range(40)))["x"][:, 0, 0, 0]
    assert corners.min() < 0.1
    ints = turned(np.full((1, 1, 4, 4), 100, np.uint8), np.array([0.3]), 100.0)
    assert (ints == 100).all()


def test_colour() -> None:
    brighter = ColourJitter(brightness=0.5)({"x": IMAGES / 2}, rng(range(40)))["x"]
    factors = brighter / (IMAGES / 2)
    assert np.allclose(factors, factors[:, :1, :1, :1])
    assert 0.5 <= factors.min() < 0.7 < 1.3 < factors.max() <= 1.5
    contrast = ColourJitter(contrast=0.5)({"x": 0.4 + IMAGES / 5}, rng(range(40)))["x"]
    assert np.allclose(contrast.mean((1, 2, 3)), (0.4 + IMAGES / 5).mean((1, 2, 3)))
    grey = np.repeat(IMAGES[:, :1], 3, axis=1)
    assert np.allclose(ColourJitter(saturation=1.0)({"x": grey}, rng(range(40)))["x"], grey)
    assert ColourJitter(1.0, 1.0, 1.0, high=0.8)({"x": IMAGES}, rng(range(40)))["x"].max() == 0.8
    full = ColourJitter(brightness=1.0)({"x": np.full((40, 3, 2, 2), 200, np.uint8)}, rng(range(40)))["x"]
    assert (full.min(), full.max()) != (200, 200)
    assert full.max() == 255  # and not what is left of it in 8 bits


def test_normalize() -> None:
    out = Normalize([0.1, 0.2, 0.3], [1.0, 2.0, 4.0], scale=255)({"x": images(np.uint8)}, rng(range(40)))["x"]
    want = (images(np.uint8) / 255 - np.array([0.1, 0.2, 0.3])[:, None, None]) / np.array([1.0, 2, 4])[:, None, None]
    assert np.allclose(out, want, atol=1e-6)


def test_cutout() -> None:
    out = Cutout(3, fill=-1.0)({"x": IMAGES}, rng(range(40)))["x"]
    for image, result in zip(IMAGES, out, strict=True):
        cut = result == -1.0
        assert np.array_equal(result[~cut], image[~cut])
        assert (cut == cut[:1]).all()
        rows, columns = np.nonzero(cut[0])
        area = (rows.max() - rows.min() + 1) * (columns.max() - columns.min() + 1)
        assert area == len(rows) <= 9
    assert ((out == -1.0).sum((1, 2, 3)) == 27).any()


def test_mixup() -> None:
    labels = np.arange(40) % 4
    out = Mixup(1.0, classes=4)({"x": IMAGES, "y": labels}, rng(range(40)))
    x, y = out["x"], out["y"]
    assert y.shape == (40, 4)
    assert np.allclose(y.sum(1), 1)
    assert (y[np.arange(40), labels] >= 0.5 - 1e-6).all()
    for k in range(40):
        found = [
            j
            for j in range(40)
            if np.linalg.matrix_rank(np.stack([(x[k] - IMAGES[k]).ravel(), (IMAGES[j] - IMAGES[k]).ravel()]), 1e-5) <= 1
        ]
        assert set(found) - {k}  # x is on the line to another sample
    again = Mixup(1.0)({"x": IMAGES, "y": np.eye(4)[labels]}, rng(range(40)))
    assert np.allclose(again["y"], y, atol=1e-6)
    half = Mixup(1.0)({"x": IMAGES.astype(bfloat16), "y": np.eye(4, dtype=bfloat16)[labels]}, rng(range(40)))
    assert np.allclose(half["y"].astype("f4"), y, atol=1e-2)


@every_row(
    "call, error, said",
    [
        (lambda: Shift(-1), ArgumentError, "pixels=-1"),
        (lambda: Crop(0, 1), ArgumentError, r"height=0; expected an int of at least 1"),
        (lambda: Flip(2.0), ArgumentError, "p=2.0"),
        (lambda: Rotate(-1.0), ArgumentError, "degrees=-1.0"),
        (lambda: ColourJitter(contrast=2.0), ArgumentError, "contrast=2.0"),
        (lambda: Cutout(0), ArgumentError, "size=0"),
        (lambda: Mixup(0.0), ArgumentError, "alpha=0.0"),
        (lambda: Normalize([0.0], [0.0]), ArgumentError, r"std=0.0; expected a finite number above 0"),
        (lambda: Crop(8, 1)({"x": IMAGES}, rng(range(40))), ShapeError, "7 × 6; expected 8 × 1"),
        (lambda: Flip()({"z": IMAGES}, rng(range(40))), ArgumentError, "augments x, and the samples have z"),
        (lambda: Flip()({"x": IMAGES[0]}, rng(range(3))), ShapeError, r"\(3, 7, 6\)"),
        (lambda: ColourJitter(saturation=0.1)({"x": IMAGES[:, :1]}, rng(range(40))), ShapeError, "1 channels"),
        (lambda: ColourJitter(0.1)({"x": IMAGES.astype(int)}, rng(range(40))), DTypeError, "int64"),
        (lambda: Normalize([0.0], [1.0])({"x": IMAGES}, rng(range(40))), ShapeError, "1 means"),
        (
            lambda: Mixup(1.0)({"x": IMAGES}, rng(range(40))),
            ArgumentError,
            "augments y, and the samples have x; give labels=",
        ),
        (lambda: Mixup(1.0)({"x": IMAGES, "y": np.zeros(40, int)}, rng(range(40))), DTypeError, "pass classes="),
        (lambda: Mixup(1.0, 2)({"x": IMAGES, "y": np.full(40, 2)}, rng(range(40))), ArgumentError, "from 2 to 2"),
        (lambda: Mixup(1.0)({"x": images(np.uint8), "y": np.zeros(40)}, rng(range(40))), DTypeError, "uint8"),
        (lambda: Mixup(1.0)({"x": IMAGES, "y": [1]}, rng(range(40))), KindError, r"y is \[1\]"),
        (lambda: Shift(1)({"x": IMAGES.astype("U3")}, rng(range(40))), DTypeError, "x has dtype <U3"),
        (lambda: Flip()({"x": IMAGES[:3]}, rng(range(40))), ShapeError, "random numbers for 40 samples"),
        (
            lambda: Cutout(2, fill=0.5)({"x": images(np.uint8)}, rng(range(40))),
            ArgumentError,
            "fill=0.5 for images of uint8",
        ),
        (
            lambda: Shift(2, fill=256)({"x": images(np.uint8)}, rng(range(40))),
            ArgumentError,
            "fill=256 for images of uint8",
        ),
    ],
)
def test_refused(call: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()


WRONG: tuple[Any, ...] = (
    None,
    "text",
    [1, [2, 3]],
    [],
    {},
    np.ones((2, 3)),
    -1,
    1.5,
    float("nan"),
    float("inf"),
    True,
    10**400,
    1j,
)
TRANSFORMS: list[Any] = [*EACH, Mixup(0.2, 3)]
SETTINGS = [(each, field.name) for each in TRANSFORMS for field in fields(each)]


@every_row(("transform", "name"), SETTINGS)
def test_settings_of_no_use_are_refused_by_a_sentence(transform: Any, name: str) -> None:
    columns = {"x": images(np.float32), "y": np.arange(40) % 3}
    for wrong in WRONG:
        try:
            replace(transform, **{name: wrong})(columns, rng(range(40)))
        except BurnpyError:
            continue
        one = name == "classes" and wrong is None
        assert one or type(wrong) is type(getattr(transform, name)) or isinstance(wrong, float | int)
        assert one or wrong == wrong
        assert wrong is not True or name in ("center", "vertical")


@every_row(
    "call, said",
    [
        (lambda r: r.uniform(0, "1"), r"uniform\(\) got high='1'; expected a finite number"),
        (lambda r: r.uniform(0, float("inf")), r"uniform\(\) got high=inf; expected a finite number"),
        (lambda r: r.uniform(shape=(-1,)), r"uniform\(\) got shape \(-1,\); sizes cannot be negative"),
        (lambda r: r.uniform(shape=(1.5,)), r"uniform\(\) got the size 1.5, which is not an int"),
        (lambda r: r.uniform(shape="ab"), r"uniform\(\) got the size 'ab', which is not an int"),
        (lambda r: r.uniform(dtype="int32"), "int32"),
        (lambda r: r.uniform(dtype="floaty"), "floaty"),
        (lambda r: r.uniform(shape=(10**18,)), "more elements than can be addressed"),
        (lambda r: r.normal(std=-1.0), r"normal\(\) got std=-1.0; expected a finite number of at least 0"),
        (lambda r: r.integers(0, 2.5), r"integers\(\) got high=2.5; expected an int"),
        (lambda r: r.integers(0, 2**64), r"integers\(\) got high=18446744073709551616; expected an int of 64 bits"),
        (lambda r: r.integers(0, 2, "a"), r"integers\(\) got the size 'a', which is not an int"),
        (lambda r: r.bernoulli(2), r"bernoulli\(\) got p=2; expected a number from 0 to 1"),
        (lambda r: r.beta(0, 1), r"beta\(\) got a=0; expected a finite number above 0"),
    ],
)
def test_random_numbers_of_no_use_are_refused(call: Callable[[Any], Any], said: str) -> None:
    drawn = rng(range(3))
    with pytest.raises(BurnpyError, match=said):
        call(drawn)
    assert np.array_equal(drawn.uniform(), rng(range(3)).uniform())  # nothing was drawn


def test_in_a_loader() -> None:
    data = ArrayDataset(x=images(np.uint8), y=np.arange(40) % 3)
    chain: list[Transform] = [Shift(1), Flip(), Normalize([0.5] * 3, [0.5] * 3, scale=255), Mixup(0.5, classes=3)]
    loader = Loader(data, collate(device=NumPy, transform=chain), batch_size=16, workers=2)
    assert [(batch.x.shape, batch.y.shape) for batch in loader] == [((n, 3, 7, 6), (n, 3)) for n in (16, 16, 8)]


def test_random_numbers() -> None:
    draw = rng(range(2000))
    uniform, normal, ints = draw.uniform(2.0, 4.0), draw.normal(1.0, 3.0, (2,)), draw.integers(-2, 3)
    assert uniform.dtype == np.float32
    assert abs(uniform.mean() - 3) < 0.05
    assert normal.shape == (2000, 2)
    assert abs(normal.std() - 3) < 0.15
    assert set(ints.tolist()) == {-2, -1, 0, 1, 2}
    assert abs(draw.bernoulli(0.3).mean() - 0.3) < 0.05
    half = draw.uniform(shape=(100,), dtype=np.float16)
    assert half.dtype == np.float16
    assert half.max() < 1
    assert draw.uniform(1.0, 0.0).max() <= 1
    assert draw.normal(shape=(0,)).shape == (2000, 0)
    assert not np.array_equal(draw.uniform(), draw.uniform())
    with pytest.raises(ArgumentError, match="low=3 and high=3"):
        draw.integers(3, 3)
