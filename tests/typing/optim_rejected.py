"""Code type checkers must reject of `burnpy.optim`: every line marked ``# E``, and no other. At run time each raises a
TypeError, too.

Each function holds one mistake; `tests/typing/test_typing.py` calls it and wants the words of its docstring in the
error.
"""

from __future__ import annotations

from typing import TypeAlias

from burnpy import Autodiff, Tensor
from burnpy.backend import Checked, NumPy
from burnpy.nn import Linear
from burnpy.optim import Adam, GradientsAccumulator, GradientsParams, clip_by_value

Train: TypeAlias = Autodiff[NumPy]

model = Linear(2, 1, device=Train)
loss = model(Tensor[Train].ones((1, 2))).sum()
grads = loss.backward()
by_param = GradientsParams.from_grads(grads, model)


def gradients_of_a_model_that_has_none() -> None:
    """computes no gradients"""
    GradientsParams.from_grads(grads, model.valid())  # E


def gradients_that_are_a_tensor() -> None:
    """takes the Gradients that backward() returned"""
    GradientsParams.from_grads(loss, model)  # E


def gradients_asked_for_by_tensor() -> None:
    """give model.weight itself"""
    by_param[model.weight.value]  # E


def gradients_of_two_backends_added() -> None:
    """do not add"""
    moved = by_param.to_device(Checked[NumPy])
    by_param + moved  # E


def a_step_with_a_tensor_for_gradients() -> None:
    """takes the gradients that backward() returned"""
    Adam().step(0.1, model, loss)  # E


def a_step_of_a_number() -> None:
    """a model is a burnpy.nn.Module"""
    Adam().step(0.1, 3.0, grads)  # E


def accumulating_by_leaf() -> None:
    """from_grads(grads, model)"""
    GradientsAccumulator[NumPy]().add(grads)  # E


def accumulating_gradients_for_a_loss() -> None:
    """takes the loss as a Tensor"""
    GradientsAccumulator[NumPy]().backward(grads, model)  # E


def clipping_a_tensor() -> None:
    """takes Gradients or GradientsParams"""
    clip_by_value(loss, 1.0)  # E


def a_pure_step_without_a_state() -> None:
    """takes a state"""
    Adam().pure_step(0.1, model, grads, {})  # E


def a_pure_step_of_a_number() -> None:
    """takes a model"""
    Adam().pure_step(0.1, 3.0, grads, Adam().init(model))  # E
