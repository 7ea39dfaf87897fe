"""Clipping matches PyTorch, for `Gradients` and for `GradientsParams`."""

from __future__ import annotations

import math

import pytest

from burnpy import Tensor
from burnpy.backend import errors
from burnpy.optim import GradientsParams, clip_by_global_norm, clip_by_norm, clip_by_value
from tests.optim.models import Mlp, Train, batch, of_two, two


def with_values(a: list[float], b: list[float]) -> GradientsParams[object]:  # type: ignore[type-var]
    grads = of_two(two())
    result = {"a": a, "b": b}
    return GradientsParams(  # type: ignore[return-value]
        grads.device,
        {
            ident: Tensor.from_data(result[path], dtype="float64", device=grads.device)
            for ident, path in zip(grads, grads.named(), strict=True)
        },
        paths=dict(zip(grads, grads.named(), strict=True)),
    )


def test_by_value() -> None:
    clipped = clip_by_value(with_values([1.0, -5.0], [math.inf, math.nan]), 2.0)
    assert clipped["a"].tolist() == [1.0, -2.0]
    assert clipped["b"].tolist()[0] == 2.0
    assert math.isnan(clipped["b"].tolist()[1])


def test_by_norm_is_of_each_tensor() -> None:
    clipped = clip_by_norm(with_values([3.0, 4.0], [0.3, 0.4]), 1.0)
    assert clipped["a"].tolist() == pytest.approx([3.0 / 5.000001, 4.0 / 5.000001], rel=1e-15)
    assert clipped["b"].tolist() == [0.3, 0.4]


def test_by_global_norm_scales_all_by_one_factor() -> None:
    grads = of_two(two())  # 3, 4, 1, 2
    for p, norm in ((2.0, math.sqrt(30.0)), (1.0, 10.0), (math.inf, 4.0)):
        clipped = clip_by_global_norm(grads, 0.5, p=p)
        factor = 0.5 / (norm + 1e-6)
        assert clipped["a"].tolist() == pytest.approx([3.0 * factor, 4.0 * factor], rel=1e-14)
        assert clipped["b"].tolist() == pytest.approx([factor, 2.0 * factor], rel=1e-14)
        assert clip_by_global_norm(grads, 10.1, p=p) is grads
    assert clip_by_global_norm(grads, math.inf) is grads
    assert clip_by_global_norm(grads, 0.0)["a"].tolist() == [0.0, 0.0]
    assert grads["a"].tolist() == [3.0, 4.0]


def test_gradients_of_backward_too() -> None:
    model = two()
    grads = model().backward()
    assert clip_by_value(grads, 2.0)[model.a.value].tolist() == [2.0, 2.0]
    assert clip_by_norm(grads, 1.0)[model.a.value].tolist() == pytest.approx([0.6, 0.8], rel=1e-6)
    assert clip_by_global_norm(grads, 1.0).norm().item() == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(errors.NonFiniteError, match=r"\(2,\) \(inf\)"):
        clip_by_global_norm(grads * math.inf, 1.0, error_if_nonfinite=True)


def test_updates_of_buffers_are_left_alone() -> None:
    model = Mlp(Train)
    grads = GradientsParams.from_grads(model(batch(3)).sum().backward(), model)
    for clipped in (clip_by_value(grads, 0.01), clip_by_norm(grads, 0.01), clip_by_global_norm(grads, 0.01)):
        assert clipped.buffer_updates[model.seen.id].tolist() == grads.buffer_updates[model.seen.id].tolist()


def test_what_is_not_finite_comes_out_as_of_torch_or_is_refused_by_path() -> None:
    infinite, nan = with_values([1.0, math.inf], [1.0, 2.0]), with_values([1.0, 1.0], [math.nan, 2.0])
    clipped = clip_by_global_norm(infinite, 1.0)
    assert clipped["b"].tolist() == [0.0, 0.0]
    assert clipped["a"].tolist()[0] == 0.0
    assert math.isnan(clipped["a"].tolist()[1])
    assert all(math.isnan(x) for g in clip_by_global_norm(nan, 1.0).values() for x in g.tolist())
    assert clip_by_norm(infinite, 1.0)["b"].tolist() == pytest.approx([1 / math.sqrt(5), 2 / math.sqrt(5)], rel=1e-6)
    for clip in (clip_by_norm, clip_by_global_norm):
        with pytest.raises(errors.NonFiniteError, match=r"infinite or NaN: a \(inf\)$"):
            clip(infinite, 1.0, error_if_nonfinite=True)
        with pytest.raises(errors.NonFiniteError, match=r"infinite or NaN: b \(nan\)$"):
            clip(nan, 1.0, error_if_nonfinite=True)
    large = with_values([1.1e308, 1.1e308], [1.1e308, 1.1e308])
    with pytest.raises(errors.NonFiniteError, match="finite gradients whose norm is inf"):
        clip_by_global_norm(large * 0.9, 1.0, error_if_nonfinite=True)


def test_mistakes() -> None:
    grads = of_two(two())
    for limit in (-1.0, math.nan, "1", None, True):
        for clip in (clip_by_value, clip_by_norm, clip_by_global_norm):
            with pytest.raises(errors.ArgumentError, match=f"{clip.__name__}"):
                clip(grads, limit)  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="p is positive"):
        clip_by_global_norm(grads, 1.0, p=0.0)
    with pytest.raises(errors.KindError, match="got a Tensor"):
        clip_by_value(grads["a"], 1.0)  # type: ignore[type-var]
