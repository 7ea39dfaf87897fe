"""Code type checkers must reject: every line marked ``# E``, and no other. At run time each raises a TypeError, too.

Each function, and each row of the table, holds one mistake; `tests/typing/test_typing.py` calls it and wants its words
in the error, which is one sentence. `tests/typing/checkers.py` runs mypy and pyright, which see all.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from burnpy import (
    Autodiff,
    BoolTensor,
    Gradients,
    IntTensor,
    Tensor,
    autodiff,
    broadcast_tensors,
    cat,
    cross_entropy,
    func,
    maximum,
    minimum,
    mse_loss,
    nll_loss,
    stack,
    where,
)
from burnpy.backend import Checked, NumPy
from burnpy.testing import gradcheck

Train: TypeAlias = Autodiff[NumPy]
Twice: TypeAlias = Autodiff[Train]

plain = Tensor[NumPy].ones((2,))
leaf = Tensor[Train].ones((2,)).require_grad()
twice = Tensor[Twice].ones((2,)).require_grad()
ints = IntTensor[NumPy].arange(2)
grads: Gradients[NumPy] = leaf.sum().backward()

x = Tensor[NumPy].ones((2, 2))
i = IntTensor[NumPy].ones((2, 2))
b = BoolTensor[NumPy].from_data([[True, False], [True, True]])
t = Tensor[Train].ones((2, 2)).require_grad()
ti = IntTensor[Train].ones((2, 2))
ci = IntTensor[Checked[NumPy]].ones((2, 2))
cb = BoolTensor[Checked[NumPy]].ones((2, 2))
array = np.ones((2, 2))
numbers = [1.0, 2.0]


def nothing(x: Tensor[NumPy]) -> None:
    """A function that computes, and forgets to return."""
    x.exp()


def counted(x: Tensor[NumPy]) -> int:
    """A function that returns a number."""
    return x.numel()


def total(x: Tensor[NumPy]) -> Tensor[NumPy]:
    """A function to differentiate."""
    return (x * x).sum()


# fmt: off
MISTAKES: list[Any] = [  # pairs of words and a function; with this type written out, mypy infers each lambda twice
    # Operators between kinds.
    ("matmul(): kinds do not mix", lambda: x @ i),  # E
    ("matmul(): kinds do not mix", lambda: i @ x),  # E
    ("matmul(): kinds do not mix", lambda: x @ b),  # E
    ("matmul()", lambda: b @ x),  # E
    ("add(): kinds do not mix", lambda: x + i),  # E
    ("sub(): kinds do not mix", lambda: i - x),  # E
    ("mul(): kinds do not mix", lambda: x * b),  # E
    ("div(): kinds do not mix", lambda: x / i),  # E
    ("pow(): kinds do not mix", lambda: x ** i),  # E
    ("remainder(): kinds do not mix", lambda: i % x),  # E
    ("floor_divide(): kinds do not mix", lambda: x // i),  # E
    ("lt(): kinds do not mix", lambda: x < i),  # E
    ("bitwise_and()", lambda: b & i),  # E
    ("bitwise_or()", lambda: b | x),  # E
    ("maximum(): kinds do not mix", lambda: x.maximum(i)),  # E
    # Operators between backends.
    ("matmul() got tensors on", lambda: t @ x),  # E
    ("matmul() got tensors on", lambda: x @ t),  # E
    ("matmul() got tensors on", lambda: i @ ci),  # E
    ("matmul() got tensors on", lambda: t.matmul(x)),  # E
    ("add() got tensors on", lambda: x + t),  # E
    ("mul() got tensors on", lambda: ti * ci),  # E
    ("gt() got tensors on", lambda: t > x),  # E
    ("minimum() got tensors on", lambda: t.minimum(x)),  # E
    # Operators with what is not a tensor.
    ("matmul() got a Tensor and 'text'", lambda: "text" @ x),  # E
    ("matmul() got a Tensor and 'text'", lambda: x @ "text"),  # E
    ("matmul() got a tensor and the number 2.0", lambda: x @ 2.0),  # E
    ("matmul() got a tensor and the number 2.0", lambda: 2.0 @ x),  # E
    ("matmul() got a Tensor and a list", lambda: [[1.0, 2.0]] @ x),  # E
    ("matmul() got a Tensor and None", lambda: x @ None),  # E
    ("add() got a Tensor and a list", lambda: x + numbers),  # E
    ("add() got a Tensor and None", lambda: x + None),  # E
    ("sub() got a Tensor and 'text'", lambda: x - "text"),  # E
    ("mul() got an IntTensor", lambda: i * 0.5),  # E
    ("bitwise_and()", lambda: b & 2),  # E
    ("&, |, ^, ~, << and >> take ints or masks", lambda: ~x),  # E
    ("take numbers, got a BoolTensor", lambda: -b),  # E
    ("take numbers, got a BoolTensor", lambda: b + b),  # E
    # Functions of several tensors.
    ("cat(): kinds do not mix", lambda: cat([x, i])),  # E
    ("cat(): kinds do not mix", lambda: cat((i, b))),  # E
    ("cat() got tensors on", lambda: cat([x, t])),  # E
    ("cat() takes a list or tuple of tensors", lambda: cat(x)),  # E
    ("cat() takes a list or tuple of tensors", lambda: cat([x, 1.0])),  # E
    ("stack(): kinds do not mix", lambda: stack([x, i])),  # E
    ("stack() got tensors on", lambda: stack([t, x])),  # E
    ("stack() takes a list or tuple of tensors", lambda: stack([x, None])),  # E
    ("stack() takes a list or tuple of tensors", lambda: stack([array, array])),  # E
    ("where(): kinds do not mix", lambda: where(b, x, i)),  # E
    ("where() got tensors on", lambda: where(b, x, t)),  # E
    ("where() takes its condition as a BoolTensor", lambda: where(x, x, x)),  # E
    ("where() cannot choose between 1.0 and '2'", lambda: where(b, 1.0, "2")),  # E
    ("where() got an IntTensor", lambda: where(b, i, 0.5)),  # E
    ("maximum(): kinds do not mix", lambda: maximum(x, i)),  # E
    ("maximum() got tensors on", lambda: maximum(x, t)),  # E
    ("maximum() takes tensors", lambda: maximum(1.0, 2.0)),  # E
    ("minimum() got an IntTensor", lambda: minimum(i, 0.5)),  # E
    ("broadcast_tensors() takes tensors", lambda: broadcast_tensors(x, 1.0)),  # E
    ("mse_loss()", lambda: mse_loss(x, i)),  # E
    ("mse_loss()", lambda: mse_loss(t, x)),  # E
    ("nll_loss()", lambda: nll_loss(x, x)),  # E
    ("cross_entropy()", lambda: cross_entropy(x, b)),  # E
    # Indices and masks.
    ("index_select()", lambda: x.index_select(0, x)),  # E
    ("gather()", lambda: t.gather(0, ci)),  # E
    ("masked_fill() takes its condition as a BoolTensor", lambda: x.masked_fill(i, 0.0)),  # E
    ("masked_select()", lambda: x.masked_select(i)),  # E
    ("where() takes its condition as a BoolTensor", lambda: x.where(i, 0.0)),  # E
    ("scatter()", lambda: x.scatter(0, i, i)),  # E
    ("masked_fill() got tensors on", lambda: t.masked_fill(cb, 0.0)),  # E
    ("x[...] got tensors on", lambda: t[ci]),  # E
    ("cross_entropy() got tensors on", lambda: cross_entropy(t, ci)),  # E
    ("where() got tensors on", lambda: where(cb, t, 0.0)),  # E
    ("index_select() got tensors on", lambda: x.index_select(0, ti)),  # E
    ("bitwise_and() got tensors on", lambda: b & cb),  # E
    ("indices are ints", lambda: x[x]),  # E
    ("index", lambda: x["text"]),  # E
    ("set(): kinds do not mix", lambda: x.at[0].set(i)),  # E
    ("sum()", lambda: x.sum("text")),  # E
    # Derivatives.
    ("takes the Gradients that", lambda: t.grad()),  # E
    ("takes the Gradients that", lambda: t.grad(t)),  # E
    ("starts from a Tensor on NumPy", lambda: t.backward(1.0)),  # E
    ("no argument create_graph", lambda: t.sum().backward(create_graph=True)),  # E
    ("pass the tensor that require_grad() returned", lambda: grads[x]),  # E
    ("found by tensor", lambda: grads["weight"]),  # E
    ("found by tensor", lambda: grads[ti]),  # E
    ("to gradients, only gradients", lambda: grads + 1.0),  # E
    ("records no graph", lambda: autodiff.backward(x)),  # E
    ("grad(inputs=…) takes a float tensor", lambda: autodiff.grad(t, ti)),  # E
    ("grad(outputs=…) takes a float tensor", lambda: autodiff.grad(None, t)),  # E
    ("grad() takes a function to differentiate", lambda: func.grad(x)),  # E
    ("and it returned None; a function without a return", lambda: func.grad(nothing)(x)),  # E
    ("and it returned int; return the tensor", lambda: func.value_and_grad(counted)(x)),  # E
    ("hvp() takes a function that returns a float tensor", lambda: func.hvp(nothing, x, x)),  # E
    ("vhp() takes a function that returns a float tensor", lambda: func.vhp(counted, x, x)),  # E
    ("only float tensors have derivatives", lambda: func.grad(total)(i)),  # E
    ("jvp() got tensors on", lambda: func.jvp(total, x, t)),  # E
    ("hvp() got tensors on", lambda: func.hvp(total, x, t)),  # E
    ("vmap() takes a function of one example", lambda: func.vmap(x)),  # E
    ("vmap() got in_dims='0'", lambda: func.vmap(total, in_dims="0")(x)),  # E
    ("vmap() got randomness='some'", lambda: func.vmap(total, randomness="some")(x)),  # E
    ("vmap() got chunk_size=2.5", lambda: func.vmap(total, chunk_size=2.5)(x)),  # E
    ("gradcheck() takes all inputs as one tuple", lambda: gradcheck(total, x, x)),  # E
]
# fmt: on


def backward_on_plain() -> None:
    """records no graph"""
    plain.sum().backward()  # E


def grad_on_plain() -> None:
    """records no graph"""
    plain.grad(grads)  # E


def inner_of_plain() -> None:
    """records no graph"""
    plain.inner()  # E


def mixing_backends() -> None:
    """tensors on"""
    leaf + plain  # E


def mixing_backends_by_method() -> None:
    """tensors on"""
    plain.maximum(leaf)  # E


def mixing_kinds() -> None:
    """kinds do not mix"""
    plain + ints  # E


def float_number_with_ints() -> None:
    """convert the tensor first"""
    ints + 0.5  # E


def gradients_of_the_wrong_level() -> None:
    """these gradients belong to leaves on"""
    twice.grad(grads)  # E


def gradient_argument_of_the_wrong_level() -> None:
    """gradients live one level below"""
    leaf.backward(leaf)  # E


def require_grad_of_ints() -> None:
    """only float tensors"""
    ints.require_grad().backward()  # E


def item_assignment() -> None:
    """x.at[...].set(v)"""
    plain[0] = 1.0  # E


def text_as_operand() -> None:
    """must be a Tensor or a number"""
    plain * "2"  # E


def bounds_of_another_kind() -> None:
    """clamp(): kinds do not mix"""
    plain.clamp(ints)  # E


def a_tensor_as_the_dim() -> None:
    """the larger of two tensors is x.maximum(y)"""
    plain.max(plain)  # E


def an_int_tensor_as_the_dim() -> None:
    """dims are Python ints"""
    plain.sum(ints)  # E


def a_rounded_quotient_of_ints_and_a_float() -> None:
    """convert the tensor first"""
    ints.div(0.5, rounding_mode="floor")  # E


def gradient_of_a_number() -> None:
    """it returned float"""
    func.grad(Tensor.item)(plain.sum())  # E


def gradient_by_ints() -> None:
    """only float tensors have derivatives"""
    func.grad(Tensor.square)(ints)  # E


def tangent_on_another_backend() -> None:
    """jvp() got tensors on"""
    func.jvp(Tensor.exp, plain, leaf)  # E


def removing_a_gradient() -> None:
    """grads.without([x])"""
    del grads[leaf]  # E


def setting_a_gradient() -> None:
    """grads.map(f)"""
    grads[leaf] = plain  # E
