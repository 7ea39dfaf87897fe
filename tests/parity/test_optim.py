"""Optimizers, schedules and clipping beside PyTorch's, with frozen parameters and some that miss gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, ComplexTensor, Tensor
from burnpy.backend import NumPy
from burnpy.nn import Linear, Module
from burnpy.optim import (
    AdaDelta,
    Adafactor,
    AdaGrad,
    Adam,
    Adamax,
    AdamW,
    Asgd,
    ConstantLr,
    CosineLr,
    CosineRestartsLr,
    CyclicLr,
    ExponentialLr,
    Group,
    LinearLr,
    LrSchedule,
    MultiStepLr,
    Muon,
    NAdam,
    OneCycleLr,
    Optimizer,
    PolynomialLr,
    RAdam,
    ReduceOnPlateau,
    RmsProp,
    Rprop,
    SequentialLr,
    Sgd,
    StepLr,
    WarmUpLr,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
)
from tests.interrupting import LONG

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:Detected call of", "ignore:The epoch parameter")

Train = Autodiff[NumPy]
STEPS = 40 if LONG else 24
"""The steps of each optimizer; a layer has every third of them, and RAdam rectifies from the sixth one on."""


class Net(Module[Any]):
    """Two heads; a step uses one of them."""

    def __init__(self) -> None:
        self.a, self.b, self.c = (Linear(i, o, device=Train) for i, o in ((3, 4), (4, 2), (4, 2)))

    def forward(self, x: Tensor[Any], third: bool) -> Tensor[Any]:
        hidden = self.a(x).tanh()
        return self.c(hidden) if third else self.b(hidden)


def theirs() -> Any:
    torch.manual_seed(0)
    return torch.nn.ModuleDict({name: torch.nn.Linear(i, o) for name, i, o in (("a", 3, 4), ("b", 4, 2), ("c", 4, 2))})


def transposed(x: Any) -> Any:
    return x.detach().numpy().T


def rate(step: int) -> float:
    return 0.01 * (1.0 + math.sin(step / 7.0))


def compared(optim: Optimizer, make: Callable[[Any], Any], clip: Any = None, clip_theirs: Any = None) -> None:
    other = theirs().double()
    other["a"].weight.requires_grad_(False)
    model: Any = Net().astype("float64").no_grad("a.weight")
    model = model.with_state({name: transposed(x) for name, x in other.state_dict().items()})
    other_optim, rng = make(other), np.random.default_rng(0)
    for step in range(STEPS):
        x, y, third = rng.standard_normal((5, 3)), rng.standard_normal((5, 2)), step % 3 == 0
        for group in other_optim.param_groups:
            group["lr"] = group.get("own", rate(step) * group.get("scale", 1.0))
        other_optim.zero_grad(set_to_none=True)
        expected = (
            (other["c" if third else "b"](other["a"](torch.from_numpy(x)).tanh()) - torch.from_numpy(y)) ** 2
        ).mean()
        expected.backward()
        if clip_theirs is not None:
            clip_theirs([p for p in other.parameters() if p.grad is not None])
        other_optim.step()
        loss = ((model(Tensor[Train].from_data(x), third) - Tensor[Train].from_data(y)) ** 2).mean()
        grads = loss.backward()
        model = optim.step(rate(step), model, grads if clip is None else clip(grads))
        assert loss.item() == pytest.approx(expected.item(), rel=1e-11)
    for name, x in other.state_dict().items():
        found = model.named_params()[name].value.to_numpy()
        np.testing.assert_allclose(found, transposed(x), rtol=1e-12, atol=1e-13, err_msg=name)


def reference(name: str, **settings: Any) -> Callable[[Any], Any]:
    """Makes PyTorch's optimizer of a model."""
    return lambda net: getattr(torch.optim, name)(net.parameters(), **({"lr": 1.0} | settings))


OPTIMIZERS: list[tuple[Optimizer, Callable[[Any], Any]]] = []
for momentum, dampening, nesterov, decay in [
    (0.0, 0.0, False, 0.0),
    (0.0, 0.0, False, 0.1),
    (0.9, 0.3, False, 0.05),
    (0.9, 0.0, True, 0.05),
]:
    kwargs: dict[str, Any] = {"momentum": momentum, "dampening": dampening, "nesterov": nesterov, "weight_decay": decay}
    OPTIMIZERS.append((Sgd(**kwargs), reference("SGD", **kwargs)))
