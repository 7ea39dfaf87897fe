"""Groups: parameters with their own learning rates and weight decay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from burnpy.backend import errors
from burnpy.optim import AdamW, GradientsParams, Group, Sgd
from tests.optim.models import Mlp, Train, batch, of_two, two, values


def test_rates_and_decay_by_path() -> None:
    model = two()
    optim = Sgd(weight_decay=0.5, groups=[Group("a", lr_scale=0.1, weight_decay=0.0)])
    assert values(optim.step(1.0, model, of_two(model))) == {"a": pytest.approx([0.7, 1.6]), "b": [0.5, 0.0]}
    fixed = Sgd(groups=[Group("b", lr=0.0)])
    assert values(fixed.step(1.0, model, of_two(model))) == {"a": [-2.0, -2.0], "b": [3.0, 4.0]}


def test_groups_that_say_different_things_both_count() -> None:
    model = Mlp(Train)
    grads = GradientsParams.from_grads(model(batch(3)).sum().backward(), model)
    groups = [Group("*.bias", weight_decay=0.0), Group("encoder", lr_scale=0.0)]
    new = values(AdamW(weight_decay=0.5, groups=groups).step(0.1, model, grads))
    plain = values(AdamW(weight_decay=0.0).step(0.1, model, grads))
    decayed = values(AdamW(weight_decay=0.5).step(0.1, model, grads))
    old = values(model)
    assert new["encoder.weight"] == old["encoder.weight"]
    assert new["encoder.bias"] == old["encoder.bias"]
    assert new["head.bias"] == plain["head.bias"] != decayed["head.bias"]
    assert new["head.weight"] == decayed["head.weight"]


def test_a_predicate_is_asked_once_for_models_of_one_structure() -> None:
    asked: list[str] = []

    def matrices(path: str, param: Any) -> bool:
        asked.append(path)
        return len(param.shape) > 1

    model, optim = Mlp(Train), AdamW(groups=[Group(matrices, lr_scale=0.0)])
    for _ in range(3):
        new = optim.step(0.1, model, model(batch(3)).sum().backward())
        assert new.head.weight.value.tolist() == model.head.weight.value.tolist()
        assert values(new)["head.bias"] != values(model)["head.bias"]
        model = new
    assert len(asked) == 5
    assert repr(optim.groups) == "(Group(matrices, lr_scale=0.0),)"
    grown = Mlp(Train)
    optim.step(0.1, grown, grown(batch(3)).sum().backward())
    assert len(asked) == 10


def test_mistakes_of_where_are_told_at_the_step_and_change_nothing() -> None:
    model = Mlp(Train)
    grads = model(batch(3)).sum().backward()
    for groups, message in (
        ([Group("encodr", lr_scale=0.1)], r"Group\('encodr', lr_scale=0.1\) got 'encodr', .* encoder"),
        ([Group("*.gamma", weight_decay=0.0)], "matches none"),
        ([Group("seen", lr=0.1)], "meets buffers of Mlp only"),
        ([Group("encoder", lr_scale=0.1), Group("*.bias", lr=0.1)], "both say the rate of encoder.bias"),
        ([Group("head", weight_decay=0.1), Group("*.bias", weight_decay=0.0)], "the weight_decay of head.bias"),
    ):
        optim = AdamW(groups=groups)
        with pytest.raises(errors.ArgumentError, match=message):
            optim.step(0.1, model, grads)
        assert optim.state() == {}


def test_groups_that_agree_may_meet() -> None:
    model, agreeing = Mlp(Train), [Group("head", weight_decay=0.0), Group("*.bias", weight_decay=0.0)]
    grads = model(batch(3)).sum().backward()
    alone = [Group(("head", "*.bias"), weight_decay=0.0)]
    both, one = (AdamW(groups=groups, weight_decay=0.5).step(0.1, model, grads) for groups in (agreeing, alone))
    assert all(both.state()[path].value.tolist() == entry.value.tolist() for path, entry in one.state().items())


def test_groups_that_make_no_sense() -> None:
    cases: list[tuple[Callable[[], Group], str]] = [
        (lambda: Group("a"), "sets nothing"),
        (lambda: Group("a", lr=0.1, lr_scale=0.1), "give one of them"),
        (lambda: Group("a", lr=-0.1), "the lr of Group"),
        (lambda: Group("a", lr_scale=math.nan), "the lr_scale of Group"),
        (lambda: Group("a", weight_decay=math.inf), "the weight_decay of Group"),
        (lambda: Group(3, lr=0.1), "not 3"),  # type: ignore[arg-type]
        (lambda: Group([3], lr=0.1), "not"),  # type: ignore[list-item]
        (lambda: Group("", lr=0.1), "not ''"),
    ]
    for make, message in cases:
        with pytest.raises(errors.ArgumentError, match=message):
            make()
