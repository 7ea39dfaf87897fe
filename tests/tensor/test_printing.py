"""Tensors, gradients and graphs as text and as HTML: `burnpy.tensor.display`."""

from __future__ import annotations

import io
from base64 import b64decode
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, func
from burnpy.autodiff.tools.drawing import MOST_DRAWN
from burnpy.backend import NumPy
from burnpy.nn import BatchNorm, Linear, Relu, Sequential
from burnpy.optim import GradientsParams
from tests.rows import every_row

Train = Autodiff[NumPy]


def parsed(x: Any) -> ElementTree.Element:
    return ElementTree.fromstring(x._repr_html_())


def text(x: Any) -> str:
    return "".join(parsed(x).itertext())


def pictures(x: Any) -> list[np.ndarray[Any, Any]]:
    """The pixels of the pictures in the HTML of a tensor."""
    sources = [image.get("src", "") for image in parsed(x).iter("img")]
    return [np.asarray(Image.open(io.BytesIO(b64decode(source.partition(",")[2])))) for source in sources]


@every_row(
    "shape",
    [
        (),
        (0, 5),
        (1000,),
        (1001,),
        (7, 200),
        (8, 200),
        (2, 600),
        (3, 5, 7, 11),
        (12, 1, 9, 12),
        (2, 3, 0),
        (1000, 1000),
    ],
)
def test_text_is_that_of_the_whole_array(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape)
    x = Tensor[NumPy].from_data(array)
    expected = np.array2string(array, separator=", ", prefix="Tensor(", floatmode="maxprec")
    assert repr(x).startswith(f"Tensor({expected},")
    assert np.array2string(array, separator=", ", floatmode="maxprec") in text(x)


def test_little_of_a_large_tensor_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[np.ndarray[Any, Any]] = []

    def noted(device: NumPy, x: Any) -> Any:
        read.append(x)
        return x

    monkeypatch.setattr(NumPy, "to_numpy", noted)
    x = Tensor[Train].zeros((1, 1, 1, 1)).expand((10, 3, 5000, 4000)).require_grad()  # one element in memory
    assert "tracked" in repr(x)
    assert "one of 40 rows and columns" in text(x)
    assert max(x.size for x in read) <= 8 * 3 * 128 * 128


def test_reading_is_not_recorded() -> None:
    x = Tensor[Train].ones((2000,)).require_grad()
    y = x * 2.0
    before = y._primitive.node
    repr(y), y._repr_html_()
    assert y._primitive.node is before
    assert (
        func.vmap(lambda row: row * float("one for each example" in text(row)))(Tensor[NumPy].ones((3, 8, 8))).sum()
        == 192
    )


def test_a_matrix_is_black_to_white_or_blue_to_red() -> None:
    ramp = np.linspace(0, 1, 80).reshape(8, 10)
    (grey,) = pictures(Tensor[NumPy].from_data(ramp))
    np.testing.assert_array_equal(grey, np.repeat((ramp * 255).round()[..., None], 3, axis=2))
    signed = np.zeros((8, 8))
    signed[0, :4] = -2.0, 2.0, np.nan, -1.0
    (colors,) = pictures(Tensor[NumPy].from_data(signed))
    assert colors[0, :4].tolist() == [[33, 102, 172], [178, 24, 43], [255, 0, 255], [144, 178, 214]]
    assert (colors[1:] == 255).all()
    (ints,) = pictures(IntTensor[NumPy].from_data(np.arange(64).reshape(8, 8)))
    assert (ints[0, 0, 0], ints[-1, -1, 0]) == (0, 255)
    (bools,) = pictures(BoolTensor[NumPy].from_data(np.eye(9) > 0))
    np.testing.assert_array_equal(bools[..., 1], np.eye(9) * 255)


def test_images_are_shown_as_they_are() -> None:
    image = np.random.default_rng(0).integers(0, 256, (3, 9, 11))
    (shown,) = pictures(IntTensor[NumPy].from_data(image))
    np.testing.assert_array_equal(shown, np.moveaxis(image, 0, -1))
    batch = Tensor[NumPy].from_data(np.broadcast_to(np.array([0.25, 0.5, 1.0])[:, None, None], (20, 3, 8, 8)))
    assert len(pictures(batch)) == 8
    assert pictures(batch)[-1][0, 0].tolist() == [64, 128, 255]
    assert pictures(Tensor[NumPy].full((1, 8, 8), float("nan")))[0][0, 0].tolist() == [255, 0, 255]


@every_row("shape", [(), (8,), (3, 3), (7, 90), (2, 8, 8), (0, 8, 8), (8, 0)])
def test_other_shapes_have_no_picture(shape: tuple[int, ...]) -> None:
    assert pictures(Tensor[NumPy].zeros(shape)) == []


def test_models_fold_and_gradients_have_norms() -> None:
    inner = Sequential(Linear(3, 2, device=Train), BatchNorm(2, device=Train))
    model = Sequential(Linear(2, 3, device=Train), Relu(), inner).no_grad("0")
    shown = list(parsed(model).iter("details"))
    assert [part.get("open") for part in shown] == ["", None, None, None, None]
    assert "".join(shown[0][0].itertext()) == "Sequential()  23 parameters, 9 of them frozen".replace(
        "23", str(model.num_params)
    )
    assert "0 Linear(2, 3)  9 parameters, 9 of them frozen" in text(model)
    assert text(model.summary(input=(4, 2))).count("Linear(") == 2

    x = Tensor[Train].ones((4, 2)).require_grad()
    grads = model(x).square().sum().backward()
    rows = [
        ["".join(cell.itertext()) for cell in row]
        for row in parsed(GradientsParams.from_grads(grads, model)).iter("tr")
    ]
    assert rows[0] == ["", "shape", "dtype", "norm"]
    assert [row[0] for row in rows[1:]] == ["2.0.weight", "2.0.bias", "2.1.weight", "2.1.bias"]
    assert text(grads).count("float32") == 5
    assert f"(4, 2)float32{grads[x].square().sum().sqrt().item():.4g}" in text(grads)


def test_norms_are_left_out_where_they_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnpy.tensor.display._MOST_NORMED", 3)
    x = Tensor[Train].ones((4,)).require_grad()
    assert "norm" not in text(x.sum().backward())


def test_a_graph_is_a_picture_and_a_large_one_a_table() -> None:
    x = Tensor[Train].ones((2,)).require_grad()
    drawn = parsed(x.exp().sum().grad_fn)
    assert len([part for part in drawn.iter() if part.tag.endswith("rect")]) == 3
    assert not [part for part in drawn.iter() if part.tag.endswith("style")], "styles apply to the whole page"
    y = x
    for _ in range(MOST_DRAWN + 1):
        y = -y
    assert text(y.exp().grad_fn).endswith("operationnodesneg301exp1")
