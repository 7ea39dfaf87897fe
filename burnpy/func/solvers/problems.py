"""Arguments, reports and derivatives of all solvers: trees as vectors, checks of settings, success or failure.

A solution is differentiated by the equation that holds at it, not by the steps that found it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from burnpy.autodiff.modes import no_grad
from burnpy.backend.dtypes import part_dtype
from burnpy.backend.errors import ArgumentError, ConvergenceError, DTypeError, KindError, ShapeError
from burnpy.func.control_flow.nested_calls import recorder_of
from burnpy.func.jacobians import jacfwd
from burnpy.func.pytree import MismatchError, describe_tree, paths, tensor_leaves
from burnpy.func.user_functions import base_for
from burnpy.linalg.decompositions import lu
from burnpy.linalg.equations import solve_triangular
from burnpy.tensor.complex_numbers_lazy import view_as_complex, view_as_real
from burnpy.tensor.joining import cat, where
from burnpy.tensor.levels import differs_between_examples, is_followed, values_beneath
from burnpy.tensor.tensor import DIFFERENTIABLE, BoolTensor, ComplexTensor, IntTensor, Tensor

DTYPES = ("float32", "float64")


class FlatTree:
    """The structure and shapes of a tree of float tensors of one dtype, and its elements as one vector.

    Complex tensors stand in it as pairs of floats.

    Args:
        api: the solver, for messages.
        name: the name of the tree in messages.
        tree: the tree.

    Raises:
        KindError: a leaf is not a float tensor, or there is none.
        DTypeError: the dtypes differ, or are neither float32 nor float64.
    """

    def __init__(self, api: str, name: str, tree: Any) -> None:
        leaves, self.structure = tensor_leaves(api, name, tree)
        self.api, self.name = api, name
        self.names = paths(self.structure, name)
        for leaf, path in zip(leaves, self.names, strict=True):
            if not isinstance(leaf, DIFFERENTIABLE):
                raise KindError(f"{api}() takes float tensors, and {path} is {describe_tree(leaf)}; call .float()")
            if part_dtype(leaf.dtype) != part_dtype(leaves[0].dtype) or part_dtype(leaf.dtype).name not in DTYPES:
                first = "" if path == self.names[0] else f" and {self.names[0]} of dtype {leaves[0].dtype}"
                raise DTypeError(
                    f"{api}() got {path} of dtype {leaf.dtype}{first}; it computes with one dtype, float32 or float64: "
                    "convert with .to_dtype(...)"
                )
        if not leaves:
            raise KindError(f"{api}() got {name} without tensors; give it at least one")
        self.shapes = [leaf.shape for leaf in leaves]
        self.classes = [type(leaf) for leaf in leaves]
        self.inside = [(*leaf.shape, 2) if isinstance(leaf, ComplexTensor) else leaf.shape for leaf in leaves]
        self.sizes = [math.prod(shape) for shape in self.inside]
        self.dtype = part_dtype(leaves[0].dtype)
        self.vector: Any = _joined(leaves)

    def tree(self, vector: Any) -> Any:
        """Return the tree of a vector; leading dims that the vector has before its last one stay in front."""
        front = vector.shape[:-1]
        parts = [vector] if len(self.shapes) == 1 else vector.split(self.sizes, -1)
        leaves = [part.reshape((*front, *shape)) for part, shape in zip(parts, self.inside, strict=True)]
        for k, cls in enumerate(self.classes):
            if cls is ComplexTensor:
                leaves[k] = view_as_complex(leaves[k])
        return self.structure.unflatten(leaves)

    def flat(self, tree: Any, of: str) -> Any:
        """Return the vector of another tree, which must have this one's structure, shapes and dtype.

        Args:
            tree: the tree.
            of: the words for it in messages.
        """
        try:
            leaves = self.structure.leaves_of(tree)
        except MismatchError:
            raise ArgumentError(
                f"{self.api}() got {of} of structure {describe_tree(tree)}, and {self.name} has structure "
                f"{describe_tree(self.tree(self.vector))}; both must be equal"
            ) from None
        for leaf, path, shape, cls in zip(leaves, self.names, self.shapes, self.classes, strict=True):
            if not isinstance(leaf, cls):
                expected = "a float tensor" if cls is Tensor else "a ComplexTensor"
                raise KindError(f"{self.api}() got {of} with {describe_tree(leaf)} for {path}; expected {expected}")
            if leaf.shape != shape:
                raise ShapeError(f"{self.api}() got {of} of shape {leaf.shape} for {path}, which has shape {shape}")
            if part_dtype(leaf.dtype) != self.dtype:
                raise DTypeError(
                    f"{self.api}() got {of} of dtype {leaf.dtype} for {path}, which has dtype {self.dtype}; both must "
                    "be equal"
                )
        return _joined(leaves)

    def function(self, f: Callable[..., Any], of: str) -> Callable[..., Any]:
        """Return ``f``, whose last argument and result are trees like this one, as a function of vectors."""

        def flat(*args: Any) -> Any:
            return self.flat(f(*args[:-1], self.tree(args[-1])), of)

        return flat


def _joined(leaves: list[Any]) -> Any:
    """Return the elements of tensors as one vector."""
    leaves = [view_as_real(leaf) if isinstance(leaf, ComplexTensor) else leaf for leaf in leaves]
    flat = [leaf.reshape((-1,)) if len(leaf.shape) != 1 else leaf for leaf in leaves]
    return flat[0] if len(flat) == 1 else cat(flat, 0)


X = TypeVar("X")

STALLED, TOO_MANY, NON_FINITE = 1.0, 2.0, 3.0
"""Why a search for a solution failed."""
_DIGITS = 6


class Solution(NamedTuple, Generic[X]):
    """The result of `root`, `fixed_point` and `cg`."""

    x: X
    """The solution, a tree like the first guess."""
    residual: Tensor[Any]
    """How far the equations are from being satisfied: the largest magnitude of an element, of shape ()."""
    steps: IntTensor[Any]
    """The number of steps."""
    converged: BoolTensor[Any]
    """True if it converged."""


def largest(x: Any) -> Any:
    """Return the largest magnitude of the elements of a vector; 0 if there are none."""
    return x.abs().max() if x.shape[0] else x.sum()


def is_chosen_by_where(condition: Any, others: Sequence[Any]) -> bool:
    """Return whether the value of a bool cannot be read, so that what it chooses between is computed all the same."""
    return recorder_of(base_for("where", (condition, *others))) is not None or differs_between_examples(condition)


def select(condition: Any, new: Sequence[Any], old: Sequence[Any]) -> list[Any]:
    """Return the tensors ``new`` if a bool is True, else ``old``.

    Its value is read where it can be, so that what is not taken has no part in derivatives. Otherwise `where` chooses.
    """
    if is_chosen_by_where(condition, (*new, *old)):
        return [x if x is y else where(condition, x, y) for x, y in zip(new, old, strict=True)]
    return list(new if condition.item() else old)


def refuse_failure(status: Any, causes: Mapping[int, Callable[..., str]], numbers: Sequence[Any]) -> None:
    """Raise an error if a solver failed: at once, or in each replay of a compiled function.

    Args:
        status: a 0-d float tensor: 0, or the number of a cause.
        causes: for each number the function of ``numbers``, in digits, that returns the message.
        numbers: 0-d float tensors.
    """
    values = [status.detach().int()]
    for x in numbers:
        values += _decimal(x.detach())

    def error(status: int, *digits: int) -> ConvergenceError | None:
        if status not in causes:
            return None
        shown = [f"{float(f'{m}e{e - _DIGITS}'):.6g}" for m, e in zip(digits[::2], digits[1::2], strict=True)]
        return ConvergenceError(causes[status](*shown))

    device: Any = status._device
    device.discrete.defer_check(tuple([x._primitive for x in values]), error)


def _decimal(x: Any) -> list[Any]:
    """Return the digits of a number, and its power of ten, as ints: what checks of a device can pass to messages."""
    x = x.to_dtype("float64").nan_to_num()
    power = x.abs().maximum(1e-300).log10().floor()
    digits = (x * 10.0 ** (-power) * 10.0**_DIGITS).round()
    return [digits.int(), power.int()]


def implicit(f: Callable[[Any], Any], x: Any, depends: Any) -> Any:
    """Return a solution of f(x) = 0, a vector, with the derivatives that the implicit function theorem gives.

    They are the derivatives of the iteration x ← x - J⁻¹ f(x), where the Jacobian J at the solution is a constant: each
    step makes the derivatives of one more order exact, and there is one for each level that differentiates. So they
    exist in both modes, under `vmap` and in compiled functions, by all tensors that ``f`` closes over. The values stay
    as they are.

    Args:
        f: the function of a vector.
        x: the solution.
        depends: a tensor that depends on all that ``f`` closes over; the solution is returned as it is if that has no
            derivative.
    """
    order = derivative_order(depends)
    if not order:
        return x
    with no_grad():
        factors = Factors(jacfwd(f)(x))
    for _ in range(order):
        value = f(x)
        x = x - factors.solve(value - value.detach())
    return x


def derivative_order(x: Any) -> int:
    """Return the number of levels of a tensor's device on which it is tracked or has a tangent. Each level
    differentiates once, so that no derivative of higher order is computed."""
    return sum(map(is_followed, values_beneath(x)))


def is_tracked(x: Any) -> bool:
    """Return whether a tensor is tracked, for gradients in reverse, on any level of its device."""
    return any(getattr(x, "node", None) is not None for x in values_beneath(x))


class Factors:
    """The LU decomposition of a square matrix.

    Args:
        matrix: shape (n, n).
    """

    def __init__(self, matrix: Any) -> None:
        self._permutation, self._lower, self._upper = lu(matrix)

    def solve(self, right: Any) -> Any:
        """Return the solution for a right side of shape (n,)."""
        column = self._permutation.mT @ right.unsqueeze(1)
        column = solve_triangular(self._lower, column, upper=False, unitriangular=True)
        return solve_triangular(self._upper, column, upper=True).squeeze(1)
