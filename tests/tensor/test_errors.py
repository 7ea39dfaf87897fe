"""Errors of mistakes: the kind of error, the call, and the way out. Never NumPy's own error."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from traceback import format_exception
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, linalg, metrics, nn, optim
from burnpy.backend import NumPy
from burnpy.backend.errors import (
    ArgumentError,
    BurnpyError,
    DeviceError,
    DimError,
    DTypeError,
    ImmutableError,
    IndexRangeError,
    KindError,
    ShapeError,
)
from burnpy.nn import Param, functional
from tests.rows import every_row

functions: Any = burnpy  # mistakes that type checkers would find
Mistake = tuple[Callable[[Any, Any, Any], Any], type[BurnpyError], list[str]]
Theirs = type("Tensor", (), {"__module__": "torch.nn", "__dlpack__": None, "shape": (2,), "dtype": "torch.float32"})
ARITHMETIC: list[Mistake] = [
    (lambda x, i, b: x + Theirs(), KindError, ["add()", "a Tensor and a torch.Tensor", "Tensor.from_data("]),
    (lambda x, i, b: 0.1 * x.grad, KindError, ["x.grad is a method", "grads = loss.backward()", "x.grad(grads)"]),
    (lambda x, i, b: x.grad == 0, KindError, ["x.grad is a method", "x.grad(grads)"]),
    (lambda x, i, b: x if x.grad else None, KindError, ["x.grad is a method", "x.grad(grads)"]),
    (lambda x, i, b: np.asarray(x.grad), KindError, ["x.grad is a method", "x.grad(grads)"]),
    (lambda x, i, b: x.device == "cpu", DeviceError, ["compare devices with `is`"]),
    (lambda x, i, b: setattr(x, "grad", None), ImmutableError, ["loss.backward() returns new", "x.grad(grads)"]),
    (lambda x, i, b: x - x.grad, KindError, ["sub()", "grads = loss.backward()", "x.grad(grads)"]),
    (lambda x, i, b: x @ Param(x), KindError, ["matmul()", "a Param of shape (2, 3)", ".value"]),
    (lambda x, i, b: functions.Tensor[NumPy].normal(2, 3), ArgumentError, ["two ints", "tuple: (2, 3), or (2,) and"]),
    (lambda x, i, b: functions.Tensor[NumPy].uniform(2, 3), ArgumentError, ["two ints", "tuple: (2, 3), or (2,) and"]),
    (lambda x, i, b: functions.Tensor[NumPy].poisson(2, 3), ArgumentError, ["two ints", "tuple: (2, 3), or (2,) and"]),
    (
        lambda x, i, b: functions.Tensor[NumPy].normal(0.0, 1.0, (2,)),
        ArgumentError,
        ["normal()", "0.0", "the shape comes first"],
    ),
    (lambda x, i, b: x + x[:, :2], ShapeError, ["add()", "(2, 3)", "(2, 2)", "broadcast"]),
    (lambda x, i, b: x + i, KindError, ["Tensor", "IntTensor", "float32", "int64", ".float()"]),
    (lambda x, i, b: i * x, KindError, ["mul()", "IntTensor", ".float()"]),
    (lambda x, i, b: x == b, KindError, ["eq()", "BoolTensor"]),
    (lambda x, i, b: b == 1, KindError, ["eq()", "BoolTensor", "int 1"]),
    (lambda x, i, b: i + 1.5, KindError, ["IntTensor", "1.5", ".float()"]),
    (lambda x, i, b: x / [1.0, 2.0], KindError, ["div()", "list", "from_data"]),
    (lambda x, i, b: x - np.ones(3), KindError, ["sub()", "ndarray", "from_data"]),
    (lambda x, i, b: np.ones(3) - x, KindError, ["sub()", "ndarray"]),
    (lambda x, i, b: 300 - i.to_dtype("uint8"), DTypeError, ["sub()", "uint8 and 300"]),
    (lambda x, i, b: np.add(x, np.ones(3)), KindError, ["write x.add(y), and", "Tensor.from_data(array,"]),
    (lambda x, i, b: "a" * x, KindError, ["'a'"]),
    (lambda x, i, b: x + Tensor[Autodiff[NumPy]].ones((2, 3)), DeviceError, ["NumPy", "Autodiff[NumPy]", "from_inner"]),
    (lambda x, i, b: i // 0, ArgumentError, ["integer division", "zero", "float"]),
    (lambda x, i, b: i % (i - i), ArgumentError, ["remainder", "zero"]),
    (lambda x, i, b: i**-1, ArgumentError, ["pow", "negative", "float"]),
    (lambda x, i, b: IntTensor[NumPy].ones((2,), dtype="int8") + 1000, DTypeError, ["int8", "1000"]),
    (lambda x, i, b: x.clamp(), ArgumentError, ["clamp()", "min, max or both"]),
    (lambda x, i, b: x.tensor_split(x), KindError, ["tensor_split()", "IntTensor", "float32"]),
    (lambda x, i, b: x.tensor_split(i[None]), ShapeError, ["tensor_split()", "(1, 3)"]),
    (lambda x, i, b: x.clamp("a", 1), KindError, ["clamp()", "'a'"]),
    (lambda x, i, b: i.clamp(0.5, 1), KindError, ["clamp()", "0.5"]),
    (lambda x, i, b: x.clamp(i[0]), KindError, ["clamp()", "IntTensor", ".float()"]),
    (lambda x, i, b: x.clamp(x[:, :2], 1), ShapeError, ["clamp()", "(2, 3)", "(2, 2)"]),
    (lambda x, i, b: x.add(x, alpha="a"), KindError, ["add()", "'a'"]),
    (lambda x, i, b: i.sub(i, alpha=0.5), KindError, ["sub()", "0.5", ".float()"]),
    (lambda x, i, b: x.add(i, alpha=2), KindError, ["add()", "IntTensor"]),
    (lambda x, i, b: x.div(2, rounding_mode="up"), ArgumentError, ["div()", "'up'", '"floor"', '"trunc"']),
    (lambda x, i, b: i.div(0, rounding_mode="trunc"), ArgumentError, ["zero"]),
    (lambda x, i, b: x.round(decimals=1.5), ArgumentError, ["round()", "1.5"]),
    (lambda x, i, b: x.round(decimals=400), ArgumentError, ["round()", "400", "float32", "38"]),
    (lambda x, i, b: x.gelu("exact"), ArgumentError, ["gelu()", "'exact'", '"tanh"']),
    (lambda x, i, b: x.softplus(0), ArgumentError, ["softplus()", "beta"]),
    (lambda x, i, b: i.bitwise_and(1.5), KindError, ["bitwise_and()"]),
    (lambda x, i, b: b + b, KindError, ["+, -,", "BoolTensor", ".int()"]),
    (lambda x, i, b: 1 - b, KindError, ["+, -,", "BoolTensor", "~"]),
    (lambda x, i, b: -b, KindError, ["+, -,", "BoolTensor"]),
    (lambda x, i, b: b > 0, KindError, ["< and >", "BoolTensor"]),
    (lambda x, i, b: b * x, KindError, ["mul()", "BoolTensor with .float()"]),
    (lambda x, i, b: b & 1, KindError, ["bitwise_and()", "BoolTensor"]),
    (lambda x, i, b: i.logical_or(b), KindError, ["logical_or()", "BoolTensor"]),
    (lambda x, i, b: x @ x, ShapeError, ["matmul()", "(2, 3)", "3 in dim -1", "2 in dim -2"]),
    (lambda x, i, b: x @ x[0, :2], ShapeError, ["matmul()", "(2,)", "dim -1 of the second"]),
    (lambda x, i, b: x.expand(3, 2, 3) @ x.mT.expand(2, 3, 2), ShapeError, ["matmul()", "before the last two"]),
    (lambda x, i, b: x[:, None].mT[..., :1] @ x[..., None], ShapeError, ["matmul()", "1 in dim -1", "3 in dim -2"]),
    (lambda x, i, b: x @ x.sum(), ShapeError, ["matmul()", "0-d", "x * y"]),
    (lambda x, i, b: x @ 2, KindError, ["matmul()", "x * 2"]),
    (lambda x, i, b: 2 @ x, KindError, ["matmul()", "x * 2"]),
    (lambda x, i, b: np.int64(2) @ x, KindError, ["matmul()", "x * np.int64(2)"]),
    (lambda x, i, b: x.div(x, rounding_mode=np.ones((2, 2))), ArgumentError, ["div()", "rounding_mode=an ndarray"]),
    (lambda x, i, b: x.quantile(0.5, interpolation=np.ones((2, 2))), ArgumentError, ["interpolation=an ndarray"]),
    (lambda x, i, b: x @ i, KindError, ["matmul()", "IntTensor"]),
    (lambda x, i, b: np.ones((2, 2)) @ x, KindError, ["matmul()", "ndarray"]),
]
DIMS: list[Mistake] = [
    (lambda x, i, b: x.sum(2), DimError, ["sum()", "dim 2", "2 dimensions", "-2 to 1"]),
    (lambda x, i, b: x.mean((0, -3)), DimError, ["mean()", "dim -3"]),
    (lambda x, i, b: x.sum().softmax(1), DimError, ["softmax()", "dim 1", "0-d", "0 or -1"]),
    (lambda x, i, b: x.sum().sum(-2), DimError, ["sum()", "dim -2", "0-d"]),
    (lambda x, i, b: x.sum().mean((0, -1)), ArgumentError, ["mean()", "(0, -1)", "name one"]),
    (lambda x, i, b: x.sum().split(1), DimError, ["split()", "0 dimensions"]),
    (lambda x, i, b: x.sum().unbind(), DimError, ["unbind()", "0 dimensions"]),
    (lambda x, i, b: x.sum().roll(1, 0), DimError, ["roll()", "0 dimensions"]),
    (lambda x, i, b: x.sum().permute(0), DimError, ["permute()", "0 dimensions"]),
    (lambda x, i, b: x.sum().flatten(1), DimError, ["flatten()", "dim 1"]),
    (lambda x, i, b: x.sum().index_select(0, i), ShapeError, ["index_select()", "3 slices", "0-d"]),
    (lambda x, i, b: x.max(x), KindError, ["max()", "a Tensor of shape (2, 3)", "x.maximum(y)"]),
    (lambda x, i, b: x.min(i[0]), KindError, ["min()", "an IntTensor of shape ()", "x.minimum(y)"]),
    (lambda x, i, b: i.max(i), KindError, ["max()", "x.maximum(y)"]),
    (lambda x, i, b: x.sum(i[0]), KindError, ["sum()", "an IntTensor of shape ()", "ints"]),
    (lambda x, i, b: x.sum((0, i[1])), KindError, ["sum()", "IntTensor", "(0, 1)"]),
    (lambda x, i, b: x.sum(np.array(0)), KindError, ["sum()", "array(0)", "ints"]),
    (lambda x, i, b: b.any(i[0]), KindError, ["any()", "IntTensor"]),
    (lambda x, i, b: x.softmax(i[0]), KindError, ["softmax()", "IntTensor"]),
    (lambda x, i, b: x.gather(i[0], i), KindError, ["gather()", "IntTensor"]),
    (lambda x, i, b: x.permute(i[0], i[1]), KindError, ["permute()", "IntTensor"]),
    (lambda x, i, b: x.transpose(0, i[1]), KindError, ["transpose()", "IntTensor"]),
    (lambda x, i, b: x.unsqueeze(i[0]), KindError, ["unsqueeze()", "IntTensor"]),
    (lambda x, i, b: burnpy.cat([x, x], i[0]), KindError, ["cat()", "IntTensor"]),
    (lambda x, i, b: burnpy.stack([x, x], i[0]), KindError, ["stack()", "IntTensor"]),
    (lambda x, i, b: x.reshape((3, 2), shape=(6,)), ArgumentError, ["reshape()", "shape=(6,)", "one of them"]),
    (lambda x, i, b: x.flip(0, dims=1), ArgumentError, ["flip()", "dims=1"]),
    (lambda x, i, b: x.cumsum(0, dtype="int32"), DTypeError, ["int32", "float"]),
    (lambda x, i, b: b.sum(dtype="float32"), DTypeError, ["float32", "int"]),
    (lambda x, i, b: x.roll((1, 2)), ArgumentError, ["roll()", "(1, 2)"]),
    (lambda x, i, b: x.sum((0, -2)), ArgumentError, ["sum()", "(0, -2)", "once"]),
    (lambda x, i, b: x.argmax(5), DimError, ["argmax()", "dim 5"]),
    (lambda x, i, b: x.sum("0"), ArgumentError, ["sum()", "'0'"]),
    (lambda x, i, b: x.amax(True), ArgumentError, ["amax()", "True"]),
    (lambda x, i, b: x.sum(dtype="int64"), DTypeError, ["int64", "float"]),
    (lambda x, i, b: x[:0].amax(0), ShapeError, ["amax()", "dim 0", "(0, 3)"]),
    (lambda x, i, b: x[:0].amin(), ShapeError, ["amin()", "dims (0, 1)", "(0, 3)"]),
    (lambda x, i, b: x[:0].max(), ShapeError, ["max()", "(0, 3)"]),
    (lambda x, i, b: x[:0].min(0), ShapeError, ["min()", "(0, 3)"]),
    (lambda x, i, b: x[:0].argmax(), ShapeError, ["argmax()", "(0, 3)"]),
    (lambda x, i, b: x.reshape(4), ShapeError, ["reshape()", "(2, 3)", "(4,)", "6 elements"]),
    (lambda x, i, b: x.reshape(-1, 4), ShapeError, ["(-1, 4)", "multiple of 4"]),
    (lambda x, i, b: x.reshape(-1, -1), ShapeError, ["(-1, -1)", "one size"]),
    (lambda x, i, b: x.reshape(-2, -3), ShapeError, ["(-2, -3)", "negative"]),
    (lambda x, i, b: x[:0].reshape(0, -1), ShapeError, ["(0, -1)", "anything"]),
    (lambda x, i, b: x.reshape(2.0, 3), ArgumentError, ["reshape()", "2.0"]),
    (lambda x, i, b: x.flatten(1, 0), ArgumentError, ["flatten()", "1 to 0"]),
    (lambda x, i, b: x.permute(0), ArgumentError, ["permute()", "(0,)", "name all 2"]),
    (lambda x, i, b: x.permute(0, 0), ArgumentError, ["permute()", "(0, 0)"]),
    (lambda x, i, b: x.transpose(0, 2), DimError, ["transpose()", "dim 2"]),
    (lambda x, i, b: x.movedim((0, 1), 0), ArgumentError, ["movedim()"]),
    (lambda x, i, b: x[0].T, ShapeError, ["T", "(3,)", "mT"]),
    (lambda x, i, b: x[0].mT, ShapeError, ["mT", "(3,)"]),
    (lambda x, i, b: x[0].tril(), ShapeError, ["tril()", "(3,)"]),
    (lambda x, i, b: x.unsqueeze(3), DimError, ["unsqueeze()", "3", "-3 to 2"]),
    (lambda x, i, b: x.expand(3, 3), ShapeError, ["expand()", "(2, 3)", "(3, 3)"]),
    (lambda x, i, b: x.expand(3), ShapeError, ["expand()", "(3,)"]),
    (lambda x, i, b: x.expand(-1, 2, 3), ShapeError, ["expand()", "(-1, 2, 3)"]),
    (lambda x, i, b: x.roll((1, 2), 0), ArgumentError, ["roll()", "(1, 2)"]),
    (lambda x, i, b: x.split(0), ArgumentError, ["split()", "size 0"]),
    (lambda x, i, b: x.split([1, 2]), ShapeError, ["split()", "(1, 2)", "together they must be 2"]),
    (lambda x, i, b: x.chunk(0), ArgumentError, ["chunk()", "0 parts"]),
    (lambda x, i, b: burnpy.cat([]), ArgumentError, ["cat()", "at least one"]),
    (lambda x, i, b: burnpy.cat(x), ArgumentError, ["cat()", "a single Tensor"]),
    (lambda x, i, b: burnpy.cat([x, i]), KindError, ["cat()", "IntTensor"]),
    (lambda x, i, b: burnpy.cat([x, x[0]]), ShapeError, ["cat()", "(2, 3)", "(3,)", "number 2"]),
    (lambda x, i, b: burnpy.cat([x, x.mT]), ShapeError, ["cat()", "(3, 2)", "dim 0"]),
    (lambda x, i, b: burnpy.cat([x.sum()]), ShapeError, ["cat()", "stack()"]),
    (lambda x, i, b: burnpy.stack([x, x.mT]), ShapeError, ["stack()", "(2, 3)", "(3, 2)"]),
    (lambda x, i, b: burnpy.stack([x], 4), DimError, ["stack()", "4"]),
    (lambda x, i, b: burnpy.broadcast_tensors(x, x.mT), ShapeError, ["(2, 3)", "(3, 2)"]),
]
INDEXING: list[Mistake] = [
    (lambda x, i, b: x[2], IndexRangeError, ["index 2", "dim 0", "size 2", "(2, 3)", "-2 to 1"]),
    (lambda x, i, b: x[0, -4], IndexRangeError, ["index -4", "dim 1", "size 3"]),
    (lambda x, i, b: x[:0][0], IndexRangeError, ["no elements"]),
    (lambda x, i, b: x[0, 0, 0], DimError, ["3 dimensions", "(2, 3)"]),
    (lambda x, i, b: x.sum()[0], DimError, ["()"]),
    (lambda x, i, b: x[b, 0], DimError, ["3 dimensions"]),
    (lambda x, i, b: x[..., ...], ArgumentError, ["two ellipses"]),
    (lambda x, i, b: x[[0, 2]], IndexRangeError, ["index 2", "dim 0"]),
    (lambda x, i, b: x[:, i - 4], IndexRangeError, ["index -4", "dim 1", "-3 to 2"]),
    (lambda x, i, b: x[b[:, :2]], ShapeError, ["mask", "(2, 2)", "(2, 3)"]),
    (lambda x, i, b: x[[0, 1], [0, 1, 2]], ShapeError, ["(2,)", "(3,)", "broadcast"]),
    (lambda x, i, b: x[[[0], [0, 1]]], ShapeError, ["differ in length"]),
    (lambda x, i, b: x[x], KindError, ["float32", "ints"]),
    (lambda x, i, b: x[1.0], KindError, ["1.0"]),
    (lambda x, i, b: x["a"], KindError, ["'a'"]),
    (lambda x, i, b: x[(0, 0.5), 1], KindError, ["(0, 0.5)"]),
    (lambda x, i, b: x[(0, 2), 1], IndexRangeError, ["index 2", "dim 0"]),
    (lambda x, i, b: x[[0.5]], KindError, ["[0.5]"]),
    (lambda x, i, b: x[::0], ArgumentError, ["step", "0"]),
    (lambda x, i, b: x["a":], ArgumentError, ["'a'"]),
    (lambda x, i, b: x[IntTensor[Autodiff[NumPy]].zeros((1,))], DeviceError, ["Autodiff[NumPy]"]),
    (lambda x, i, b: x.__setitem__(0, 1.0), ImmutableError, ["x.at[...].set(v)"]),
    (lambda x, i, b: x.__delitem__(0), ImmutableError, ["immutable"]),
    (lambda x, i, b: x.index_select(0, i + 1), IndexRangeError, ["index_select()", "index 3", "size 2", "0 to 1"]),
    (lambda x, i, b: x.index_select(0, -i), IndexRangeError, ["index -2", "0 to 1"]),
    (lambda x, i, b: x.index_select(0, i.reshape(3, 1)), ShapeError, ["index_select()", "(3, 1)", "1-d"]),
    (lambda x, i, b: x.index_select(0, [0]), KindError, ["IntTensor", "[0]"]),
    (lambda x, i, b: x.index_select(0, x[0]), KindError, ["IntTensor", "float32"]),
    (lambda x, i, b: x.gather(1, i), ShapeError, ["gather()", "(3,)", "(2, 3)"]),
    (lambda x, i, b: x.gather(1, i.expand(3, 3)), ShapeError, ["gather()", "(3, 3)", "(2, 3)"]),
    (lambda x, i, b: x.gather(1, i.expand(2, 3) + 1), IndexRangeError, ["gather()", "index 3", "dim 1"]),
    (lambda x, i, b: x.take_along_dim(i, 0), ShapeError, ["take_along_dim()", "(3,)"]),
    (lambda x, i, b: x.scatter(1, i.expand(2, 3), x[:1]), ShapeError, ["scatter()", "(1, 3)", "(2, 3)"]),
    (lambda x, i, b: x.scatter_add(1, i.expand(2, 3), i), KindError, ["scatter_add()", "IntTensor"]),
    (lambda x, i, b: x.scatter_reduce(0, i, x, "max"), ArgumentError, ["scatter_reduce()", "'max'", "expected 'sum'"]),
    (lambda x, i, b: x.index_reduce(0, i, x, "sum"), ArgumentError, ["index_reduce()", "'sum'", "expected 'prod'"]),
    (lambda x, i, b: i.one_hot(2), IndexRangeError, ["one_hot()", "index 2", "dim 1", "(3, 2)", "from 0 to 1"]),
    (lambda x, i, b: (i - 1).one_hot(), IndexRangeError, ["one_hot()", "index -1"]),
    (lambda x, i, b: i[:0].one_hot(), ArgumentError, ["one_hot()", "num_classes"]),
    (lambda x, i, b: i.one_hot(0), ArgumentError, ["one_hot()", "0 classes"]),
    (lambda x, i, b: x.masked_fill(b[:, :2], 0.0), ShapeError, ["masked_fill()", "(2, 2)", "(2, 3)"]),
    (lambda x, i, b: x.masked_fill(b, x), ShapeError, ["masked_fill()", "(2, 3)", "0-d"]),
    (lambda x, i, b: x.masked_fill(x, 0.0), KindError, ["masked_fill()", "BoolTensor", "!= 0"]),
    (lambda x, i, b: i.masked_fill(b, 0.5), KindError, ["masked_fill()", "0.5"]),
    (lambda x, i, b: x.masked_select(b[:, :2]), ShapeError, ["masked_select()", "(2, 2)"]),
    (lambda x, i, b: functions.where(b, 1.0, "2"), KindError, ["where()", "cannot choose between 1.0 and '2'"]),
    (lambda x, i, b: burnpy.where(b, x, i), KindError, ["where()", "IntTensor"]),
    (lambda x, i, b: burnpy.where(i, x, x), KindError, ["where()", "BoolTensor"]),
    (lambda x, i, b: burnpy.where(b, x, x[:, :2]), ShapeError, ["where()", "(2, 3)", "(2, 2)"]),
    (lambda x, i, b: x.at.__setitem__(0, 1.0), ImmutableError, ["x = x.at[...].set(v)"]),
    (lambda x, i, b: x.at[2], IndexRangeError, ["index 2"]),
    (lambda x, i, b: x.at[0].set(x), ShapeError, ["at[...].set()", "(2, 3)", "(3,)"]),
    (lambda x, i, b: x.at[[0, 0]].mul(x[:, :2]), ShapeError, ["at[...].mul()", "(2, 2)"]),
    (lambda x, i, b: x.at[0].add(i), KindError, ["at[...].add()", "IntTensor"]),
    (lambda x, i, b: i.at[0].max(0.5), KindError, ["at[...].max()", "0.5"]),
    (lambda x, i, b: b.at[0].add(True), KindError, ["at[...].add()", "BoolTensor"]),
]
NUMBERS: list[Mistake] = [
    (lambda x, i, b: x.sum(0, 1), ArgumentError, ["sum()", "keepdim=1", "dim=(0, 1)"]),
    (lambda x, i, b: x.mean(0, None), ArgumentError, ["mean()", "keepdim=None"]),
    (lambda x, i, b: x.amax(0, 1), ArgumentError, ["amax()", "keepdim=1"]),
    (lambda x, i, b: x.max(0, x), ArgumentError, ["max()", "keepdim=a Tensor of shape (2, 3)"]),
    (lambda x, i, b: x.argmin(0, 1), ArgumentError, ["argmin()", "keepdim=1"]),
    (lambda x, i, b: x.std(0, 1), ArgumentError, ["std()", "keepdim=1"]),
    (lambda x, i, b: x.logsumexp(0, 1), ArgumentError, ["logsumexp()", "keepdim=1"]),
    (lambda x, i, b: b.any(0, 1), ArgumentError, ["any()", "keepdim=1"]),
    (lambda x, i, b: b.sum(0, 1), ArgumentError, ["sum()", "keepdim=1"]),
    (lambda x, i, b: i.clamp(0, 10**30), DTypeError, ["clamp()", "int64"]),
    (lambda x, i, b: i.int("int8").clamp(-1, 300), DTypeError, ["clamp()", "int8", "300"]),
    (lambda x, i, b: i.int("uint8").masked_fill(b[0], -1), DTypeError, ["masked_fill()", "uint8", "-1"]),
    (lambda x, i, b: burnpy.where(b[0], 10**30, i), DTypeError, ["where()", "int64"]),
    (lambda x, i, b: 2**62 % i.int("int8"), DTypeError, ["remainder()", "int8"]),
    (lambda x, i, b: 300 ** i.int("int8"), DTypeError, ["pow()", "int8", "300"]),
    (lambda x, i, b: x.tril(1.5), ArgumentError, ["tril()", "diagonal 1.5"]),
    (lambda x, i, b: x.triu("a"), ArgumentError, ["triu()", "diagonal 'a'"]),
    (lambda x, i, b: x.chunk(None), ArgumentError, ["chunk()", "None"]),
    (lambda x, i, b: i.one_hot(2.5), ArgumentError, ["one_hot()", "2.5"]),
    (lambda x, i, b: i.one_hot(1 << 62), ShapeError, ["one_hot()", "more elements"]),
    (lambda x, i, b: x.expand_as((2, 3)), KindError, ["expand_as()", "(2, 3)", "expand()"]),
    (lambda x, i, b: x[np.array(["a"])], KindError, ["ndarray", "ints or truth values"]),
    (lambda x, i, b: x.to_dtype(np.ones(3)), DTypeError, ["an ndarray", "not a known dtype"]),
    (lambda x, i, b: x.to_device(i), DeviceError, ["IntTensor", "not a backend"]),
    (lambda x, i, b: x.to_device({}), DeviceError, ["{}", "not a backend"]),
    (lambda x, i, b: functions.Autodiff({}), DeviceError, ["{}", "not a backend"]),
    (lambda x, i, b: functions.maximum(2, x), KindError, ["maximum()", "2"]),
    (lambda x, i, b: functions.broadcast_tensors(x, 2), KindError, ["broadcast_tensors()", "2"]),
    (lambda x, i, b: functions.cat(np.ones((2, 2))), ArgumentError, ["cat()", "ndarray of shape (2, 2)"]),
    (lambda x, i, b: functions.stack(5), ArgumentError, ["stack()", "got 5"]),
    (lambda x, i, b: functions.stack(i for i in (x, x)), ArgumentError, ["stack()", "generator", "list or tuple"]),
    (lambda x, i, b: functions.mse_loss(x, 0.0), KindError, ["mse_loss()", "0.0", "full_like"]),
    (lambda x, i, b: functions.cross_entropy(x, i[:2], weight=2.0), KindError, ["cross_entropy()", "2.0"]),
    (lambda x, i, b: functions.manual_seed([x]), ArgumentError, ["manual_seed()", "seed"]),
]
LOSSES: list[Mistake] = [
    (lambda x, i, b: burnpy.cross_entropy(x, i), ShapeError, ["cross_entropy()", "(2, 3)", "(3,)", "(2,)"]),
    (lambda x, i, b: burnpy.cross_entropy(x, i[1:] + 1), IndexRangeError, ["cross_entropy()", "index 3", "0 to 2"]),
    (lambda x, i, b: burnpy.cross_entropy(x, i[:2] - 1), IndexRangeError, ["index -1"]),
    (lambda x, i, b: burnpy.cross_entropy(x, x[0]), ShapeError, ["probabilities", "(3,)"]),
    (lambda x, i, b: burnpy.cross_entropy(x, b), KindError, ["IntTensor", "BoolTensor"]),
    (lambda x, i, b: burnpy.cross_entropy(x.sum(), i), DimError, ["0-d", "(N, C)"]),
    (lambda x, i, b: burnpy.cross_entropy(i, i), KindError, ["float Tensor"]),
    (lambda x, i, b: burnpy.cross_entropy(x, i[:2], weight=x[0, :2]), ShapeError, ["weight", "(2,)", "(3,)"]),
    (lambda x, i, b: burnpy.cross_entropy(x, i[:2], label_smoothing=2), ArgumentError, ["label_smoothing=2"]),
    (lambda x, i, b: functions.nll_loss(x, i[:2], reduction="max"), ArgumentError, ["nll_loss()", "'max'", '"mean"']),
    (lambda x, i, b: burnpy.mse_loss(x, x[0]), ShapeError, ["mse_loss()", "(2, 3)", "(3,)", "expand_as"]),
    (lambda x, i, b: burnpy.mse_loss(x, i), KindError, ["mse_loss()"]),
    (lambda x, i, b: burnpy.binary_cross_entropy_with_logits(x, x[0]), ShapeError, ["(2, 3)", "(3,)"]),
    (
        lambda x, i, b: burnpy.binary_cross_entropy_with_logits(x, x, weight=x.expand(2, 2, 3)),
        ShapeError,
        ["(2, 2, 3)"],
    ),
]
MISTAKES = [*ARITHMETIC, *NUMBERS, *DIMS, *INDEXING, *LOSSES]


@every_row("mistake, error, words", MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_explained(mistake: Callable[..., Any], error: type[BurnpyError], words: list[str]) -> None:
    x = Tensor[NumPy].from_data([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
    i = IntTensor[NumPy].from_data([0, 1, 2])
    with pytest.raises(error) as caught:
        mistake(x, i, x > 0)
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value)


def test_a_dim_that_is_no_int_is_named_as_the_user_wrote_it() -> None:
    """In all methods and functions that take one, with whatever else they need."""
    x = Tensor[NumPy].from_data([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    index = IntTensor[NumPy].from_data([[0, 1, 1], [1, 0, 1]])
    needed: dict[str, Any] = dict.fromkeys(
        ("x", "x1", "x2", "y", "a", "b", "input", "logits", "other", "src", "source"), x
    )
    needed |= {"index": index, "tensors": [x, x], "reduce": "amax", "q": 0.5, "p": 2.0, "value": 1.0}
    rows = needed | {"index": index[0]}  # of methods whose index is 1-d
    others = {"tile", "tensordot", "matrix_norm", "size"}  # dims are numbers of repeats, a number, a pair; no function
    places: list[Any] = [x, burnpy, burnpy.linalg, functional]
    messages: dict[str, str] = {}
    for place in places:
        for name in sorted({*getattr(place, "__all__", dir(place))} - others):
            function = None if name.startswith("_") else getattr(place, name)
            if not callable(function) or isinstance(function, type):
                continue
            parameters = inspect.signature(function).parameters.values()
            dims = [p.name for p in parameters if p.name in ("dim", "dims", "dim0", "dim1", "start_dim", "end_dim")]
            given = {
                p.name: (rows if name.startswith("index_") else needed).get(p.name, 1)
                for p in parameters
                if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            }
            for dim in dims:
                with pytest.raises(ArgumentError) as caught:
                    function(**given | dict.fromkeys(dims, 0) | {dim: "rows"})
                messages[f"{name}, {dim}"] = str(caught.value)
    assert len(messages) > 80
    assert messages["sum, dim"] == "sum(): dim must be an int or a tuple of ints, got 'rows'"
    assert messages["softmax, dim"] == "softmax(): dim must be an int, got 'rows'"
    for name, message in messages.items():
        assert re.fullmatch(r"\w+\(\): dim must be an int( or a tuple of ints)?, got 'rows'", message), name


@every_row(
    "call, said",
    [
        (lambda x, t: x + t, "add() got tensors on NumPy (the first) and Autodiff[NumPy] (the second); "),
        (lambda x, t: t - x, "sub() got tensors on Autodiff[NumPy] (the first) and NumPy (the second); "),
        (lambda x, t: x.prelu(t), "NumPy (x) and Autodiff[NumPy] (weight); "),
        (lambda x, t: x.masked_fill(t > 0, 0.0), "NumPy (x) and Autodiff[NumPy] (mask); "),
        (lambda x, t: burnpy.cat([t, t, x]), "Autodiff[NumPy] (tensors[0]) and NumPy (tensors[2]); "),
        (lambda x, t: burnpy.where(x > 0, x, t), "NumPy (condition) and Autodiff[NumPy] (y); "),
        (lambda x, t: burnpy.mse_loss(x, target=t), "NumPy (input) and Autodiff[NumPy] (target); "),
        (lambda x, t: burnpy.mse_loss(x, x, weight=t), "NumPy (input) and Autodiff[NumPy] (weight); "),
        (lambda x, t: functional.linear(x, t), "NumPy (x) and Autodiff[NumPy] (weight); "),
        (lambda x, t: functional.layer_norm(x, 2, x[0], t[0]), "NumPy (x) and Autodiff[NumPy] (bias); "),
        (lambda x, t: burnpy.linalg.solve(t, x), "Autodiff[NumPy] (a) and NumPy (b); "),
    ],
)
def test_an_argument_on_another_device_is_named(call: Callable[[Any, Any], Any], said: str) -> None:
    with pytest.raises(DeviceError) as caught:
        call(Tensor[NumPy].ones((2, 2)), Tensor[Autodiff[NumPy]].ones((2, 2)))
    assert said in str(caught.value)
    assert ".to_device(...)" in str(caught.value)


def test_messages_are_one_line() -> None:
    x: Any = Tensor[NumPy].ones((30, 30))
    i: Any = IntTensor[NumPy].arange(900).reshape(30, 30)
    tensor: Any = Tensor
    mistakes: list[Callable[[], Any]] = [
        lambda: tensor[NumPy].full((2,), x),
        lambda: functions.where(i, i.tolist(), i.tolist()),
        lambda: functions.cross_entropy(i, i),
        lambda: functions.cross_entropy(x, x.tolist()[0]),
        lambda: functions.mse_loss(x, i.tolist()),
        lambda: tensor[Autodiff[NumPy]].from_inner(i),
        lambda: tensor[NumPy].zeros(i.tolist()),
        lambda: x[{"a": i}],
        lambda: x[np.ones((40, 40))],
        lambda: x + {"a": x},
        lambda: tensor[NumPy].from_data({"a": i}),
        lambda: i.item(),
    ]
    for mistake in mistakes:
        with pytest.raises(BurnpyError) as caught:
            mistake()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400
        assert "a IntTensor" not in str(caught.value)


@pytest.mark.parametrize("kind", [Tensor, IntTensor, BoolTensor])
def test_what_pytorch_has_and_where_it_is_here(kind: Any) -> None:
    x = kind[NumPy].ones((2, 3))
    for name, words in (
        ("numpy", "x.to_numpy()"),
        ("to", "x.to_device(device)"),
        ("view", "x.reshape(3, 2)"),
        ("clone", "never change"),
        ("add_", "x = x.add(y)"),
        ("zero_", "x = x.zeros_like()"),
    ):
        assert not hasattr(x, name)
        with pytest.raises(AttributeError) as caught:
            getattr(x, name)(1)
        assert words in str(caught.value)
    assert hasattr(x, "reshape")
    with pytest.raises(AttributeError, match=r"write x\.reshape\(x\.numel\(\) // \(1 \+ 1\), 2\) \("):
        x.view(x.numel() // (1 + 1), 2)
    with pytest.raises(AttributeError, match=r"write x\.reshape\(3, 2\) \("):
        _ = x.view


MIXING = [
    *("a + c", "a - c", "a * c", "a / c", "a // c", "a % c", "a ** c", "a @ c", "a == c", "a < c", "a >= c"),
    *("a.matmul(c)", "a.outer(c)", "a.maximum(c)", "a.__rmul__(c)", "a.__rmatmul__(c)", "a.add(c, alpha=2)"),
    *("burnpy.cat([a, c])", "burnpy.where(b, a, c)", "a.masked_scatter(b, c)", "a.at[0].set(c)", "a.clamp(c)"),
]


@every_row("code", MIXING)
def test_mixed_kinds_advise_a_conversion_that_loses_no_value(code: str) -> None:
    """The narrower kind is to be converted, on whichever side it stands; ``.int()`` of a float would round it."""
    x, i, b = (kind[NumPy].ones((2, 2)) for kind in (Tensor, IntTensor, BoolTensor))
    for a, c, advice in (
        *((x, i, "convert the IntTensor with .float()"), (i, x, "convert the IntTensor with .float()")),
        *((x, b, "convert the BoolTensor with .float()"), (b, x, "convert the BoolTensor with .float()")),
        *((i, b, "convert the BoolTensor with .int()"), (b, i, "convert the BoolTensor with .int()")),
    ):
        try:
            eval(code, {"a": a, "c": c, "b": b, "burnpy": burnpy})
        except KindError as error:
            said = str(error)
            if "needs a float tensor" in said:  # a method that bools do not have
                assert ".int()" not in said
            elif "needs an int or a float tensor" in said:
                assert ".float()" in said
            elif "a Tensor" in said or advice.endswith(".int()"):
                assert said.endswith(advice) or (code == "a / c" and ".float()" in said), said
        except AttributeError:
            assert a is b, "bools have no arithmetic"


@pytest.mark.parametrize(
    ("name", "said"), [("cumsum", "needs an int or a float tensor"), ("mean", "needs a float tensor")]
)
def test_methods_that_masks_lack_name_the_kinds_that_have_them(name: str, said: str) -> None:
    kind = "int" if "int" in said else "float"
    with pytest.raises(KindError, match=rf"{said}, .*convert it first: x\.{kind}\(\)\.{name}\(\)"):
        getattr(BoolTensor[NumPy].ones((2,)), name)


@pytest.mark.parametrize("name", ["bitwise_and", "logical_or", "bitwise_not"])
def test_operations_that_floats_lack_advise_a_mask(name: str) -> None:
    x, i, b = (kind[NumPy].ones((2, 2)) for kind in (Tensor, IntTensor, BoolTensor))
    with pytest.raises(KindError, match=rf"convert it first: x\.bool\(\)\.{name}\(\)"):
        getattr(x, name)
    if name != "bitwise_not":
        for ours in (i, b):
            with pytest.raises(KindError, match=r"takes no floats: make a mask of the Tensor, as in x != 0"):
                getattr(ours, name)(x)


def test_methods_of_other_kinds_say_how_to_get_there() -> None:
    i, b, x = IntTensor[NumPy].ones((2,)), BoolTensor[NumPy].ones((2,)), Tensor[NumPy].ones((2,))
    tensors: list[tuple[Any, str, str]] = [
        (i, "mean", "x.float().mean()"),
        (b, "exp", "x.float().exp()"),
        (x, "one_hot", "x.int()"),
        (IntTensor[NumPy], "normal", "write Tensor[NumPy].normal(...)"),
        (Tensor[NumPy], "permutation", "write IntTensor[NumPy].permutation(...)"),
        (x, "randint", "Tensor has no randint(), which makes an int tensor"),
    ]
    for tensor, name, way_out in tensors:
        assert not hasattr(tensor, name)
        with pytest.raises(KindError, match=name) as caught:
            getattr(tensor, name)
        assert way_out in str(caught.value)


def test_more_elements_than_can_be_addressed() -> None:
    x = Tensor[NumPy].ones((1, 1))
    mistakes: list[Callable[[], Any]] = [
        lambda: x.expand(1 << 40, 1 << 40),
        lambda: Tensor[NumPy].zeros((1 << 40, 1 << 40)),
    ]
    for mistake in mistakes:
        with pytest.raises(ShapeError, match=r"\(1099511627776, 1099511627776\), which is more elements"):
            mistake()


@every_row(
    "name, call",
    [
        ("reshape", lambda x: x.reshape((1,) * 65)),
        ("unsqueeze", lambda x: x.unsqueeze(0)),
        ("x[...]", lambda x: x[None]),
        ("expand", lambda x: x.expand((1,) * 65)),
        ("stack", lambda x: burnpy.stack([x, x])),
        ("diag_embed", lambda x: x.diag_embed()),
        ("Tensor.ones", lambda x: Tensor[NumPy].ones((1,) * 65)),
    ],
)
def test_more_dimensions_than_a_tensor_has(name: str, call: Any) -> None:
    for device in (NumPy, Autodiff[NumPy]):
        x: Any = Tensor.ones((1,) * 64, device=device)
        with pytest.raises(ShapeError, match=rf"{re.escape(name)}\(\) got 65 dimensions; a tensor has 64 at most"):
            call(x)


HUGE = 10**400
"""An int that Python cannot convert to a float."""
_LINEAR: Any = nn.Linear(3, 3, device=Autodiff[NumPy])
_MATRIX: Any = Tensor[NumPy].ones((3, 3))
_STEPPED = _LINEAR(Tensor[Autodiff[NumPy]].ones((1, 3))).sum().backward()
TOO_LARGE: dict[str, tuple[str, Callable[[], Any]]] = {
    "a learning rate": ("the learning rate", lambda: optim.Sgd().step(HUGE, _LINEAR, _STEPPED)),
    "a negative rate": ("the learning rate", lambda: optim.Sgd().step(-HUGE, _LINEAR, _STEPPED)),
    "betas": ("betas", lambda: optim.Adam(betas=(HUGE, 0.9))),
    "eps of an optimizer": ("eps", lambda: optim.Adam(eps=HUGE)),
    "steps of a schedule": ("steps", lambda: optim.OneCycleLr(0.1, steps=HUGE)),
    "the step of a schedule": ("the step", lambda: optim.NoamLr(0.1, warm_up=2, size=4)(HUGE)),
    "dropout": ("p=", lambda: nn.Dropout(HUGE)),
    "a probability": ("p=", lambda: functional.dropout(_MATRIX, HUGE)),
    "layer norm": ("layer_norm", lambda: functional.layer_norm(_MATRIX, 3, eps=HUGE)),
    "rms norm": ("rms_norm", lambda: functional.rms_norm(_MATRIX, 3, eps=HUGE)),
    "batch norm": ("batch_norm", lambda: functional.batch_norm(_MATRIX, None, None, training=True, eps=HUGE)),
    "group norm": ("group_norm", lambda: functional.group_norm(_MATRIX, 3, eps=HUGE)),
    "instance norm": ("instance_norm", lambda: functional.instance_norm(_MATRIX.expand(2, 3, 3), eps=HUGE)),
    "celu": ("celu", lambda: functional.celu(_MATRIX, HUGE)),
    "huber": ("delta", lambda: functional.huber_loss(_MATRIX, _MATRIX, delta=HUGE)),
    "smooth l1": ("smooth_l1_loss", lambda: functional.smooth_l1_loss(_MATRIX, _MATRIX, beta=HUGE)),
    "attention": (
        "scaled_dot_product_attention",
        lambda: functional.scaled_dot_product_attention(_MATRIX, _MATRIX, _MATRIX, scale=HUGE),
    ),
    "interpolate": ("scale_factor", lambda: functional.interpolate(_MATRIX[None], scale_factor=HUGE)),
    "a norm": ("norm", lambda: _MATRIX.norm(HUGE)),
    "a distance": ("pdist", lambda: functional.pdist(_MATRIX, p=HUGE)),
    "the order of a norm": ("vector_norm", lambda: linalg.vector_norm(_MATRIX, ord=HUGE)),
    "rtol": ("pinv", lambda: linalg.pinv(_MATRIX, rtol=HUGE)),
    "atol": ("pinv", lambda: linalg.pinv(_MATRIX, atol=HUGE)),
    "lerp": ("lerp", lambda: _MATRIX.lerp(_MATRIX, HUGE)),
    "gradients": ("mul", lambda: _STEPPED * HUGE),
    "a gain": ("", lambda: nn.init.XavierNormal(HUGE)((2, 2), device=NumPy)),
    "another gain": ("", lambda: nn.init.KaimingUniform(HUGE)((2, 2), device=NumPy)),
    "a weight": ("weight", lambda: metrics.Mean.of(_MATRIX, weight=HUGE)),
}


@every_row("name", TOO_LARGE)
def test_ints_that_no_float_holds(name: str) -> None:
    said, call = TOO_LARGE[name]
    with pytest.raises((ArgumentError, DTypeError), match=r"cannot hold|too large|expected") as caught:
        call()
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400


def test_tracebacks_name_the_operation() -> None:
    """Methods share the bytecode of a template; a traceback shows its lines with the operation's name."""
    x: Any = Tensor[NumPy].ones((2,))
    for method in ("mul", "sum"):
        with pytest.raises(BurnpyError) as caught:
            getattr(x, method)("a")
        text = "".join(format_exception(caught.value))
        assert f'"{method}"' in text
        assert "OPERATION" not in text


def test_the_door_to_the_errors() -> None:
    from burnpy.backend import errors
    from burnpy.errors import ShapeError as Same

    assert Same is ShapeError
    classes = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    exceptions = {name for name, value in classes.items() if issubclass(value, Exception)}
    assert exceptions == {name for name, value in vars(burnpy.errors).items() if isinstance(value, type)}
