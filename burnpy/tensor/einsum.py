"""Einstein summation and tensor contractions, made of matrix products.

An equation is parsed once for its shapes. Each step contracts two operands: dimensions of one alone are summed away,
and the rest is one batched matrix product. A diagonal, a repeated index of one operand, is a slice with a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, overload

from burnpy.backend.dtypes import promote_types
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.primitives import Shape
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import distinct, integer
from burnpy.tensor.linalg import alike
from burnpy.tensor.operand_checks import together
from burnpy.tensor.tensor import ComplexTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, X

__all__ = ["chain_matmul", "einsum", "tensordot"]


class Contraction(NamedTuple):
    """The contraction of two operands: the indices of both, and of the result."""

    left: int
    right: int
    out: str


class ContractionPath(NamedTuple):
    """An equation for given shapes: the indices of each operand and of the result, and the contractions in order."""

    inputs: tuple[str, ...]
    output: str
    steps: tuple[Contraction, ...]


@overload
def einsum(equation: str, *operands: Tensor[B]) -> Tensor[B]: ...
@overload
def einsum(equation: str, *operands: ComplexTensor[B]) -> ComplexTensor[B]: ...
@overload
def einsum(equation: str, *operands: IntTensor[B]) -> IntTensor[B]: ...
@explained
def einsum(equation: str, *operands: Any) -> Any:
    """Return the sum of products of elements that an equation describes, in Einstein's notation.

    A letter names a dimension; a letter in several operands, or twice in one, is one index of them all. Letters that
    the result lacks are summed over. Without ``->`` the result has the letters that occur once, in alphabetical order,
    after the dimensions of an ellipsis, which broadcast. The order in which several operands are multiplied is chosen
    by ``opt_einsum`` where that is installed, else by NumPy's search.

    Args:
        equation: such as ``"ij,jk->ik"``, ``"bii->bi"`` or ``"...ij,...jk"``.
        *operands: tensors of floats, or all of ints, or one list of them; dtypes promote.

    Raises:
        ArgumentError: the equation is malformed, or names another number of operands.
        ShapeError: a letter stands for different sizes, or an operand has another number of dimensions.

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> einsum("ij,kj->ik", x, x).tolist(), einsum("ii", x).item()
    ([[5.0, 11.0], [11.0, 25.0]], 5.0)
    """
    members: tuple[Any, ...] = operands
    if len(members) == 1 and isinstance(members[0], (list, tuple)):
        members = tuple(members[0])
    for x in members:
        if x.__class__ is not members[0].__class__ or not isinstance(x, (Tensor, IntTensor, ComplexTensor)):
            given = ", ".join(map(describe, members))
            raise KindError(f"einsum() takes tensors of numbers of one kind after the equation, got {given}")
    if not isinstance(equation, str):
        raise ArgumentError(f'einsum() takes an equation such as "ij,jk->ik", got {describe(equation)}')
    if not members:
        raise ArgumentError(f"einsum() got no tensors for {equation!r}")
    if any(x._device is not members[0]._device for x in members):
        members = together("einsum", *members)
    first, device = members[0], members[0]._backend
    dtype = first.dtype
    for x in members:
        dtype = dtype if x.dtype is dtype else promote_types(dtype, x.dtype)
    primitives = [x._primitive if x.dtype == dtype else device.cast(x._primitive, dtype) for x in members]
    path = contraction_path(equation, tuple([p.shape for p in primitives]))
    return first._like(_contract(device, path, primitives))


@overload
def tensordot(x: Tensor[B], y: Tensor[B], dims: int | Sequence[Sequence[int]] = 2) -> Tensor[B]: ...
@overload
def tensordot(
    x: ComplexTensor[B], y: ComplexTensor[B], dims: int | Sequence[Sequence[int]] = 2
) -> ComplexTensor[B]: ...
@overload
def tensordot(x: IntTensor[B], y: IntTensor[B], dims: int | Sequence[Sequence[int]] = 2) -> IntTensor[B]: ...
@explained
def tensordot(x: Any, y: Any, dims: int | Sequence[Sequence[int]] = 2) -> Any:
    """Return the contraction of dimensions of x with dimensions of y, in pairs.

    Args:
        x: a tensor of floats or ints.
        y: another of its kind.
        dims: how many of the last dimensions of x are contracted with as many of the first of y; or two lists, the
            dims of x and those of y.

    Raises:
        ShapeError: the sizes of a pair differ, and none is 1.
        ArgumentError: the lists are of different lengths.

    >>> x = Tensor[NumPy].ones((2, 3))
    >>> tensordot(x, x, dims=([1], [1])).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    for each in (x, y):
        if each.__class__ is not x.__class__ or not isinstance(each, (Tensor, IntTensor, ComplexTensor)):
            raise KindError(f"tensordot() takes two tensors of numbers of one kind, got {describe(each)}")
    if isinstance(dims, (list, tuple)):
        if len(dims) != 2:
            raise ArgumentError(f"tensordot() got dims={dims!r:.80}; expected a number, or two lists")
        both = [[d] if isinstance(d, int) else d for d in dims]
        left, right = distinct(both[0], x.ndim, "tensordot"), distinct(both[1], y.ndim, "tensordot")
    else:
        count = integer(dims, "number of dims", "tensordot")
        if not 0 <= count <= min(x.ndim, y.ndim):
            raise ArgumentError(f"tensordot() got {count} dims for shapes {x.shape} and {y.shape}, which have fewer")
        left, right = tuple(range(x.ndim - count, x.ndim)), tuple(range(count))
    if len(left) != len(right):
        raise ArgumentError(f"tensordot() got dims {left} of x and {right} of y; expected as many of each")
    for d, e in zip(left, right, strict=True):
        if x.shape[d] != y.shape[e] and 1 not in (x.shape[d], y.shape[e]):
            raise ShapeError(
                f"tensordot() got shapes {x.shape} and {y.shape}, whose sizes differ in dim {d} of x and dim {e} of y"
            )
    ours = [_letter(k) for k in range(x.ndim)]
    theirs = [_letter(x.ndim + k) for k in range(y.ndim)]
    for d, e in zip(left, right, strict=True):
        theirs[e] = ours[d]
    out = [c for k, c in enumerate(ours) if k not in left] + [c for k, c in enumerate(theirs) if k not in right]
    return einsum(f"{''.join(ours)},{''.join(theirs)}->{''.join(out)}", x, y)


