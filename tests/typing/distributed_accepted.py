"""Code type checkers must accept of `burnpy.distributed`: gradients are on the backend beneath. Runs, too."""

from __future__ import annotations

from typing import TypeAlias, TypeVar, assert_type

from burnpy import Autodiff, Tensor
from burnpy.autodiff import Balanced
from burnpy.backend import Backend, NumPy
from burnpy.distributed import Group, ZeroRedundancy
from burnpy.nn import Linear
from burnpy.optim import Adam, GradientsParams

I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend
Train: TypeAlias = Autodiff[NumPy]

group = Group.world()
model = group.broadcast(Linear(2, 1, device=Train))
assert_type(model, Linear[Autodiff[NumPy]])
x = Tensor[Train].ones((3, 2))

grads = group.backward(model(x).mean(), model, weight=3)
assert_type(grads, GradientsParams[NumPy])
assert_type(group.mean(grads, weight=3), GradientsParams[NumPy])
assert_type(group.backward(model(x).mean(), model), GradientsParams[NumPy])

optim = ZeroRedundancy(Adam(), group)
assert_type(optim.mean(grads, model, weight=3), GradientsParams[NumPy])
model = optim.step(1e-3, model, grads)
assert_type(model, Linear[Autodiff[NumPy]])

balanced = Linear(2, 1, device=Autodiff[Balanced[NumPy]])
y = Tensor[Autodiff[Balanced[NumPy]]].ones((3, 2))
assert_type(group.backward(balanced(y).mean(), balanced), GradientsParams[NumPy])
