"""`ZeroRedundancy`: the bits of the optimizer itself, a part of its states on each rank, records for any number."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, record
from burnpy.backend import NumPy, errors
from burnpy.distributed import Group, ZeroRedundancy
from burnpy.nn import BatchNorm, Linear, Relu, Sequential
from burnpy.optim import Adam, AdamW, GradientsParams, LBfgs, Sgd
from burnpy.optim import Group as Settings

from .threads import on_threads

Train = Autodiff[NumPy]


def network() -> Any:
    parts: list[Any] = [Linear(4, 8, device=Train), BatchNorm(8, device=Train), Relu()]
    return Sequential(*parts, Linear(8, 8, device=Train), Relu(), Linear(8, 3, device=Train))


def grads_of(model: Any, rank: int, step: int) -> GradientsParams[Any]:
    rng = np.random.default_rng((rank, step))
    x = Tensor.from_data(rng.normal(size=(3 + rank, 4)), dtype=model.params()[0].dtype, device=Train)
    return GradientsParams.from_grads(model(x).square().mean().backward(), model)


def same(one: Any, other: Any) -> None:
    for path, variable in one._variables().items():
        value = other._variables()[path].value
        assert np.array_equal(variable.value.to_numpy(), value.to_numpy()), path


def nbytes(optim: Any) -> int:
    return sum(x.to_numpy().nbytes for state in optim.state().values() for x in state.values.values())


def trained(group: Group, model: Any, optim: Any, steps: Any, *, parts: bool = False) -> Any:
    for step in steps:
        grads = grads_of(model, group.rank, step)
        mean = optim.mean(grads, model, weight=3 + group.rank) if parts else group.mean(grads, weight=3 + group.rank)
        model = optim.step(0.05, model, mean)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 9])
@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        AdamW,
        lambda: Sgd(momentum=0.9, groups=[Settings("*.bias", lr_scale=2.0, weight_decay=0.1)]),
        lambda: Adam(weight_decay=0.1, maximize=True),
    ],
    ids=["AdamW", "Sgd", "Adam"],
)
def test_the_bits_are_those_of_the_optimizer(size: int, parts: bool, make: Callable[[], Any]) -> None:
    """On up to nine ranks, some without a parameter."""
    first = network()
    plain = on_threads(size, lambda group: trained(group, first, make(), range(3)))
    divided = on_threads(
        size, lambda group: trained(group, first, ZeroRedundancy(make(), group), range(3), parts=parts)
    )
    for one, other in zip(plain, divided, strict=True):
        same(one, other)


@pytest.mark.parametrize("size", [2, 3])
def test_each_rank_has_its_part_of_the_states(size: int) -> None:
    def states(group: Group) -> tuple[int, set[str], int]:
        model, optim = group.broadcast(network()), ZeroRedundancy(AdamW(), group)
        model = trained(group, model, optim, range(2), parts=True)
        return nbytes(optim), set(optim.state()), max(p.value.to_numpy().nbytes for p in model.params())

    model, optim = network(), AdamW()
    optim.step(0.1, model, grads_of(model, 0, 0))
    every = on_threads(size, states)
    assert sum(each for each, _, _ in every) == nbytes(optim)
    assert sum(len(idents) for _, idents, _ in every) == len(set.union(*(idents for _, idents, _ in every)))
    for each, _, largest in every:
        assert each <= nbytes(optim) / size + 2 * largest


def test_a_checkpoint_of_four_ranks_continues_on_any_number(tmp_path: Path) -> None:
    """All ranks have the same gradients here, so that runs of different numbers of ranks are alike to the bit."""
    first = network()

    def run(group: Group, model: Any, optim: Any, steps: Any) -> Any:
        for step in steps:
            model = optim.step(0.05, model, grads_of(model, 0, step))
        return model

    undisturbed = run(Group.world(), first, AdamW(), range(6))

    def half(group: Group) -> None:
        optim = ZeroRedundancy(AdamW(), group)
        model = run(group, first, optim, range(3))
        saved = optim.into_record()
        if group.leads:
            record.save(tmp_path / "four.safetensors", model=model, optim=saved)

    on_threads(4, half)
    saved = record.load(tmp_path / "four.safetensors")

    def resumed(group: Group) -> Any:
        model = network().load_record(saved.model)
        optim = ZeroRedundancy(AdamW(), group)
        optim.load_record(saved.optim, *([model] if group.size == 2 else []))
        model = run(group, model, optim, range(3, 6))
        assert len(optim.state()) < 8 or group.size == 1
        return model

    for size in (1, 2, 6):
        for model in on_threads(size, resumed):
            same(model, undisturbed)
    model = network().load_record(saved.model)
    same(run(Group.world(), model, AdamW().load_record(saved.optim), range(3, 6)), undisturbed)
    group = Group.world()
    model = network().load_record(saved.model)
    same(run(group, model, ZeroRedundancy(AdamW().load_record(saved.optim), group), range(3, 6)), undisturbed)


def test_frozen_and_unused_parameters_keep_their_values() -> None:
    def train(group: Group, optim: Any) -> Any:
        model = first
        for step in range(4):
            model = model.no_grad("0") if step == 2 else model
            grads = grads_of(model, 0, step)
            model = optim.step(0.05, model, grads.without("5") if step == 1 else grads)
        return model

    first = network()
    expected = train(Group.world(), AdamW())
    for model in on_threads(2, lambda group: train(group, ZeroRedundancy(AdamW(), group))):
        same(model, expected)
        assert model[0].weight.frozen


@pytest.mark.parametrize("size", [2, 3])
def test_states_stay_with_their_parameters_when_layers_join_and_leave(size: int) -> None:
    """A new parameter larger than all others would change the ranks of these if they were divided again."""
    layers = [Linear(4, 4, device=Train) for _ in range(3)]
    small, large = Linear(4, 4, device=Train), Linear(4, 40, device=Train)
    models = [Sequential(*rows) for rows in (layers, [*layers, small], [*layers, small, large], layers)]

    def train(group: Group, optim: Any) -> Any:
        model, values = models[0], dict[str, Any]()
        for step in range(8):
            shape = models[step // 2]
            model = shape.with_values({p.id: values[p.id] for p in shape.params() if p.id in values})
            model = optim.step(0.05, model, grads_of(model, 0, step))
            values |= {p.id: p.value.inner() for p in model.params()}
        return model, set(optim.into_record().states)

    expected, idents = train(Group.world(), AdamW())
    for model, recorded in on_threads(size, lambda group: train(group, ZeroRedundancy(AdamW(), group))):
        same(model, expected)
        assert recorded == idents


def test_copies_trees_and_wide_dtypes() -> None:
    first = network().astype("float64")

    def train(group: Group) -> Any:
        optim = ZeroRedundancy(AdamW(), group)
        model = trained(group, first, optim, range(2))
        other = copy.copy(optim)
        one, two = (trained(group, model, each, range(2, 4)) for each in (optim, other))
        same(one, two)
        tree = {"a": Tensor[Train].ones((3,)).require_grad(), "b": [Tensor[Train].ones((2, 2)).require_grad()]}
        loss = tree["a"].square().sum() + tree["b"][0].exp().sum()  # type: ignore[index,attr-defined]
        stepped = ZeroRedundancy(Adam(), group).step(0.1, tree, loss.backward(retain_graph=True))
        alone = Adam().step(0.1, tree, loss.backward())
        assert stepped["a"].tolist() == alone["a"].tolist()
        assert stepped["b"][0].tolist() == alone["b"][0].tolist()
        return one

    one, two = on_threads(2, train)
    same(one, two)


def test_mistakes() -> None:
    group = Group.world()
    wrong: Any = 3
    with pytest.raises(errors.KindError, match=r"ZeroRedundancy\(\) takes an optimizer, such as AdamW\(\)"):
        ZeroRedundancy(wrong, group)
    with pytest.raises(errors.KindError, match=r"takes a Group, got an? int"):
        ZeroRedundancy(Adam(), wrong)
    with pytest.raises(errors.ArgumentError, match="LBfgs, whose update takes all parameters together"):
        ZeroRedundancy(LBfgs(), group)
    with pytest.raises(errors.KindError, match="takes an optimizer"):
        ZeroRedundancy(ZeroRedundancy(Adam(), group), group)
    model = network()
    optim = ZeroRedundancy(Adam(), group)
    optim.step(0.1, model, grads_of(model, 0, 0))
    with pytest.raises(errors.StateError, match="updated already"):
        optim.step(0.1, model, grads_of(model, 0, 0))
    other = ZeroRedundancy(Adam(), group).load_record(optim.into_record())
    stranger = network()
    with pytest.raises(errors.StateError, match="knows no parameter"):
        other.step(0.1, stranger, grads_of(stranger, 0, 0))
    with pytest.raises(errors.StateError, match="of the optimizer Adam"):
        ZeroRedundancy(Sgd(), group).load_record(optim.into_record())
    with pytest.raises(errors.ArgumentError, match="not negative"):
        optim.step(-1.0, model, grads_of(model, 0, 0))