@lru_cache(maxsize=1024)
def contraction_path(equation: str, shapes: tuple[Shape, ...]) -> ContractionPath:
    """Return the order in which an equation is computed for shapes."""
    asked = f"einsum() got {equation!r}"
    before, arrow, after = equation.replace(" ", "").partition("->")
    terms = before.split(",")
    if len(terms) != len(shapes):
        raise ArgumentError(f"{asked}, which names {len(terms)} operands, with {len(shapes)}")
    for term in (*terms, after):
        letters = term.replace("...", "", 1)
        if letters and not (letters.isascii() and letters.isalpha()):
            raise ArgumentError(f"{asked}; an operand is written as letters, with at most one ellipsis, as in ...ij")
    unnamed = [len(shape) - len(term.replace("...", "")) for term, shape in zip(terms, shapes, strict=True)]
    for term, shape, count in zip(terms, shapes, unnamed, strict=True):
        if count < 0 or (count and "..." not in term):
            raise ShapeError(
                f"{asked} of an operand of shape {shape}, for {term!r} names {len(shape) - count} dimensions"
            )
    depth = max(unnamed)
    free = "".join(_letter(1000 + k) for k in range(depth))
    inputs = [term.replace("...", free[depth - count :]) for term, count in zip(terms, unnamed, strict=True)]
    sizes = _sizes(asked, inputs, shapes)
    if arrow:
        output = after.replace("...", free)
    else:
        whole = before.replace("...", "")
        output = free + "".join(sorted(c for c in set(whole) - {","} if whole.count(c) == 1))
    if len(set(output)) < len(output) or set(output) - set(sizes):
        raise ArgumentError(f"{asked}; each letter of the result must occur once, and in an operand")
    return ContractionPath(tuple(inputs), output, _steps(inputs, output, sizes))


def _sizes(asked: str, inputs: list[str], shapes: tuple[Shape, ...]) -> dict[str, int]:
    """Return the size of each letter, for which 1 broadcasts."""
    sizes: dict[str, int] = {}
    for letters, shape in zip(inputs, shapes, strict=True):
        own = dict(zip(letters, shape, strict=True))  # the last size, where a letter occurs twice, must be the first
        for letter, size in zip(letters, shape, strict=True):
            known = sizes.setdefault(letter, size) if size == own[letter] else own[letter]
            if size != known and (size != own[letter] or 1 not in (size, known)):
                given = ", ".join(map(str, shapes))
                raise ShapeError(f"{asked} of shapes {given}; {_named(letter)} is {known} and {size}")
            sizes[letter] = size if known == 1 else known
    return sizes


