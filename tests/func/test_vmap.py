"""`vmap` equals one call for each example, nests with itself and with derivatives, and explains what it refuses."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, nn
from burnpy.autodiff import Context, Function, checkpoint, custom_vjp
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, BatchedError, EscapedError, KindError, NotTrackedError, ShapeError
from burnpy.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from tests.rows import every_row

RNG = np.random.default_rng(0)
VALUES = RNG.uniform(0.5, 2.0, (5, 3))
X = Tensor[NumPy].from_data(VALUES)
PLACES = IntTensor[NumPy].from_data(RNG.integers(0, 3, (5, 2)))


def close(actual: Any, expected: Any, tolerance: float = 1e-12) -> bool:
    a, b = np.asarray(actual), np.asarray(expected)
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.allclose(a, b, rtol=tolerance, atol=tolerance))


def each(f: Callable[..., Any], *xs: Any) -> Any:
    """The results of one call for each example, stacked."""
    return np.stack([np.asarray(f(*[x[k] for x in xs])) for k in range(len(xs[0]))])


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "a sum": lambda x: (x * x).sum(),
    "a product": lambda x: x @ x,
    "softmax": lambda x: x.softmax(dim=0),
    "an element": lambda x: x[1] * x,
    "a slice": lambda x: x[::-1],
    "an update": lambda x: x.at[1].set(x[0]),
    "a sorted one": lambda x: x.sort(dim=0).values,
    "where": lambda x: burnpy.where(x > 1.0, x, -x),
    "a constant beside it": lambda x: x + Tensor[NumPy].from_data(VALUES[0]),
    "ints": lambda x: x.argsort(dim=0),
    "bools": lambda x: x > 1.0,
    "a matrix": lambda x: burnpy.stack([x, x * 2.0], dim=1),
    "what does not depend on it": lambda x: Tensor[NumPy].from_data([1.0, 2.0]),
    "a loop": lambda x: sum([x[k] * float(k) for k in range(3)]),
    "einsum": lambda x: burnpy.einsum("i,j->ij", x, x),
    "one hot": lambda x: x.argmax(dim=0).one_hot(3),
}


@every_row("name", FUNCTIONS)
def test_it_equals_one_call_for_each_example(name: str) -> None:
    f = FUNCTIONS[name]
    assert close(vmap(f)(X), each(f, X))


DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "grad": grad(lambda x: (x**3).sum() * x[0]),
    "hessian": hessian(lambda x: (x**3).sum() * x[0]),
    "jacrev": jacrev(lambda x: x.tanh() * x[0]),
    "jacfwd": jacfwd(lambda x: x.tanh() * x[0]),
    "jvp": lambda x: jvp(lambda y: y.sin() * y[1], x, x)[1],
    "vjp": lambda x: vjp(lambda y: y.sin() * y[1], x)[1](x)[0],
}


@every_row("name", DERIVATIVES)
def test_derivatives_of_each_example(name: str) -> None:
    f = DERIVATIVES[name]
    assert close(vmap(f)(X), each(f, X))


@every_row("name", DERIVATIVES)
def test_derivatives_of_a_batch(name: str) -> None:
    """Derivatives go through vmap: of the sum over all examples, and of derivatives of each."""
    f = DERIVATIVES[name]
    total = grad(lambda x: vmap(f)(x).sin().sum())
    by_hand = grad(lambda x: burnpy.stack([f(x[k]) for k in range(5)]).sin().sum())
    assert close(total(X), by_hand(X))
    assert close(jvp(vmap(f), X, X)[1], jvp(lambda x: burnpy.stack([f(x[k]) for k in range(5)]), X, X)[1])


def test_nested() -> None:
    assert close(vmap(lambda a: vmap(lambda b: a @ b)(X))(X), VALUES @ VALUES.T)
    assert close(vmap(vmap(lambda a: a * a))(X), VALUES**2)
    assert close(
        vmap(vmap(lambda a, b: a * b, in_dims=(0, None)), in_dims=(None, 0))(X[0], X[:, 0]),
        np.outer(VALUES[:, 0], VALUES[0]),
    )
    rows = vmap(lambda i: vmap(lambda k: i * k)(IntTensor[NumPy].from_data([1, 2])))(
        IntTensor[NumPy].from_data([3, 4, 5])
    )
    assert rows.tolist() == [[3, 6], [4, 8], [5, 10]]
    assert close(
        vmap(lambda a: vmap(grad(lambda b: (a * b).sum().sin()))(X))(X),
        np.cos(VALUES @ VALUES.T)[..., None] * VALUES[:, None],
    )


def test_dims() -> None:
    cube = Tensor[NumPy].from_data(RNG.normal(size=(2, 5, 3)))
    assert close(vmap(lambda x: x.sum(0), in_dims=1)(cube), np.asarray(cube).sum(0))
    assert close(vmap(lambda x: x.sum(0), in_dims=-1)(cube), np.asarray(cube).sum(0).T)
    assert close(vmap(lambda x: x, in_dims=1, out_dims=-1)(cube), np.asarray(cube).transpose(0, 2, 1))
    assert close(vmap(lambda x, w: x * w, in_dims=(0, None))(X, X[0]), VALUES * VALUES[0])
    tree = {"a": X, "b": [cube, X[0]]}
    out = vmap(
        lambda t: (t["a"].sum(), {"b": t["b"][0] * t["b"][1]}),
        in_dims=({"a": 0, "b": [1, None]},),
        out_dims=(0, {"b": 2}),
    )(tree)
    assert close(out[0], VALUES.sum(1))
    assert close(out[1]["b"], (np.asarray(cube) * VALUES[0]).transpose(0, 2, 1))
    assert vmap(lambda x: (x, Tensor[NumPy].ones(2)), out_dims=(0, None))(X)[1].shape == (2,)
    assert vmap(lambda x, *, w: x * w)(X, w=X[0]).shape == (5, 3)
    number: Any = np.int64(0)
    first, nothing = vmap(lambda x, y: (x, y), in_dims=(number, None))(X, None)
    assert (first.shape, nothing) == ((5, 3), None)


def test_of_an_empty_batch() -> None:
    assert vmap(lambda x: (x * 2.0).sum())(X[:0]).shape == (0,)
    assert vmap(grad(lambda x: (x * 2.0).sum()))(X[:0]).shape == (0, 3)
    permuted = vmap(lambda x: IntTensor[NumPy].permutation(4) + x, randomness="different")
    assert permuted(IntTensor[NumPy].zeros((0,))).shape == (0, 4)


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_in_chunks(size: int) -> None:
    assert close(
        vmap(lambda x: x.softmax(dim=0), out_dims=1, chunk_size=size)(X),
        vmap(lambda x: x.softmax(dim=0), out_dims=1)(X),
    )


def test_indices_that_differ() -> None:
    taken = np.take_along_axis(VALUES, np.asarray(PLACES), 1)
    assert close(vmap(lambda x, i: x[i])(X, PLACES), taken)
    assert close(vmap(lambda x, i: x[i[0]])(X, PLACES), taken[:, 0])
    assert close(
        vmap(grad(lambda x, i: x[i].square().sum()))(X, PLACES), each(grad(lambda x, i: x[i].square().sum()), X, PLACES)
    )
    updated = vmap(lambda x, i: x.at[i[0]].set(0.0))(X, PLACES)
    assert close(updated, each(lambda x, i: x.at[i[0]].set(0.0), X, PLACES))
    with pytest.raises(burnpy.errors.IndexRangeError, match="3"):
        vmap(lambda x, i: x[i])(X, PLACES + 1 + 1)


def test_on_tracked_tensors() -> None:
    x = Tensor[Autodiff[NumPy]].from_data(VALUES).require_grad()
    loss = vmap(lambda row: (row * row).sum().exp())(x).sum()
    assert close(loss.backward()[x], 2 * VALUES * np.exp((VALUES**2).sum(1))[:, None], 1e-9)


def test_random_numbers() -> None:
    drop = nn.functional.dropout
    ones = Tensor[NumPy].ones((6, 16))
    with pytest.raises(ArgumentError, match="randomness="):
        vmap(lambda x: drop(x, 0.5))(ones)
    same = np.asarray(vmap(lambda x: drop(x, 0.5), randomness="same")(ones))
    assert len(np.unique(same, axis=0)) == 1
    different = vmap(lambda x: drop(x, 0.5), randomness="different")
    burnpy.manual_seed(0)
    first, second = np.asarray(different(ones)), np.asarray(different(ones))
    assert len(np.unique(first, axis=0)) > 3
    assert not np.array_equal(first, second)
    burnpy.manual_seed(0)
    assert np.array_equal(np.asarray(different(ones)), first)


def test_random_numbers_are_the_same_in_chunks() -> None:
    generator = burnpy.Generator(0)
    noisy = vmap(
        lambda x: x + Tensor[NumPy].normal((3,), generator=generator, dtype="float64") * 1.0,
        randomness="same",
        chunk_size=2,
    )
    noise = np.asarray(noisy(X)) - VALUES
    assert np.allclose(noise, noise[0])


def test_random_permutations_and_ints() -> None:
    rows = np.asarray(
        vmap(lambda x: IntTensor[NumPy].permutation(8) + x, randomness="different")(IntTensor[NumPy].zeros((5,)))
    )
    assert all(sorted(row) == list(range(8)) for row in rows.tolist())
    assert len(np.unique(rows, axis=0)) > 1


def test_ensembles_and_layers() -> None:
    lstm = nn.Lstm(3, 4, device=NumPy)
    x = Tensor[NumPy].from_data(RNG.normal(size=(5, 2, 7, 3)).astype(np.float32))
    assert close(vmap(lambda a: lstm(a)[0])(x), each(lambda a: lstm(a)[0], x), 1e-5)
    attention = nn.MultiHeadAttention(4, 2, device=NumPy)
    y = Tensor[NumPy].from_data(RNG.normal(size=(5, 2, 7, 4)).astype(np.float32))

    def attend(a: Any) -> Any:
        return attention(a, a, a)

    assert close(vmap(attend)(y), each(attend, y), 1e-5)


class Cube(Function):
    """Its derivative is wrong on purpose, so that a test sees that it is used."""

    @staticmethod
    def forward(ctx: Context, x: Tensor[Any]) -> Tensor[Any]:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Context, grad: Tensor[Any]) -> Tensor[Any]:
        (x,) = ctx.saved_tensors
        return grad * x * 5.0


@custom_vjp
def clipped(x: Tensor[Any]) -> Tensor[Any]:
    return x.clamp(-1.0, 1.0)


clipped.defvjp(lambda x: (clipped(x), x), lambda x, grad: (grad * x,))


def test_custom_derivatives() -> None:
    assert close(vmap(Cube.apply)(X), VALUES**3)
    assert close(vmap(grad(lambda x: Cube.apply(x).sum()))(X), 5 * VALUES)
    assert close(vmap(vmap(grad(Cube.apply)))(X), 5 * VALUES)
    assert close(
        vmap(hessian(lambda x: Cube.apply(x).sum(), mode="reverse-over-reverse"))(X),
        np.broadcast_to(5 * np.eye(3), (5, 3, 3)),
    )
    assert close(vmap(grad(lambda x: clipped(x).sum()))(X), VALUES)
    assert close(vmap(clipped)(X), VALUES.clip(-1.0, 1.0))


@every_row(
    "name",
    [
        *("add", "sub", "mul", "div", "pow", "floor_divide", "remainder", "fmod", "maximum", "minimum", "fmax", "fmin"),
        *("clamp_min", "clamp_max", "heaviside", "eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or"),
        *("bitwise_xor", "gcd", "lcm"),
    ],
)
def test_a_number_of_each_example_does_not_promote(name: str) -> None:
    floats = Tensor[NumPy].ones((2, 3), dtype="float16"), Tensor[NumPy].from_data([1.0001, 2.0])
    ints = IntTensor[NumPy].from_data([[1, 5, 7]] * 2, dtype="int8"), IntTensor[NumPy].from_data([3, 300])
    for x, y in (floats, ints):
        if not hasattr(x, name):
            continue
        for operands in ((x, y), (y, x)):
            found = vmap(lambda a, b: getattr(a, name)(b))(*operands)
            expected = burnpy.stack([getattr(a, name)(b) for a, b in zip(*operands, strict=True)])
            assert found.dtype == expected.dtype
            assert found.tolist() == expected.tolist()


def test_checkpoints() -> None:
    plain = grad(lambda x: x.tanh().square().sum())
    again = grad(lambda x: checkpoint(lambda y: y.tanh().square(), x).sum())
    assert close(vmap(again)(X), np.asarray(vmap(plain)(X)))
    outside = grad(lambda x: checkpoint(lambda y: vmap(lambda row: row.tanh().square())(y), x).sum())
    assert close(outside(X), np.asarray(vmap(plain)(X)))
    nested = vmap(lambda row: checkpoint(lambda z: z.tanh().square(), row))
    both = grad(
        lambda x: checkpoint(lambda y: nested(nested(y)), x).sum()
    )  # an argument of a section on a closed level
    assert close(both(X), np.asarray(vmap(grad(lambda x: x.tanh().square().tanh().square().sum()))(X)))


@every_row("name", FUNCTIONS)
def test_compiled_on_either_side(name: str) -> None:
    f = FUNCTIONS[name]
    outside, inside = burnpy.compiled(vmap(f)), vmap(burnpy.compiled(f))
    for x in (X, X[::-1] * 1.5, X):
        want = np.asarray(vmap(f)(x))
        assert close(outside(x), want)
        assert close(inside(x), want)
    assert len(outside.plans) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", DERIVATIVES)
def test_compiled_derivatives(name: str) -> None:
    f = DERIVATIVES[name]
    for g in (burnpy.compiled(vmap(f)), vmap(burnpy.compiled(f))):
        for x in (X, X * 1.5):
            assert close(g(x), np.asarray(vmap(f)(x)))


def test_a_tensor_shows_the_shape_of_one_example() -> None:
    shown: list[str] = []

    def show(x: Any) -> Any:
        shown.append(f"{x} {Tensor[NumPy].ones((1,)) * 2.0}")
        return x

    vmap(show)(X)
    one = "Tensor(one for each example, shape=(3,), dtype=float64, device=Batched[NumPy])"
    assert shown == [f"{one} Tensor([2.], shape=(1,), dtype=float32, device=NumPy)"]


def norm(x: Any) -> Any:
    return nn.BatchNorm(3, device=Autodiff[NumPy]).astype("float64")(x)


TRACKED = Tensor[Autodiff[NumPy]].from_data(VALUES).require_grad()

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no function": (lambda: vmap(X), KindError, r"vmap\(\) takes a function"),  # type: ignore[call-overload]  # as meant
    "running statistics": (lambda: vmap(norm)(burnpy.stack([TRACKED, TRACKED], dim=1)), ArgumentError, "BatchNorm"),
    "no forward mode": (lambda: jvp(lambda x: vmap(clipped)(x), X, X), NotTrackedError, "custom_vjp has a rule for"),
    "a graph of one example": (lambda: vmap(lambda x: x.sum().backward())(TRACKED), NotTrackedError, "func.grad"),
    "an orthogonal matrix for each": (
        lambda: vmap(lambda x: nn.init.Orthogonal()((2, 2), device=NumPy), randomness="different")(X),
        ArgumentError,
        "cannot draw on NumPy",
    ),
    "a value that is read": (
        lambda: vmap(lambda x: x * x.sum().item())(X),
        BatchedError,
        "cannot be read in a function under vmap",
    ),
    "a branch": (lambda: vmap(lambda x: x if x.sum() > 0.0 else -x)(X), BatchedError, r"burnpy\.where"),
    "a shape by values": (lambda: vmap(lambda x: x[x > 1.0])(X), BatchedError, "shape that depends on values"),
    "sizes that differ": (
        lambda: vmap(lambda x, y: x)(X, X[:4]),
        ShapeError,
        "5 in dim 0 of argument 0, 4 in dim 0 of argument 1",
    ),
    "sizes that differ in a tree": (
        lambda: vmap(lambda t: t["a"])({"a": X, "b": [X[:4]]}),
        ShapeError,
        r"argument 0, \['a'\], 4 in dim 0 of argument 0, \['b'\]\[0\]",
    ),
    "no dimension": (lambda: vmap(lambda x: x)(X[0, 0]), ShapeError, "without a dimension for the batch"),
    "keywords alone": (lambda: vmap(lambda x: x)(x=X), ArgumentError, "pass it by position"),
    "a string as in_dims": (
        lambda: vmap(lambda x: x, in_dims="0")(X),  # type: ignore[call-overload]  # as meant
        ArgumentError,
        "in_dims='0' for Tensor",
    ),
    "no batch": (lambda: vmap(lambda x: x, in_dims=None)(X), ArgumentError, "no argument with a batch"),
    "a dim too many": (lambda: vmap(lambda x: x, in_dims=2)(X), ShapeError, r"in_dims=2 .* shape \(5, 3\)"),
    "in_dims of more arguments": (lambda: vmap(lambda x: x, in_dims=(0, 0))(X), ArgumentError, "of length 2"),
    "in_dims of another tree": (lambda: vmap(lambda x: x[0], in_dims=((0, 0),))((X,)), ArgumentError, "in_dims"),
    "a number with a batch": (lambda: vmap(lambda x, y: x)(X, 3.0), KindError, "None"),
    "out_dims=None": (lambda: vmap(lambda x: x, out_dims=None)(X), BatchedError, "out_dims=None"),
    "out_dims too large": (lambda: vmap(lambda x: x, out_dims=2)(X), ArgumentError, "out_dims=2"),
    "nothing returned": (lambda: vmap(lambda x: None)(X), KindError, "returned None"),
    "a result that is not a tensor": (lambda: vmap(lambda x: 3.0)(X), KindError, "returned float; return the tensor"),
    "an unknown randomness": (
        lambda: vmap(grad(lambda x: x), randomness="some"),  # type: ignore[call-overload]  # as meant
        ArgumentError,
        "randomness='some'",
    ),
    "an impossible chunk": (lambda: vmap(lambda x: x, chunk_size=0), ArgumentError, "chunk_size=0"),
}


@every_row("name", REFUSED)
def test_refusals(name: str) -> None:
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()


def test_a_tensor_that_escaped() -> None:
    box: list[Any] = []

    def keep(x: Any) -> Any:
        box.append(x)
        return x

    vmap(keep)(X)
    with pytest.raises(EscapedError, match=r"as part of its result$"):
        box[0] + 1.0
    with pytest.raises(EscapedError, match=r"^pickle.dumps\(\) got"):
        pickle.dumps(box[0])


def test_bool_results() -> None:
    mask = vmap(lambda x: (x > 1.0).any())(X)
    assert isinstance(mask, BoolTensor)
    assert close(mask, (VALUES > 1.0).any(1))