for amsgrad, decay, (betas, eps) in itertools.product(
    (False, True), (0.0, 0.1), (((0.9, 0.999), 1e-8), ((0.5, 0.6), 1e-3))
):
    kwargs = {"amsgrad": amsgrad, "weight_decay": decay, "betas": betas, "eps": eps}
    OPTIMIZERS.append((Adam(**kwargs), reference("Adam", **kwargs)))
    OPTIMIZERS.append((AdamW(**kwargs), reference("AdamW", **kwargs)))
for centered, momentum, decay, alpha in itertools.product((False, True), (0.0, 0.9), (0.0, 0.1), (0.99, 0.5)):
    kwargs = {"centered": centered, "momentum": momentum, "weight_decay": decay, "alpha": alpha}
    OPTIMIZERS.append((RmsProp(**kwargs), reference("RMSprop", **kwargs)))
for fall, decay, first in itertools.product((0.0, 0.1), (0.0, 0.1), (0.0, 0.5)):
    kwargs = {"lr_decay": fall, "weight_decay": decay}
    OPTIMIZERS.append(
        (AdaGrad(initial_sum=first, **kwargs), reference("Adagrad", initial_accumulator_value=first, **kwargs))
    )


for decay, decoupled in ((0.0, False), (0.1, False), (0.1, True)):
    kwargs = {"weight_decay": decay, "decoupled_weight_decay": decoupled}
    OPTIMIZERS.append((NAdam(**kwargs), reference("NAdam", **kwargs)))
    OPTIMIZERS.append((RAdam(**kwargs), reference("RAdam", **kwargs)))
    kwargs |= {"betas": (0.5, 0.8), "eps": 1e-3}
    OPTIMIZERS.append((NAdam(momentum_decay=0.1, **kwargs), reference("NAdam", momentum_decay=0.1, **kwargs)))
    OPTIMIZERS.append((RAdam(**kwargs), reference("RAdam", **kwargs)))
for decay, betas, rho, eps in ((0.0, (0.9, 0.999), 0.9, 1e-6), (0.1, (0.5, 0.6), 0.5, 1e-3)):
    kwargs = {"weight_decay": decay, "eps": eps}
    OPTIMIZERS.append((Adamax(betas=betas, **kwargs), reference("Adamax", betas=betas, **kwargs)))
    OPTIMIZERS.append((AdaDelta(rho=rho, **kwargs), reference("Adadelta", rho=rho, **kwargs)))
for maximized, name in (
    (Sgd, "SGD"), (Adam, "Adam"), (AdamW, "AdamW"), (RmsProp, "RMSprop"), (AdaGrad, "Adagrad"), (NAdam, "NAdam"),
    (RAdam, "RAdam"), (Adamax, "Adamax"), (AdaDelta, "Adadelta"),
):  # fmt: skip
    kwargs = {"weight_decay": 0.1, "maximize": True}
    OPTIMIZERS.append((maximized(**kwargs), reference(name, **kwargs)))


for kwargs in (
    {},
    {"weight_decay": 0.1, "d": 1.5, "beta2_decay": -0.5, "eps": (1e-3, 1e-2)},
    {"weight_decay": 0.1, "maximize": True},
):
    OPTIMIZERS.append((Adafactor(**kwargs), reference("Adafactor", **kwargs)))