def _letter(k: int) -> str:
    """Return the k-th letter of an alphabet without end: ours, then symbols that no equation has."""
    return chr(97 + k) if k < 26 else chr(65 + k - 26) if k < 52 else chr(0x4E00 + k)


def _named(letter: str) -> str:
    return repr(letter) if letter.isascii() else "a dimension of the ellipsis"


def _steps(inputs: list[str], output: str, sizes: dict[str, int]) -> tuple[Contraction, ...]:
    """Return the contractions of pairs: both operands are removed from a list, and the result is appended to it."""
    members = list(inputs)
    path = _path(inputs, output, sizes) if len(members) > 2 else [(0, 1)] * (len(members) - 1)
    steps = []
    for positions in path:
        taken = sorted(positions)
        while len(taken) > 1:
            right, left = taken.pop(), taken.pop()
            b, a = members.pop(right), members.pop(left)
            kept = set(output).union(*members)
            out = "".join(dict.fromkeys(c for c in a + b if c in kept))
            if not members:
                out = output
            members.append(out)
            steps.append(Contraction(left, right, out))
            taken.append(len(members) - 1)
    return tuple(steps)


def _path(inputs: list[str], output: str, sizes: dict[str, int]) -> list[tuple[int, ...]]:
    """Return the order of contractions by opt_einsum, or by NumPy's search: of all orders, of few operands."""
    ours = {c: _letter(k) for k, c in enumerate(sizes)}
    text = ",".join("".join(ours[c] for c in term) for term in inputs)
    text = f"{text}->{''.join(ours[c] for c in output)}"
    shapes = [tuple([sizes[c] for c in term]) for term in inputs]
    if find_spec("opt_einsum"):
        path: Any = import_module("opt_einsum").contract_path(text, *shapes, shapes=True)[0]
        return [tuple(positions) for positions in path]
    import numpy as np

    if len(sizes) > 52:
        return [(0, len(inputs) - 1 - k) if k else (0, 1) for k in range(len(inputs) - 1)]
    search = "optimal" if len(inputs) < 6 else "greedy"
    return list(np.einsum_path(text, *[np.broadcast_to(0.0, shape) for shape in shapes], optimize=search)[0][1:])


def _contract(device: Any, path: ContractionPath, operands: list[Any]) -> Any:
    members = [_diagonals(device, letters, x) for letters, x in zip(path.inputs, operands, strict=True)]
    for step in path.steps:
        right, left = members.pop(step.right), members.pop(step.left)
        members.append((step.out, _contracted(device, *left, *right, step.out)))
    ((letters, x),) = members
    return _arranged(device, letters, x, path.output)


def _diagonals(device: Any, letters: str, x: Any) -> tuple[str, Any]:
    """Take the diagonal for each letter that occurs twice."""
    while len(set(letters)) < len(letters):
        twice = next(c for c in letters if letters.count(c) > 1)
        first = letters.index(twice)
        second = letters.index(twice, first + 1)
        rest = [d for d in range(len(letters)) if d not in (first, second)]
        shape, n = x.shape, x.shape[first]
        lead = tuple([shape[d] for d in rest])
        flat = device.reshape(device.permute(x, (*rest, first, second)), (*lead, n * n))
        x = device.slice(flat, (*[slice(0, size, 1) for size in lead], slice(0, n * n, n + 1)))
        letters = "".join(letters[d] for d in rest) + twice
    return letters, x


def _arranged(device: Any, letters: str, x: Any, output: str) -> Any:
    """Sum over the letters that the output lacks, and put the others in its order."""
    if letters == output:
        return x
    gone = tuple([d for d, c in enumerate(letters) if c not in output])
    if gone:
        x = device.sum(x, gone, False)
        letters = "".join(c for c in letters if c in output)
    return x if letters == output else device.permute(x, tuple([letters.index(c) for c in output]))


