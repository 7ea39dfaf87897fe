"""Code type checkers must accept of `burnpy.optim`: a step returns the class of its argument. It also runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar, assert_type

from burnpy import Autodiff, Gradients, IntTensor, Tensor, compiled
from burnpy.autodiff import Balanced
from burnpy.backend import Backend, NumPy
from burnpy.func import grad
from burnpy.nn import Linear, Module, Sequential, rebound
from burnpy.optim import (
    Adam,
    AdamW,
    ConstantLr,
    CosineLr,
    GradientsAccumulator,
    GradientsParams,
    GradScaler,
    Group,
    LrSchedule,
    Optimizer,
    OptimizerRecord,
    OptimizerState,
    ProductLr,
    Sgd,
    WarmUpLr,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    clip_per_sample,
    per_sample_gradients,
    per_sample_norms,
    sum_of_samples,
)
from burnpy.record import Record

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class Mlp(Module[B]):
    def __init__(self, device: B | type[B]) -> None:
        self.layers = [Linear(2, 3, device=device), Linear(3, 1, device=device)]

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return self.layers[1](self.layers[0](x).relu())

    def valid(self: Mlp[Autodiff[I]]) -> Mlp[I]:
        return rebound(self)


model = Mlp(Autodiff[NumPy])
x = Tensor[Autodiff[NumPy]].ones((4, 2))
grads = model(x).sum().backward()

# Gradients by parameter are on the inner backend.
by_param = GradientsParams.from_grads(grads, model)
assert_type(by_param, GradientsParams[NumPy])
assert_type(by_param[model.layers[0].weight], Tensor[NumPy])
assert_type(by_param["layers.0.weight"], Tensor[NumPy])
assert_type(by_param.get("layers.0.weight"), Tensor[NumPy] | None)
assert_type(by_param.named(), dict[str, Tensor[NumPy]])
assert_type(by_param.norm(), Tensor[NumPy])
assert_type(by_param + 2.0 * by_param / 3.0, GradientsParams[NumPy])
assert_type(by_param.map(lambda grad: grad.clamp(max=1.0)), GradientsParams[NumPy])
assert_type(by_param.without("*.bias"), GradientsParams[NumPy])
assert_type(by_param.to_device(NumPy), GradientsParams[NumPy])
assert_type([*by_param], list[str])
balanced = Linear(2, 1, device=Autodiff[Balanced[NumPy]])
of_balanced = balanced(Tensor[Autodiff[Balanced[NumPy]]].ones((4, 2))).sum().backward()
assert_type(GradientsParams.from_grads(of_balanced, balanced), GradientsParams[NumPy])
total: Callable[[Mlp[NumPy]], Tensor[NumPy]] = lambda model: model(x.inner()).sum()  # noqa: E731
assert_type(GradientsParams.from_module(grad(total)(model.valid())), GradientsParams[NumPy])
assert_type(GradientsParams.from_module(model), GradientsParams[NumPy])


def sample_loss(model: Any, x: Tensor[NumPy]) -> Tensor[NumPy]:
    return model(x).sum()  # type: ignore[no-any-return]  # of any model


per_sample = per_sample_gradients(model, sample_loss, x.inner())
assert_type(per_sample, GradientsParams[NumPy])
assert_type(per_sample_gradients(model.valid(), sample_loss, x.inner()), GradientsParams[NumPy])
assert_type(per_sample_norms(per_sample), Tensor[NumPy])
assert_type(sum_of_samples(clip_per_sample(per_sample, 1.0)), GradientsParams[NumPy])
assert_type(GradientsParams.from_module(balanced), GradientsParams[NumPy])

# Clipping returns the class of its argument.
assert_type(clip_by_value(grads, 1.0), Gradients[NumPy])
assert_type(clip_by_norm(by_param, 1.0), GradientsParams[NumPy])
assert_type(clip_by_global_norm(by_param, 1.0, error_if_nonfinite=True), GradientsParams[NumPy])

# A scaled loss is of the class of the loss.
assert_type(GradScaler(NumPy).scale(model(x).sum()), Tensor[Autodiff[NumPy]])

accumulator = GradientsAccumulator[NumPy]()
accumulator = accumulator.add(by_param, weight=4).add(by_param)
accumulator = accumulator.backward(model(x).sum(), model, weight=4)
assert_type(accumulator.mean(), GradientsParams[NumPy])

# Parts of a record are of the class that is asked for.


def resumed(record: Record, optim: Adam) -> int:
    assert_type(record.part("optim", OptimizerRecord), OptimizerRecord)
    assert_type(record.apply_to(model), Mlp[Autodiff[NumPy]])
    assert_type(optim.load_record(record.part("optim", OptimizerRecord), model), Adam)
    return record.part("step", int)


# A step returns the class of its argument, with its backend.
optim = Adam(betas=(0.9, 0.99), groups=[Group("*.bias", weight_decay=0.0), Group(lambda path, param: False, lr=0.1)])
assert_type(optim.step(0.1, model, by_param), Mlp[Autodiff[NumPy]])
assert_type(copy.copy(optim), Adam)
assert_type(Adam().step(0.1, model, grads).valid(), Mlp[NumPy])
assert_type(optim.load_record(optim.into_record(), model), Adam)
assert_type(AdamW().into_record(), OptimizerRecord)
several = Sequential(Linear(2, 3, device=Autodiff[NumPy]), Linear(3, 1, device=Autodiff[NumPy]))
assert_type(Sgd().step(0.1, several, several(x).sum().backward()), Sequential[Autodiff[NumPy]])


# Training can be written for every module and backend.
M = TypeVar("M", bound=Module[Any])


def trained(model: M, optim: Optimizer, schedule: LrSchedule, loss: Callable[[M], Tensor[Autodiff[I]]]) -> M:
    for step in range(2):
        model = optim.step(schedule(step), model, loss(model).backward())
    return model


def loss_of(mlp: Mlp[Autodiff[NumPy]]) -> Tensor[Autodiff[NumPy]]:
    return mlp(x).sum()


assert_type(trained(model, Sgd(momentum=0.9), WarmUpLr(2, CosineLr(0.1, 10)), loss_of), Mlp[Autodiff[NumPy]])
assert_type(ConstantLr(0.1)(3), float)
assert_type(0.5 * CosineLr(0.1, 10), ProductLr)

# A pure step returns the class of its argument, and a state.
state = Adam().init(model)
assert_type(state, OptimizerState)
assert_type(Adam().pure_step(0.1, model, by_param, state), tuple[Mlp[Autodiff[NumPy]], OptimizerState])
assert_type(state[model.layers[0].weight.id]["m"], Tensor[Any])
assert_type(state.step(model.layers[0].weight), IntTensor[Any])
assert_type(Adam().init(model, state.into_record()), OptimizerState)
rate = Tensor[NumPy].full((), 0.1)
pure_tree, tree_state = Adam().pure_step(rate, {"h": x}, {"h": x}, Adam().init({"h": x}))
assert_type(pure_tree, dict[str, Tensor[Autodiff[NumPy]]])


@compiled
def compiled_step(
    model: Mlp[Autodiff[NumPy]], state: OptimizerState, lr: float, x: Tensor[Autodiff[NumPy]]
) -> tuple[Mlp[Autodiff[NumPy]], OptimizerState]:
    grads = GradientsParams.from_grads(model(x).square().mean().backward(), model)
    return AdamW().pure_step(lr, model, grads, state)


assert_type(compiled_step(model, AdamW().init(model), 0.1, x), tuple[Mlp[Autodiff[NumPy]], OptimizerState])
