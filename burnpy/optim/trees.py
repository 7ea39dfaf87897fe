"""Steps of tensors and trees of them: a tree is updated as a model whose parameters are its leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, KindError, a
from burnpy.nn.module import Module
from burnpy.nn.module_tree import FrozenDict, joined, new_module, part_names, regrouped
from burnpy.nn.param import Param
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.matching import gradient_device
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.transfer import transfer

if TYPE_CHECKING:
    from burnpy.optim.optimizer import Optimizer

CONTAINERS = (dict, list, tuple)


class Leaves(Module[Any]):
    """A model whose parameters are the leaves of a tree, by their paths, which are their ids too."""


def is_tree(value: object) -> bool:
    """Return whether a value is a tensor, or a dict, list or tuple."""
    return isinstance(value, (Tensor, *CONTAINERS))


def tree_step(optimizer: Optimizer, lr: float, tree: Any, grads: Any) -> Any:
    """Return the tree after a step: see `Optimizer.step`.

    Raises:
        KindError: a leaf of the tree is not a float tensor.
        ArgumentError: the gradients are a tree of another structure, or the tree has no leaves.
    """
    name = f"{type(optimizer).__name__}.step()"
    model, restored = in_tree(name, tree)
    return restored(optimizer.step(lr, model, tree_grads(name, model, tree, grads)))


def in_tree(name: str, tree: Any) -> tuple[Any, Callable[..., Any]]:
    """Return a model whose parameters are the leaves of a tree, and the function that makes a tree of such a model.

    With ``tracked=True`` the function gives the leaves of the model; otherwise the tree's own where they are the same.

    Raises:
        KindError: a leaf of the tree is not a float tensor.
        ArgumentError: the tree has no leaves.
    """
    params: dict[str, Param[Any]] = {}

    def held(leaf: Any, path: str) -> Any:
        if not isinstance(leaf, Tensor):
            raise KindError(f"{name} got a tree with {a(type(leaf).__name__)} at {path!r}; its leaves are Tensors")
        param = Param(leaf, id=path)
        # The very tensor, if it is a leaf already, so that a second step from it is noticed.
        params[path] = param._unchecked(leaf) if leaf.is_require_grad() else param
        return params[path]

    outer = {"x": tree} if isinstance(tree, Tensor) else tree
    inside = _mapped(outer, held, frozen=True)
    fields = dict(inside) if isinstance(inside, dict) else dict(zip(part_names(inside), inside, strict=True))
    if not params:
        raise ArgumentError(f"{name} got a tree without tensors")
    model: Any = new_module(Leaves, {str(key): part for key, part in fields.items()}, tuple(map(str, fields)), None)

    def restored(after: Any, tracked: bool = False) -> Any:
        values = after.named_params()

        def updated(leaf: Any, path: str) -> Any:
            new = values[path].value
            return leaf if new is params[path].value and not tracked else new

        result = _mapped(outer, updated)
        return result["x"] if isinstance(tree, Tensor) else result

    return model, restored


def tree_grads(name: str, model: Any, tree: Any, grads: Any) -> Any:
    """Return `Gradients` as they are, and gradients in a tree of the structure of the other by their paths."""
    if isinstance(grads, Gradients):
        return grads
    by_path: dict[str, Any] = {}
    paths: list[str] = []
    device = gradient_device(model)

    def noted(leaf: Any, path: str) -> Any:
        paths.append(path)
        return leaf

    def placed(leaf: Any, path: str) -> Any:
        if not isinstance(leaf, Tensor):
            raise KindError(f"{name} got {a(type(leaf).__name__)} as gradient of {path!r}; expected a Tensor")
        by_path[path] = transfer(leaf.detach(), device)
        return leaf

    if not is_tree(grads):
        raise KindError(
            f"{name} takes the Gradients that backward() returned, or gradients in a tree like the tensors', got "
            f"{a(type(grads).__name__)}"
        )
    _mapped({"x": tree} if isinstance(tree, Tensor) else tree, noted)
    _mapped({"x": grads} if isinstance(grads, Tensor) else grads, placed)
    if sorted(by_path) != sorted(paths):
        raise ArgumentError(
            f"{name} got tensors {sorted(paths)} and gradients {sorted(by_path)}, which must be the same"
        )
    return GradientsParams(device, by_path, paths={path: path for path in paths})


def _mapped(tree: Any, function: Callable[[Any, str], Any], path: str = "", *, frozen: bool = False) -> Any:
    """Return a tree of the results of a function of each leaf and its path; ``frozen`` as a module holds it."""
    if isinstance(tree, dict):
        parts = {key: _mapped(part, function, joined(path, key), frozen=frozen) for key, part in tree.items()}
        return FrozenDict({str(key): part for key, part in parts.items()}) if frozen else type(tree)(parts)
    if isinstance(tree, (list, tuple)):
        names = part_names(tuple(tree) if isinstance(tree, list) else tree)
        children = tuple(
            _mapped(part, function, joined(path, name), frozen=frozen) for name, part in zip(names, tree, strict=True)
        )
        if isinstance(tree, tuple):
            return regrouped(children, tree)
        return children if frozen else list(children)
    return None if tree is None else function(tree, path)