def _contracted(device: Any, a: str, x: Any, b: str, y: Any, out: str) -> Any:
    """Contract two operands by one matrix product: common letters of the result are its batch."""
    x_sizes, y_sizes = dict(zip(a, x.shape, strict=True)), dict(zip(b, y.shape, strict=True))
    of_x, of_y = _needed(x_sizes, y_sizes, out), _needed(y_sizes, x_sizes, out)
    common = [c for c in of_x if c in of_y]
    batch, inner = [c for c in common if c in out], [c for c in common if c not in out]
    rows, columns = [c for c in of_x if c not in common], [c for c in of_y if c not in common]
    x = _arranged(device, a, x, "".join(batch + rows + inner))
    y = _arranged(device, b, y, "".join(batch + inner + columns))
    sizes = {**x_sizes, **{c: y_sizes[c] for c in of_y}}
    lead, high, wide = (tuple([sizes[c] for c in letters]) for letters in (batch, rows, columns))
    if not inner:
        left, right = (*lead, *high, *(1,) * len(wide)), (*lead, *(1,) * len(high), *wide)
        product = device.mul(device.reshape(x, left), device.reshape(y, right))
    else:
        m, k, n = prod(high), prod([sizes[c] for c in inner]), prod(wide)
        product = device.matmul(device.reshape(x, (*lead, m, k)), device.reshape(y, (*lead, k, n)))
        product = device.reshape(product, (*lead, *high, *wide))
    return _arranged(device, "".join(batch + rows + columns), product, out)


def _needed(sizes: dict[str, int], others: dict[str, int], out: str) -> list[str]:
    """Return the letters of an operand that its product with another needs; it is summed over the rest first. A letter
    is not needed if its size is 1 and broadcasts, or if the result lacks it and the other operand has it with size 1 or
    not at all."""
    return [c for c, n in sizes.items() if others.get(c) == n or (others.get(c, 1) == 1 and c in out)]


@explained
def chain_matmul(*matrices: X) -> X:
    """Return the product of matrices, in the order of the fewest multiplications; `linalg.multi_dot` takes vectors too.

    Raises:
        ArgumentError: there are none.
        ShapeError: one is not a matrix, or they do not multiply.

    >>> x = Tensor[NumPy].ones((2, 3))
    >>> chain_matmul(x, x.T, x).shape
    (2, 3)
    """
    if not matrices:
        raise ArgumentError("chain_matmul() got no matrices; pass one or more")
    return product_of("chain_matmul", matrices, vectors=False)  # type: ignore[no-any-return]  # of that class


def product_of(operation: str, tensors: Sequence[Any], *, vectors: bool) -> Any:
    """Return the product of matrices; with ``vectors``, the first and the last may be vectors."""
    members = alike(operation, *tensors)
    last = len(members) - 1
    shapes = [x.shape for x in members]
    for k, shape in enumerate(shapes):
        if len(shape) != 2 and not (vectors and len(shape) == 1 and k in (0, last)):
            kinds = "matrices, and vectors as the first and the last" if vectors else "matrices"
            raise ShapeError(f"{operation}() takes {kinds}, got shapes {', '.join(map(str, shapes))}")
    for left, right in pairwise(shapes):
        if left[-1] != right[0]:
            raise ShapeError(f"{operation}() got shapes {left} and {right} in a row, which do not multiply")
    sizes = [1 if len(shapes[0]) == 1 else shapes[0][0], *[shape[0] for shape in shapes[1:]]]
    sizes.append(1 if len(shapes[-1]) == 1 else shapes[-1][1])
    if len(shapes[0]) == 2:
        sizes[1] = shapes[0][1]
    splits = _splits(sizes)

    def product(first: int, end: int) -> Any:
        if end - first == 1:
            return members[first]
        middle = splits[first, end]
        return product(first, middle) @ product(middle, end)

    return product(0, len(members))


def _splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return where the product of the factors from ``first`` to ``end`` is best divided; factor k is (sizes[k],
    sizes[k + 1])."""
    count = len(sizes) - 1
    costs: dict[tuple[int, int], int] = {(k, k + 1): 0 for k in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for first in range(count - length + 1):
            end = first + length
            cost, middle = min(
                (costs[first, m] + costs[m, end] + sizes[first] * sizes[m] * sizes[end], m)
                for m in range(first + 1, end)
            )
            costs[first, end], splits[first, end] = cost, middle
    return splits
