"""Drawings of graphs: `to_dot`, `to_mermaid` and `to_svg`."""

from __future__ import annotations

import xml.dom.minidom
from collections.abc import Callable
from typing import Any

import pytest

from burnpy import Autodiff, Tensor, cat
from burnpy.autodiff import to_dot, to_mermaid, to_svg, track_lines
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, KindError, NotTrackedError

Train = Autodiff[NumPy]
DRAWERS: list[Callable[..., str]] = [to_dot, to_mermaid, to_svg]


def leaf(data: Any, device: Any = Train) -> Tensor[Any]:
    return Tensor.from_data(data, dtype="float64", device=device).require_grad()


@pytest.mark.parametrize("draw", DRAWERS)
def test_drawings_show_what_is_there(draw: Any) -> None:
    x, w = leaf([[1.0, 2.0]]), leaf([[1.0], [2.0]])
    with track_lines():
        hidden = (x @ w).tanh().retain_grad()
    loss = cat([hidden, hidden[:, :], hidden]).sum()
    drawn = draw(loss, names={"x": x, 'w"<&>': w, "hidden": hidden})
    for word in (
        "matmul",
        "tanh",
        "gradient kept",
        "hidden",
        "cat",
        "sum",
        "(1, 2) float64",
        "keeps out: 8 B",
        "test_drawing.py:",
    ):
        assert word in drawn, f"{word} is missing in {drawn}"
    assert "relay" not in drawn
    assert "retain_grad" not in drawn.replace("retain_grad()", "")
    if draw is to_svg:
        shown = xml.dom.minidom.parseString(drawn)
        assert len(shown.getElementsByTagName("rect")) == 2 + 5
        assert len(shown.getElementsByTagName("path")) == 1 + 2 + 1 + 1 + 3 + 1, "an arrow is missing"
        assert shown.getElementsByTagName("text")[0].firstChild is not None


@pytest.mark.parametrize("draw", DRAWERS)
def test_names_cannot_break_a_drawing(draw: Any) -> None:
    x = leaf([1.0])
    drawn = draw(x.exp(), names={'a"]<b>&\\': x})
    if draw is to_svg:
        xml.dom.minidom.parseString(drawn)
        assert "<b>" not in drawn
    elif draw is to_dot:
        assert 'a\\"]<b>&\\\\' in drawn
    else:
        assert "a#34;#93;#60;b#62;&\\" in drawn


@pytest.mark.slow
@pytest.mark.parametrize("depth", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("draw", DRAWERS)
def test_large_graphs_are_cut_with_a_note(draw: Any, depth: int) -> None:
    x = leaf(1.0)
    y = x
    for _ in range(depth):
        y = -y
    drawn = draw(y)
    assert f"{depth - 200} older operations and 1 leaf not drawn" in drawn
    assert drawn.count("neg") == 200
    wide = draw(cat([leaf([1.0]) for _ in range(30)]), limit=10)
    assert "20 leaves not drawn" in wide


@pytest.mark.parametrize("draw", DRAWERS)
def test_small_and_freed_graphs(draw: Any) -> None:
    x = leaf([1.0])
    assert "not tracked" in draw(x.detach())
    assert "x" in draw(x, names={"x": x})
    loss = x.exp().sum()
    loss.backward()
    assert "freed" in draw(loss)
    assert "exp" in draw([x.exp(), x.sin()])


@pytest.mark.parametrize("draw", DRAWERS)
def test_misuse_of_drawings(draw: Any) -> None:
    name = draw.__name__
    with pytest.raises(ArgumentError, match=rf"{name}\(\) got limit=0"):
        draw(leaf([1.0]).exp(), limit=0)
    with pytest.raises(KindError, match=rf"{name}\(names=…\) takes tensors by name, and 'x' is 3"):
        draw(leaf([1.0]).exp(), names={"x": 3})
    with pytest.raises(NotTrackedError, match=rf"{name}\(\) got a Tensor .* on NumPy"):
        draw(Tensor[NumPy].ones((1,)))
    with pytest.raises(KindError, match=rf"{name}\(tensors=…\)"):
        draw([1.0])


def test_layout_leaves_no_boxes_on_top_of_each_other() -> None:
    from burnpy.autodiff.tools.drawing import laid_out

    texts = [["a" * (k % 7 + 1)] * (k % 3 + 1) for k in range(40)]
    arrows = [(a, b) for b in range(40) for a in range(max(0, b - 9), b, 4)]
    layout = laid_out(texts, arrows)
    places = layout.places
    for k, (x, y, w, h) in enumerate(places):
        assert 0 <= x <= x + w <= layout.width
        assert 0 <= y <= y + h <= layout.height
        for u, v, p, q in places[:k]:
            assert x + w <= u or u + p <= x or y + h <= v or v + q <= y, "two boxes overlap"
    for (a, b), route in zip(arrows, layout.routes, strict=True):
        assert places[a][1] < places[b][1], "an arrow points up"
        assert [p[1] for p in route] == sorted(p[1] for p in route)


def test_layout_centres_a_box_above_its_targets() -> None:
    from burnpy.autodiff.tools.drawing import laid_out

    places = laid_out([["a" * 40], ["a"], ["aaa"]], [(0, 1), (0, 2)]).places
    above, one, two = [x + width / 2 for x, _, width, _ in places]
    assert above == pytest.approx((one + two) / 2)