@pytest.fixture(autouse=True)
def float64_by_default() -> Iterator[None]:
    """PyTorch keeps the momentum product of NAdam in the default dtype."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("optim", "make"), OPTIMIZERS, ids=[repr(optim) for optim, _ in OPTIMIZERS])
def test_many_steps(optim: Optimizer, make: Callable[[Any], Any]) -> None:
    compared(optim, make)


@pytest.mark.parametrize(
    ("optim", "name", "how"),
    [
        (Asgd, "ASGD", {}),
        (Asgd, "ASGD", {"lambd": 0.1, "alpha": 0.5, "t0": 4, "weight_decay": 0.1, "maximize": True}),
        (Rprop, "Rprop", {}),
        (Rprop, "Rprop", {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.2), "maximize": True}),
    ],
)
def test_steps_of_one_rate(optim: Any, name: str, how: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    weight = torch.nn.Parameter(torch.tensor(rng.standard_normal((3, 4))))
    other, ours = getattr(torch.optim, name)([weight], lr=0.05, **how), optim(**how)
    tree: Any = Tensor[Train].from_data(weight.detach().numpy().copy()).require_grad()
    for _ in range(30):
        x = rng.standard_normal((3, 4))
        weight.grad = 2 * weight.detach() + torch.from_numpy(x)
        other.step()
        tree = ours.step(0.05, tree, (tree.square() + tree * Tensor[Train].from_data(x)).sum().backward())
        np.testing.assert_allclose(tree.to_numpy(), weight.detach().numpy(), rtol=1e-10)
    (state,) = ours.state().values()
    theirs_ = other.state[weight]["ax" if name == "ASGD" else "step_size"].numpy()
    np.testing.assert_allclose(state.values["average" if name == "ASGD" else "size"].to_numpy(), theirs_, rtol=1e-10)


COMPLEX = [(optim, make) for optim, make in OPTIMIZERS if optim.takes_complex]
COMPLEX += [(Asgd(lambd=0.1, t0=4), reference("ASGD", lambd=0.1, t0=4)), (Rprop(), reference("Rprop"))]


@pytest.mark.parametrize(("optim", "make"), COMPLEX, ids=[repr(optim) for optim, _ in COMPLEX])
def test_steps_of_complex_tensors(optim: Optimizer, make: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(0)
    start, *targets = [rng.standard_normal((3, 4)) + 1j * rng.standard_normal((3, 4)) for _ in range(11)]
    weight = torch.nn.Parameter(torch.from_numpy(start.copy()))
    other = make(torch.nn.ParameterList([weight]))
    other.param_groups[0]["lr"] = 0.05
    if isinstance(optim, Rprop):
        other = torch.optim.Rprop([weight], lr=0.05)
    ours: Any = ComplexTensor[Train].from_data(start).require_grad()
    for target in targets:
        other.zero_grad()
        (weight - torch.from_numpy(target)).abs().square().sum().backward()
        torch.nn.utils.clip_grad_norm_([weight], 5.0)
        other.step()
        loss = (ours - ComplexTensor[Train].from_data(target)).abs().square().sum()
        ours = optim.step(0.05, ours, clip_by_global_norm(loss.backward(), 5.0))
        np.testing.assert_allclose(ours.to_numpy(), weight.detach().numpy(), rtol=1e-10)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
@pytest.mark.parametrize(
    "how", [{}, {"adjust_lr_fn": None}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}]
)
def test_steps_of_muon(how: dict[str, Any], shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch iterates in bfloat16, and here in float64, too."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    rng = np.random.default_rng(0)
    weight = torch.nn.Parameter(torch.tensor(rng.standard_normal(shape)))
    other, optim = torch.optim.Muon([weight], lr=0.05, **how), Muon(**how)
    ours: Any = Tensor[Train].from_data(transposed(weight).copy()).require_grad()
    for _ in range(10):
        x = rng.standard_normal(shape)
        weight.grad = 2 * weight.detach() + torch.from_numpy(x)
        loss = (ours.square() + ours * Tensor[Train].from_data(x.T.copy())).sum()
        other.step()
        ours = optim.step(0.05, ours, loss.backward())
        np.testing.assert_allclose(ours.to_numpy(), transposed(weight), rtol=1e-10)


def test_groups_by_path_pattern_and_predicate() -> None:
    groups = [
        Group("*.bias", weight_decay=0.0),
        Group("b", lr_scale=0.1),
        Group(lambda path, param: path.startswith("c"), lr=0.005),
    ]

    def make(net: Any) -> Any:
        groups = [
            {"params": [net["a"].bias], "weight_decay": 0.0},
            {"params": [net["b"].weight], "scale": 0.1},
            {"params": [net["b"].bias], "scale": 0.1, "weight_decay": 0.0},
            {"params": [net["c"].weight], "own": 0.005},
            {"params": [net["c"].bias], "own": 0.005, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, weight_decay=0.1)

    compared(AdamW(weight_decay=0.1, groups=groups), make)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
def test_clipping(p: float) -> None:
    sgd, clip = reference("SGD"), torch.nn.utils.clip_grad_norm_
    compared(Sgd(), sgd, lambda grads: clip_by_global_norm(grads, 0.3, p=p), lambda ps: clip(ps, 0.3, p))
    compared(Sgd(), sgd, lambda grads: clip_by_norm(grads, 0.2, p=p), lambda ps: [clip([q], 0.2, p) for q in ps])
    compared(Sgd(), sgd, lambda grads: clip_by_value(grads, 0.1), lambda ps: torch.nn.utils.clip_grad_value_(ps, 0.1))


L: Any = torch.optim.lr_scheduler
SCHEDULES: list[tuple[LrSchedule, Callable[[Any], Any]]] = [
    (LinearLr(0.1, 0.45, 10), lambda o: L.LinearLR(o, 0.2, 0.9, 10)),
    (ConstantLr(0.5), lambda o: L.ConstantLR(o, 1.0, 10)),
    (CosineLr(0.5, 60, 0.01), lambda o: L.CosineAnnealingLR(o, 60, 0.01)),
    (CosineRestartsLr(0.5, 7, 2, 0.01), lambda o: L.CosineAnnealingWarmRestarts(o, 7, 2, 0.01)),
    (CosineRestartsLr(0.5, 7, 1, 0.01), lambda o: L.CosineAnnealingWarmRestarts(o, 7, 1, 0.01)),
    (ExponentialLr(0.5, 0.9), lambda o: L.ExponentialLR(o, 0.9)),
    (StepLr(0.5, 7, 0.3), lambda o: L.StepLR(o, 7, 0.3)),
    (MultiStepLr(0.5, (3, 20, 21), 0.3), lambda o: L.MultiStepLR(o, [3, 20, 21], 0.3)),
    (MultiStepLr(0.5, (3, 20, 20), 0.3), lambda o: L.MultiStepLR(o, [3, 20, 20], 0.3)),
    (PolynomialLr(0.5, 30, 2.5), lambda o: L.PolynomialLR(o, 30, 2.5)),
    (
        WarmUpLr(10, CosineLr(0.5, 50), start=0.1),
        lambda o: L.SequentialLR(o, [L.LinearLR(o, 0.1, 1.0, 10), L.CosineAnnealingLR(o, 50)], [10]),
    ),
    (
        WarmUpLr(9, ConstantLr(0.5)),
        lambda o: L.SequentialLR(o, [L.LinearLR(o, 0.1, 1.0, 9), L.ConstantLR(o, 1.0)], [9]),
    ),
    (
        SequentialLr((ConstantLr(0.05), ExponentialLr(0.5, 0.9)), (20,)),
        lambda o: L.SequentialLR(o, [L.ConstantLR(o, 0.1, 100), L.ExponentialLR(o, 0.9)], [20]),
    ),
    (
        StepLr(0.5, 5, 0.5) * ExponentialLr(1.0, 0.9),
        lambda o: L.ChainedScheduler([L.StepLR(o, 5, 0.5), L.ExponentialLR(o, 0.9)]),
    ),
    *(
        (
            CyclicLr(0.01, 0.5, 7, down, mode=mode, factor=0.97),
            lambda o, mode=mode, down=down: L.CyclicLR(
                o, 0.01, 0.5, 7, down, mode=mode, gamma=0.97, cycle_momentum=False
            ),
        )
        for mode in ("triangular", "triangular2", "exp_range")
        for down in (None, 4)
    ),
    *(
        (
            OneCycleLr(0.5, 60, rising, shape=shape, three_phase=three),
            lambda o, rising=rising, shape=shape, three=three: L.OneCycleLR(
                o,
                0.5,
                60,
                pct_start=rising,
                anneal_strategy={"cosine": "cos", "linear": "linear"}[shape],
                three_phase=three,
                cycle_momentum=False,
            ),
        )
        for rising in (0.0, 0.1, 0.3, 0.45)
        for shape in ("cosine", "linear")
        for three in (False, True)
    ),
]


@pytest.mark.parametrize(("schedule", "make"), SCHEDULES, ids=[repr(schedule) for schedule, _ in SCHEDULES])
def test_sixty_steps_of_a_schedule(schedule: LrSchedule, make: Callable[[Any], Any]) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.5)
    scheduler = make(optimizer)
    for step in range(60):
        assert schedule(step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12, abs=1e-15)
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
@pytest.mark.parametrize(("patience", "cooldown"), [(0, 0), (2, 0), (1, 3)])
def test_a_rate_that_falls_on_plateaus(mode: Any, threshold_mode: Any, patience: int, cooldown: int) -> None:
    settings: dict[str, Any] = {
        "factor": 0.5,
        "patience": patience,
        "cooldown": cooldown,
        "threshold": 0.05,
        "min_lr": 1e-3,
    }
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.5)
    scheduler = L.ReduceLROnPlateau(optimizer, mode, threshold_mode=threshold_mode, **settings)
    plateau = ReduceOnPlateau(lr=0.5, mode=mode, threshold_mode=threshold_mode, **settings)
    rng, rates = np.random.default_rng(0), set()
    for step in range(80):
        metric = 1.0 / (1 + step) + 0.1 * rng.standard_normal() if step != 30 else math.nan
        scheduler.step(metric)
        plateau = plateau.observe(metric)
        rates.add(plateau.lr)
        assert plateau.lr == optimizer.param_groups[0]["lr"]
    assert len(rates) > 3
