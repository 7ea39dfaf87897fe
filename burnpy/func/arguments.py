"""Which arguments of a function are differentiated, and what functions and their callers are told of mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, NoReturn, TypeAlias

from burnpy.autodiff.return_errors import probable_cause
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.func.pytree import LEAF, MismatchError, Structure, describe_tree, flatten, holds_none
from burnpy.tensor.base import TensorBase
from burnpy.tensor.tensor import Tensor

Argnums: TypeAlias = "int | tuple[int, ...]"
"""Which arguments are differentiated: the position of one, or of several."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The arguments of a call that are differentiated, as one tree: of one argument, or a tuple of several."""

    args: tuple[Any, ...]
    positions: tuple[int, ...]
    single: bool
    leaves: list[Tensor[Any]]
    structure: Structure

    def replaced(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments, with other leaves in those that are differentiated."""
        tree = self.structure.unflatten(leaves)
        args = list(self.args)
        for position, argument in zip(self.positions, [tree] if self.single else tree, strict=True):
            args[position] = argument
        return args


def checked_function(api: str, f: Any) -> None:
    """Refuse what cannot be called, and say so before it is.

    Raises:
        KindError: ``f`` is no function.
    """
    if not callable(f):
        other = "; of tensors, burnpy.autodiff.grad(outputs, inputs) takes them" if isinstance(f, TensorBase) else ""
        raise KindError(f"{api}() takes a function to differentiate, and was given {describe_tree(f)}{other}")


def select_arguments(api: str, args: tuple[Any, ...], argnums: Argnums) -> Chosen:
    """The arguments that ``argnums`` names, every leaf of which is a float tensor.

    Raises:
        ArgumentError: there is no such argument, one is named twice, or none.
        KindError: a leaf is no float tensor.
    """
    single = not isinstance(argnums, (tuple, list))
    asked: Any = (argnums,) if single else argnums
    positions = []
    for number in asked:
        try:
            position = index(number)
        except TypeError:
            raise ArgumentError(f"{api}() was given argnums={argnums!r}; it is an int or a tuple of ints") from None
        if not -len(args) <= position < len(args):
            raise ArgumentError(
                f"{api}() was asked to differentiate by argument {position} (argnums={argnums!r}) of a function that "
                f"was called with {len(args)} by position; they count from 0, without those given by keyword"
            )
        positions.append(position % len(args))
    if not positions and not args:
        raise ArgumentError(f"{api}() was given no argument to differentiate by; give the function at least one tensor")
    if not positions or len(set(positions)) < len(positions):
        raise ArgumentError(f"{api}() was given argnums={argnums!r}; name each argument once, and at least one")
    tree = args[positions[0]] if single else tuple([args[p] for p in positions])
    leaves, structure = flatten(tree)
    for leaf in leaves:
        _need_float(api, leaf)
    return Chosen(args, tuple(positions), single, leaves, structure)


def _need_float(api: str, leaf: Any) -> None:
    if isinstance(leaf, Tensor):
        return
    by_number = api in ("grad", "value_and_grad", "jacobian", "jacrev", "jacfwd", "hessian")
    where = " of argnums" if by_number else " and let the function close over it"
    if isinstance(leaf, TensorBase):
        raise KindError(
            f"{api}() was asked to differentiate by an argument that holds {type(leaf).__name__}{leaf.shape} of dtype "
            f"{leaf.dtype}; only float tensors have derivatives: convert it with .float(), or leave it out{where}"
        )
    raise KindError(
        f"{api}() was asked to differentiate by an argument that holds {leaf!r}; only float tensors have derivatives: "
        f"make one with Tensor.from_data(...), or leave it out{where}"
    )


def outputs_of(api: str, returned: Any, has_aux: bool) -> tuple[Any, Any]:
    """What a function returned, taken apart into the output and, with ``has_aux``, what it returns beside.

    Raises:
        ArgumentError: ``has_aux`` was asked for, and it returned no pair.
    """
    if not has_aux:
        return returned, None
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise ArgumentError(
            f"{api}(..., has_aux=True) takes a function that returns a pair (output, aux), and it returned "
            f"{describe_tree(returned)}{probable_cause(returned)}"
        )
    return returned


def flat_output(api: str, output: Any, given: Any) -> tuple[list[Tensor[Any]], Structure]:
    """The leaves of a function's output, float tensors all, and at least one.

    A None among them is refused, as a function without a return statement gives it, unless the tree of arguments
    ``given`` has one, too: gradients by parameters some of which are None are a tree with None in the same places.

    Raises:
        KindError: it holds something else.
    """
    leaves, structure = flatten(output)
    missing = not leaves or (holds_none(structure) and not holds_none(flatten(given)[1]))
    if missing or not all(isinstance(leaf, Tensor) for leaf in leaves):
        _refuse_output(api, "float tensors", output)
    return leaves, structure


def single_output(api: str, output: Any, given: Any) -> tuple[list[Tensor[Any]], Structure]:
    """A function's output, of which there is a gradient: a float tensor of one element.

    Raises:
        KindError: it is no float tensor.
        ShapeError: it has several elements, or none.
    """
    if not isinstance(output, Tensor):
        _refuse_output(api, "a float tensor of one element", output)
    if output.numel() != 1:
        raise ShapeError(
            f"{api}() takes a function that returns one element, and it returned a tensor of shape {output.shape}; "
            "reduce it, as with .sum(), or use vjp() or jacobian()"
        )
    return [output], LEAF


_WITH_AUX = ("grad", "value_and_grad", "vjp", "jvp", "jacobian", "jacrev", "jacfwd")


def _refuse_output(api: str, wanted: str, output: Any) -> NoReturn:
    """Say what a function returned, and how that may have come about."""
    leaves, structure = flatten(output)
    wrong = [leaf for leaf in leaves if not isinstance(leaf, Tensor)]
    if wrong or holds_none(structure):
        cause = probable_cause(wrong[0] if wrong else None)
    else:
        cause = "" if leaves else ", which holds no tensor"
    beside = structure.children and api in _WITH_AUX
    instead = "; to return more beside the output, return a pair and say has_aux=True" if beside else ""
    raise KindError(
        f"{api}() takes a function that returns {wanted}, and it returned {describe_tree(output)}{cause}{instead}"
    )


def matching(api: str, what: str, structure: Structure, tree: Any, like: Any, of: str) -> list[Tensor[Any]]:
    """The leaves of ``tree``, which must be float tensors in the structure, shapes and dtypes of ``like``.

    Args:
        api: who asks.
        what: what the tree is called, such as "tangents".
        structure: of ``like``.
        tree: what was given.
        like: what it must be like.
        of: what that is called.

    Raises:
        ArgumentError: the structures differ.
        KindError: a leaf is no float tensor.
        ShapeError: a shape or a dtype differs.
    """
    try:
        found = structure.leaves_of(tree)
    except MismatchError:
        raise ArgumentError(
            f"{api}() was given {what} of structure {describe_tree(tree)} for {of} of structure {describe_tree(like)}; "
            "they must be nested in the same way"
        ) from None
    for k, (leaf, original) in enumerate(zip(found, structure.leaves_of(like), strict=True)):
        if not isinstance(leaf, Tensor):
            raise KindError(f"{api}() was given {what} {describe_tree(tree)}, of which number {k} is no float tensor")
        if (leaf.shape, leaf.dtype) != (original.shape, original.dtype):
            raise ShapeError(
                f"{api}() was given {what} of which number {k} has shape {leaf.shape} and dtype {leaf.dtype}; it must "
                f"have shape {original.shape} and dtype {original.dtype}, as in {of}"
            )
    return found


def several(api: str, primals: Any, what: str = "primals") -> tuple[tuple[Any, ...], bool]:
    """Arguments given as one tuple, and whether it was a single tensor in place of that."""
    if isinstance(primals, TensorBase):
        return (primals,), True
    if not isinstance(primals, tuple):
        raise ArgumentError(
            f"{api}() takes {what} as the tuple of the function's arguments, or as its only one where that is a "
            f"tensor, and was given {describe_tree(primals)}; write ({what},)"
        )
    return primals, False
