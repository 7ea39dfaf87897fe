"""`vmap`: a function of one example, computed for a batch of examples at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import chain
from typing import Any, ParamSpec, get_args, overload

from burnpy.backend.errors import ArgumentError
from burnpy.batching.batched import Randomness
from burnpy.func.batches.batch_calls import BatchCall
from burnpy.func.batches.batch_dims import BatchDims, batch_of
from burnpy.func.derivative_levels import base_for
from burnpy.func.pytree import tensors_in
from burnpy.func.user_functions import Derivative, DerivativeByOne, OfOne, OfTwo, checked_function
from burnpy.tensor.call_errors import explained
from burnpy.typevars import T

P = ParamSpec("P")
MYPY = False  # True to mypy, by this name


if not MYPY:  # which would choose these for gradients of functions of models, too, as in vmap(grad(loss))

    @overload
    def vmap(
        f: OfOne,
        in_dims: BatchDims = 0,
        out_dims: BatchDims = 0,
        *,
        randomness: Randomness = "error",
        chunk_size: int | None = None,
    ) -> Derivative: ...  # a function of a tensor and of anything, as a derivative is
    @overload
    def vmap(
        f: OfTwo,
        in_dims: BatchDims = 0,
        out_dims: BatchDims = 0,
        *,
        randomness: Randomness = "error",
        chunk_size: int | None = None,
    ) -> DerivativeByOne: ...


@overload
def vmap(  # type: ignore[overload-overlap]  # for lambdas, whose result mypy then takes as Any
    f: Callable[P, T],
    in_dims: BatchDims = 0,
    out_dims: BatchDims = 0,
    *,
    randomness: Randomness = "error",
    chunk_size: int | None = None,
) -> Callable[P, T]: ...
@overload
def vmap(  # pyright: ignore[reportOverlappingOverload]  # as above
    f: OfTwo,
    in_dims: BatchDims = 0,
    out_dims: BatchDims = 0,
    *,
    randomness: Randomness = "error",
    chunk_size: int | None = None,
) -> DerivativeByOne: ...
@explained
def vmap(
    f: Callable[..., Any],
    in_dims: BatchDims = 0,
    out_dims: BatchDims = 0,
    *,
    randomness: Randomness = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that computes ``f``, a function of one example, for a batch of examples at once.

    Within ``f`` tensors have the shapes of one example. Operations compute for all examples together, so that the call
    takes the time of a few large operations, not of many small ones. It nests with itself and with the derivatives of
    `burnpy.func` in any order: ``vmap(grad(loss), in_dims=(None, 0, 0))(model, x, y)`` are the gradients of each
    example.

    Args:
        f: a function of tensors, or trees of them, of any kinds, that returns tensors or a tree of them.
        in_dims: the dimension of each positional argument that is the batch, which ``f`` does not see; negative ones
            count from the end. None for an argument that all examples share. One for all, or a tuple with one for each
            argument, where a tree has one for all its tensors or a tree of them. Keyword arguments are shared.
        out_dims: where the batch is in the results: a dimension for all, or a tree of them like the result. None for a
            result that is the same for all examples.
        randomness: "different" draws random numbers for each example, "same" draws them once for all; by default
            drawing is an error.
        chunk_size: the number of examples to compute at a time, which bounds the memory; None computes all at once.

    Returns:
        A function of the same arguments. Each result has one more dimension, of the size of the batch.

    Raises:
        ArgumentError: ``in_dims`` or ``out_dims`` do not match the arguments or results, no argument has a batch, an
            option is unknown, or random numbers are drawn with ``randomness="error"``.
        ShapeError: the sizes of the batch differ, or a tensor does not have the dimension.
        BatchedError: ``f`` reads values that differ between examples, as by ``if x > 0`` or ``x.item()``, has results
            whose shape depends on values, or returns such a tensor where ``out_dims`` is None.
        KindError: ``f`` is not callable, an argument or result with a batch is no tensor.

    >>> from burnpy.func import grad, vmap
    >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    >>> vmap(lambda row: row @ row)(x).tolist()
    [5.0, 25.0]
    >>> vmap(grad(lambda row: (row ** 3).sum()))(x).tolist()
    [[3.0, 12.0], [27.0, 48.0]]
    >>> w = Tensor[NumPy].from_data([1.0, 10.0])
    >>> vmap(lambda row, w: row @ w, in_dims=(0, None))(x, w).tolist()
    [21.0, 43.0]
    """
    checked_function("vmap", f)
    if randomness not in get_args(Randomness):
        raise ArgumentError(f'vmap() got randomness={randomness!r:.80}; expected "error", "same" or "different"')
    if chunk_size is not None and (type(chunk_size) is not int or chunk_size < 1):
        raise ArgumentError(f"vmap() got chunk_size={chunk_size!r:.80}; expected a positive int, or None")

    @functools.wraps(f)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        batch = batch_of(args, in_dims)
        base = base_for("vmap", chain(batch.tensors, tensors_in(kwargs) if kwargs else ()))
        call = BatchCall(base, f, kwargs, batch.structure, out_dims, randomness)
        if chunk_size is None or chunk_size >= batch.size:
            return call.result(batch.leaves_on(base), batch.size)
        return call.in_chunks(batch.leaves_on(base), batch.size, chunk_size)

    return mapped
