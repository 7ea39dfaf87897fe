"""The exact messages of common mistakes: shapes, kinds, dtypes, devices, dims, arguments, names and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, linalg, nn, optim
from burnpy.backend import NumPy
from burnpy.errors import (
    ArgumentError,
    BurnpyError,
    CallError,
    DeviceError,
    DimError,
    DTypeError,
    IndexRangeError,
    KindError,
    LinAlgError,
    MissingNameError,
    NotTrackedError,
    ShapeError,
)
from burnpy.nn import functional
from tests.rows import every_row

X: Any = Tensor[NumPy].ones((2, 3))
V: Any = Tensor[NumPy].ones((4,))
INDEX: Any = IntTensor[NumPy].from_data([0, 1])
B: Any = BoolTensor[NumPy].ones((2, 3))
T: Any = Tensor[Autodiff[NumPy]].ones((2, 3)).require_grad()
BIG: Any = Tensor[NumPy].ones((3000,))
LAYER: Any = nn.Linear(3, 2, device=NumPy)
MODEL: Any = nn.Linear(3, 2, device=Autodiff[NumPy])
ANY: Any = burnpy
TENSOR: Any = Tensor[NumPy]
INT: Any = IntTensor[NumPy]
NN: Any = nn
OPTIM: Any = optim
FUNCTIONS: Any = functional
LINALG: Any = linalg

MESSAGES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (
        lambda: X + TENSOR.ones((4,)),
        ShapeError,
        (
            "add() got shapes (2, 3) and (4,), which do not broadcast: aligned at the right, sizes must be equal "
            "or one of them 1"
        ),
    ),
    (
        lambda: X + INDEX,
        KindError,
        (
            "add(): kinds do not mix, got a Tensor of shape (2, 3) and dtype float32 and an IntTensor of shape (2,) "
            "and dtype int64; convert the IntTensor with .float()"
        ),
    ),
    (
        lambda: X + B,
        KindError,
        (
            "add(): kinds do not mix, got a Tensor of shape (2, 3) and dtype float32 and a BoolTensor of shape (2, 3) "
            "and dtype bool; convert the BoolTensor with .float()"
        ),
    ),
    (
        lambda: X + "a",
        KindError,
        "add() got a Tensor and 'a'; the other operand must be a Tensor or a number",
    ),
    (
        lambda: X + None,
        KindError,
        "add() got a Tensor and None; the other operand must be a Tensor or a number",
    ),
    (
        lambda: X + T,
        DeviceError,
        (
            "add() got tensors on NumPy (the first) and Autodiff[NumPy] (the second); "
            "move one with .to_device(...), or lift a plain "
            "tensor with Tensor[...].from_inner(x)"
        ),
    ),
    (
        lambda: X @ X,
        ShapeError,
        (
            "matmul() got shapes (2, 3) and (2, 3), which do not multiply: 3 in dim -1 of the first must be 2 in "
            "dim -2 of the second"
        ),
    ),
    (
        lambda: X.sum(dim=2),
        DimError,
        "sum() got dim 2 for a tensor with 2 dimensions; it can be from -2 to 1",
    ),
    (
        lambda: X.sum(dimension=0),
        CallError,
        "sum() does not take dimension; it takes dim, keepdim, dtype",
    ),
    (
        lambda: X.softmax(),
        CallError,
        "softmax() is missing the argument dim",
    ),
    (
        lambda: X.softmax(dim=5),
        DimError,
        "softmax() got dim 5 for a tensor with 2 dimensions; it can be from -2 to 1",
    ),
    (
        lambda: X.reshape(4, 2),
        ShapeError,
        "reshape() cannot change shape (2, 3) to (4, 2): 6 elements are not 8",
    ),
    (
        lambda: X.transpose(0, 3),
        DimError,
        "transpose() got dim 3 for a tensor with 2 dimensions; it can be from -2 to 1",
    ),
    (
        lambda: X[5],
        IndexRangeError,
        "x[...] got index 5 along dim 0, of size 2, of shape (2, 3); expected an index from -2 to 1",
    ),
    (
        lambda: X[0, 0, 0],
        DimError,
        "x[...] cannot index 3 dimensions of shape (2, 3), which has 2",
    ),
    (
        lambda: X[1.5],
        KindError,
        (
            "x[...] got 1.5; an index is an int, a slice, None, ..., an IntTensor, a BoolTensor, a range, or a "
            "list, tuple or array of ints or bools"
        ),
    ),
    (
        lambda: bool(X),
        ShapeError,
        "the truth value of a Tensor with shape (2, 3) is ambiguous; use x.bool().any() or x.bool().all()",
    ),
    (
        lambda: bool(X > 1.0),
        ShapeError,
        "the truth value of a BoolTensor with shape (2, 3) is ambiguous; use x.any() or x.all()",
    ),
    (
        lambda: X.item(),
        ShapeError,
        (
            "item() got a Tensor of shape (2, 3), but takes one element; reduce it first, as with .sum(), or use "
            ".tolist()"
        ),
    ),
    (
        lambda: X.split(-1),
        ArgumentError,
        "split() got parts of size -1; expected an int of at least 1",
    ),
    (
        lambda: ANY.cat([X, V]),
        ShapeError,
        (
            "cat() cannot join shapes (2, 3) and (4,) (the first and number 2) along dim 0; all other sizes must "
            "be equal"
        ),
    ),
    (
        lambda: ANY.cat([X, X[:, 0]], dim=1),
        ShapeError,
        (
            "cat() cannot join shapes (2, 3) and (2,) (the first and number 2) along dim 1; all other sizes must "
            "be equal"
        ),
    ),
    (
        lambda: ANY.cat(X),
        ArgumentError,
        "cat() takes a list or tuple of tensors, at least one, got a single Tensor",
    ),
    (
        lambda: ANY.stack([X, V]),
        ShapeError,
        "stack() cannot join shapes (2, 3) and (4,) (the first and number 2); they must be equal",
    ),
    (
        lambda: ANY.cat([]),
        ArgumentError,
        "cat() takes a list or tuple of tensors, at least one, got []",
    ),
    (
        lambda: TENSOR.from_data("text"),
        ArgumentError,
        ("Tensor.from_data() got 'text' of type str; expected numbers, nested lists of numbers, arrays or tensors"),
    ),
    (
        lambda: TENSOR.from_data([[1.0], [1.0, 2.0]]),
        ShapeError,
        (
            "Tensor.from_data() got a ragged list: at depth 1 there are lists of length 1 and 2; give all the "
            "same length"
        ),
    ),
    (
        lambda: TENSOR.zeros((2,), dtype="int64"),
        DTypeError,
        "a Tensor holds float dtypes, got int64; use IntTensor instead",
    ),
    (
        lambda: TENSOR.zeros((-1,)),
        ShapeError,
        "Tensor.zeros() got shape (-1,); sizes cannot be negative",
    ),
    (
        lambda: INT.from_data([1.5]),
        DTypeError,
        "IntTensor.from_data() got 1.5, but holds int values only; use Tensor, or convert it with int(...)",
    ),
    (
        lambda: T.backward(),
        ShapeError,
        (
            "backward() got a tensor of shape (2, 3); reduce it to one element, as with .sum(), or pass the "
            "gradient to start from, of that shape, as gradient="
        ),
    ),
    (
        lambda: X.backward(),
        NotTrackedError,
        (
            "backward() got a Tensor of shape (2, 3) and dtype float32 on NumPy, which records no graph; for "
            "gradients make the tensor on Autodiff[NumPy] and call require_grad(), or take it from the model "
            "that was trained, not from valid(); for values use it as it is"
        ),
    ),
    (
        lambda: T.grad(None),
        KindError,
        (
            "x.grad(grads) takes the Gradients that loss.backward() returned, got none; gradients are not stored "
            "in tensors"
        ),
    ),
    (
        lambda: T.sum().grad(T.sum().backward()),
        NotTrackedError,
        (
            "the tensor of shape () was computed by sum and is not a leaf; for its gradient, continue with "
            "the result of x.retain_grad()"
        ),
    ),
    (
        lambda: X.grad(T.sum().backward()),
        NotTrackedError,
        (
            "grad() got a Tensor of shape (2, 3) and dtype float32 on NumPy, which records no graph; for "
            "gradients make the tensor on Autodiff[NumPy] and call require_grad(), or take it from the model "
            "that was trained, not from valid(); for values use it as it is"
        ),
    ),
    (
        lambda: LAYER(V),
        ShapeError,
        (
            "linear() got x of shape (4,) and weight of shape (3, 2); the last dim of x must equal the first dim "
            "of the weight"
        ),
    ),
    (
        lambda: LAYER(INDEX),
        KindError,
        "linear() takes a float Tensor as x, got an IntTensor of dtype int64; convert it with x.float()",
    ),
    (
        lambda: MODEL(X),
        DeviceError,
        (
            "linear() got tensors on NumPy (x) and Autodiff[NumPy] (weight); "
            "move one with .to_device(...), or lift a plain "
            "tensor with Tensor[...].from_inner(x)"
        ),
    ),
    (
        lambda: NN.Linear(3),
        CallError,
        (
            "Linear() is missing the arguments out_features, device; device= says where it is: NumPy, or "
            "Autodiff[NumPy] to train it"
        ),
    ),
    (
        lambda: NN.Linear(3, 2),
        CallError,
        ("Linear() is missing the argument device; device= says where it is: NumPy, or Autodiff[NumPy] to train it"),
    ),
    (
        lambda: NN.Linear(0, 2, device=NumPy),
        ArgumentError,
        "Linear() got in_features=0; expected a positive int",
    ),
    (
        lambda: NN.Linear(3, 2, devise=NumPy),
        CallError,
        "Linear() does not take devise; did you mean device?",
    ),
    (
        lambda: NN.Conv2d(3, 4, kernel_size=(1, 2, 3), device=NumPy),
        ArgumentError,
        "Conv2d() got kernel_size=(1, 2, 3); expected an int of at least 1, or two of them: (height, width)",
    ),
    (
        lambda: NN.Dropout(2.0),
        ArgumentError,
        "Dropout() got p=2.0; expected a probability, from 0 to 1",
    ),
    (
        lambda: FUNCTIONS.cross_entropy(X, X.sum(1)),
        ShapeError,
        (
            "cross_entropy() got logits of shape (2, 3) and probabilities of shape (2,), which must be equal; "
            "for classes give an IntTensor"
        ),
    ),
    (
        lambda: FUNCTIONS.cross_entropy(X, INT.from_data([0, 3])),
        IndexRangeError,
        "cross_entropy() got index 3 along dim 1, of size 3, of shape (2, 3); expected an index from 0 to 2",
    ),
    (
        lambda: FUNCTIONS.mse_loss(X, V),
        ShapeError,
        "mse_loss() got shapes (2, 3) and (4,), which must be equal; to broadcast one, write y.expand_as(x)",
    ),
    (
        lambda: FUNCTIONS.layer_norm(BIG, BIG, BIG),
        ShapeError,
        (
            "layer_norm() got x of shape (3000,) and normalized_shape=a Tensor of shape (3000,) and dtype "
            "float32, which must be its last dimensions"
        ),
    ),
    (
        lambda: FUNCTIONS.layer_norm(X, 2),
        ShapeError,
        "layer_norm() got x of shape (2, 3) and normalized_shape=(2,), which must be its last dimensions",
    ),
    (
        lambda: FUNCTIONS.conv2d(X, X),
        ShapeError,
        ("conv2d() got x of shape (2, 3), expected (N, in, height, width), or (in, height, width) for one image"),
    ),
    (
        lambda: OPTIM.Sgd(0.1),
        CallError,
        (
            "Sgd() takes nothing by position, but got 1 value; pass parameters and rate to each step: model = "
            "optim.step(1e-3, model, grads)"
        ),
    ),
    (
        lambda: OPTIM.Sgd(lr=0.1),
        CallError,
        "Sgd() does not take lr; pass the rate to each step: model = optim.step(1e-3, model, grads)",
    ),
    (
        lambda: OPTIM.Sgd().step(0.1, MODEL, None),
        KindError,
        "Sgd.step() takes the gradients that backward() returned, or GradientsParams, got None",
    ),
    (
        lambda: LAYER.parameters,
        MissingNameError,
        "Linear has no parameters; use model.params()",
    ),
    (
        lambda: X.add_,
        MissingNameError,
        "Tensor has no add_; write x = x.add(y) (nothing is changed in place)",
    ),
    (
        lambda: X.requires_grad,
        MissingNameError,
        "Tensor has no requires_grad; write x.is_require_grad() (x = x.require_grad() makes a leaf)",
    ),
    (
        lambda: ANY.sofmax,
        MissingNameError,
        "burnpy has no sofmax; did you mean x.softmax?",
    ),
    (
        lambda: np.exp(X),
        KindError,
        "np.exp() got a Tensor of shape (2, 3), but computes with arrays; write x.exp()",
    ),
    (
        lambda: LINALG.cholesky(TENSOR.from_data([[0.0, 1.0], [1.0, 0.0]])),
        LinAlgError,
        (
            "cholesky() got shape (2, 2), and the matrix is not positive definite; add a small multiple of the "
            "identity to it, or use eigh()"
        ),
    ),
    (
        lambda: X.masked_fill(X, 0.0),
        KindError,
        (
            "masked_fill() takes its condition as a BoolTensor, got a Tensor of shape (2, 3) and dtype float32; "
            "write x != 0"
        ),
    ),
    (
        lambda: X.gather(0, X),
        KindError,
        (
            "gather() takes its indices as an IntTensor, got a Tensor of shape (2, 3) and dtype float32; convert it "
            "with .int()"
        ),
    ),
    (
        lambda: X.where(X, X),
        KindError,
        ("where() takes its condition as a BoolTensor, got a Tensor of shape (2, 3) and dtype float32; write x != 0"),
    ),
]


@every_row("call, error, message", MESSAGES, ids=[message for _, _, message in MESSAGES])
def test_messages(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


LONG = "a" * 3000
CALLS_WITH_LONG_VALUES: list[Callable[[], object]] = [
    lambda: FUNCTIONS.layer_norm(BIG, BIG, BIG),
    lambda: FUNCTIONS.rms_norm(BIG, BIG, BIG),
    lambda: FUNCTIONS.mse_loss(X, X, reduction=LONG),
    lambda: FUNCTIONS.avg_pool1d(X, [*range(3000)]),
    lambda: FUNCTIONS.dropout(X, LONG),
    lambda: NN.Linear([*range(3000)], 2, device=NumPy),
    lambda: NN.Conv2d(3, 4, kernel_size=LONG, device=NumPy),
    lambda: FUNCTIONS.grid_sample(X.reshape(1, 1, 2, 3), X.reshape(1, 3, 1, 2), mode=LONG),
    lambda: FUNCTIONS.interpolate(X.reshape(1, 2, 3), 4, mode=LONG),
    lambda: OPTIM.Ema(LAYER, decay=10**3000),
    lambda: OPTIM.Adam(betas=10**5000),
    lambda: ANY.einsum("ab," * 3000 + "->ab", X),
    lambda: ANY.einsum("ij->" + LONG, X),
    lambda: X[10**5000],
    lambda: X[LONG],
    lambda: X.permute(*range(10_000)),
    lambda: FUNCTIONS.fold(X.reshape(1, 2, 3), (10**5000, 4), 2),
    lambda: FUNCTIONS.fold(X.reshape(1, 2, 3), (4,) * 10_000, 2),
    lambda: FUNCTIONS.affine_grid(X.reshape(1, 2, 3), (4,) * 10_000),
    lambda: LAYER.load_record({LONG: 1, **{f"key{k}": k for k in range(1000)}}),
]


@every_row("call", CALLS_WITH_LONG_VALUES, ids=map(str, range(len(CALLS_WITH_LONG_VALUES))))
def test_messages_do_not_quote_whole_values(call: Callable[[], object]) -> None:
    with pytest.raises(BurnpyError) as caught:
        call()
    assert len(str(caught.value)) <= 500
