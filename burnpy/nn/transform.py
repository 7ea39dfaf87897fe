"""Methods of modules that return a new module: train and eval, freezing, moving, mapping, replacing parts by path.

All preserve which parameters are shared, and all but `with_new_ids` and `replace` preserve ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import ArgumentError, DeviceError, ModuleError, ShapeError, a
from burnpy.backend.primitives import INEXACT
from burnpy.nn.module_base import ModuleBase, check_variables, read_only_fields
from burnpy.nn.module_tree import (
    FrozenDict,
    Rebuild,
    TreeNode,
    joined,
    new_module,
    part_names,
    regrouped,
    variables_in,
    walk,
)
from burnpy.nn.param import Param, Variable, in_dtype, level_above, new_id
from burnpy.tensor.call_errors import next_value
from burnpy.tensor.levels import constant, open_levels, transfer
from burnpy.tensor.tensor_base import TensorBase, describe, new_tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.nn.argument_checks import QuantizedDType
    from burnpy.tensor.host_data import DTypeLike
    from burnpy.tensor.tensor import Tensor

Tree = TypeVar("Tree", bound=TreeNode)

Where: TypeAlias = str | Sequence[str] | Callable[[str, Any], bool]
"""A selection of parameters: a path, of a parameter or of a module with all its parameters (``"encoder"``); a pattern
(``"*.bias"``); several of these; or a predicate that takes a path and a `Param`."""


def selected(module: TreeNode, where: Where | None, operation: str) -> dict[str, Variable[Any]]:
    """Return the selected parameters and buffers of ``module`` by their first path; all of them for None. A shared
    parameter is selected if any of its paths is. ``operation`` is the caller's name, for messages."""
    if where is None:
        return variables_in(module)
    first = {id(item): path for path, item in variables_in(module).items()}
    paths = [(path, item) for path, item in walk(module) if isinstance(item, Variable)]
    matches: dict[str, Variable[Any]] = {}
    if callable(where):
        matches = {first[id(item)]: item for path, item in paths if where(path, item)}
    else:
        for pattern in _patterns(where, operation):
            matching = [(path, item) for path, item in paths if meets(path, pattern)]
            if not matching:
                raise ArgumentError(
                    f"{operation} got {pattern!r}, which is not a path in {type(module).__name__} and matches none"
                    f"{suggestion(pattern, [path for path, _ in paths])}"
                )
            matches |= {first[id(item)]: item for _, item in matching}
    return {path: matches[path] for path in first.values() if path in matches}


def replaced(module: Tree, values: Mapping[str, Any]) -> Tree:
    """Return the module with ``values`` at their paths, put there in order and validated as in a new module."""
    result = module
    for path, value in values.items():
        try:
            result = _with(result, path.split("."), value)
        except _NoSuchPathError:
            paths = [known for known, _ in walk(module) if known]
            raise ArgumentError(
                f"replace() got the path {path!r}, which {type(module).__name__} does not have"
                + suggestion(path, [*(name for name in vars(module) if name not in paths), *paths])
            ) from None
    check_variables(result)
    return result


def meets(path: str, pattern: str) -> bool:
    """Return whether a path equals the pattern, lies below it, or matches it as a glob.

    >>> meets("encoder.0.weight", "encoder"), meets("encoder.0.weight", "*.weight"), meets("encoders.0", "encoder")
    (True, True, False)
    """
    return path == pattern or path.startswith(pattern + ".") or fnmatchcase(path, pattern)


def suggestion(unknown: str, paths: Sequence[str]) -> str:
    """Return the end of an error message about an unknown path: close matches, otherwise the existing paths."""
    known = dict.fromkeys([*paths, *(path[:k] for path in paths for k, c in enumerate(path) if c == ".")])
    close = get_close_matches(unknown, known, n=3)
    shown = close or list(paths[:8])
    more = "" if close or len(paths) <= 8 else ", …"
    return f"; {'close to it is' if close else 'there is'} {', '.join(shown)}{more}" if shown else "; it holds nothing"


def _patterns(where: Any, operation: str) -> Sequence[str]:
    """Return one or several paths and patterns as a list."""
    patterns = (where,) if isinstance(where, str) else where
    if not isinstance(patterns, (Sequence, set, frozenset)) or not all(isinstance(part, str) for part in patterns):
        raise ArgumentError(
            f"{operation} takes a path, a pattern, several of these, or a function of path and parameter, got "
            f"{a(type(where).__name__)}"
        )
    return [*patterns]


class _NoSuchPathError(Exception):
    pass


def _with(tree: Any, names: list[str], value: Any) -> Any:
    """Return a copy of a subtree with ``value`` at the path of ``names``."""
    if not names:
        if isinstance(tree, Variable) and not isinstance(value, (Variable, TreeNode, TensorBase, type(None))):
            kind = type(tree).__name__
            raise ModuleError(f"replace() got {describe(value)} for {a(kind)}; expected {a(kind)}, a module or None")
        return value
    name, rest = names[0], names[1:]
    if isinstance(tree, TreeNode):
        if name not in vars(tree):
            raise _NoSuchPathError
        fields = {**vars(tree), name: _with(vars(tree)[name], rest, value)}
        out = new_module(type(tree), fields, (), tree._override)
        object.__setattr__(out, "_parts", read_only_fields(out))
        return out
    if isinstance(tree, dict) and name in tree:
        return FrozenDict({**tree, name: _with(tree[name], rest, value)})
    if isinstance(tree, tuple) and name in part_names(tree):
        parts = [_with(p, rest, value) if k == name else p for k, p in zip(part_names(tree), tree, strict=True)]
        return regrouped(tuple(parts), tree)
    raise _NoSuchPathError


T = TypeVar("T", bound="Transforms[Any]")


class Transforms(ModuleBase[B]):
    """The methods of a module that return a modified copy. None changes the module itself."""

    __slots__ = ()

    @next_value
    def train(self, mode: bool | None = True) -> Self:
        """Return the module in training mode on any device: dropout is active, and batch norm uses batch statistics.

        Args:
            mode: True for training mode, False for eval mode, None to follow the device, as new modules do.

        Raises:
            ArgumentError: ``mode`` is neither a bool nor None.

        >>> from burnpy.nn import Linear
        >>> model = Linear(2, 3, device=NumPy)
        >>> model.is_training, model.train().is_training, model.train().train(None).is_training
        (False, True, False)
        """
        return self._rebuilt(override=lambda module: mode)

    @next_value
    def eval(self) -> Self:
        """Return the module in eval mode on any device.

        Its parameters still have gradients; use `valid` for a module that records no graph.
        """
        return self.train(False)

    @next_value
    def no_grad(self, where: Where | None = None) -> Self:
        """Return the module with parameters frozen: they get no gradient, and training leaves them unchanged.

        Selected buffers are frozen too, so that running statistics are not updated.

        Args:
            where: the selection: None for all, a path (``"encoder"``), a pattern (``"*.bias"``), several of these, or a
                predicate of path and parameter.

        Raises:
            ArgumentError: a path or pattern matches nothing.

        >>> from burnpy.nn import Linear
        >>> Linear(2, 3, device=NumPy).no_grad("bias").bias
        Param(shape=(3,), dtype=float32, device=NumPy, frozen)
        """
        return self._frozen(where, True, "no_grad()")

    @next_value
    def require_grad(self, where: Where | None = None) -> Self:
        """Return the module with parameters unfrozen: the reverse of `no_grad`, for all or those selected by ``where``.

        Raises:
            ArgumentError: a path or pattern matches nothing.
        """
        return self._frozen(where, False, "require_grad()")

    def _frozen(self, where: Where | None, frozen: bool, operation: str) -> Self:
        chosen = {
            id(variable) for variable in selected(self, where, operation).values() if variable.frozen is not frozen
        }
        return self._rebuilt(
            lambda path, variable: variable._with_frozen(frozen) if id(variable) in chosen else variable
        )

    def map(self, f: Callable[[Tensor[B]], Tensor[B]], where: Where | None = None) -> Self:
        """Return the module with ``f`` applied to each parameter's value; shared parameters are mapped once.

        Args:
            f: a function from an untracked tensor to one of the same shape and device.
            where: which parameters to map: None for all; see `no_grad`.

        Raises:
            ShapeError: ``f`` returned another shape.
            DeviceError: ``f`` returned a tensor on another device.
            ArgumentError: ``f`` did not return a tensor, or ``where`` matches nothing.
            NotTrackedError: ``f`` returned a result of tracked tensors, outside of `burnpy.func`.

        >>> from burnpy.nn import Linear
        >>> Linear(2, 2, device=NumPy).map(lambda w: w.ones_like()).weight.value.tolist()
        [[1.0, 1.0], [1.0, 1.0]]
        """
        selected_ids = {id(variable) for variable in selected(self, where, "map()").values()}

        def mapped(path: str, variable: Variable[Any]) -> Variable[Any]:
            if not isinstance(variable, Param) or id(variable) not in selected_ids:
                return variable
            result: object = f(constant(variable.value))
            if not isinstance(result, TensorBase) or result.kind != variable.kind:
                wanted = a(type(variable.value).__name__)
                raise ArgumentError(f"map() expected {wanted} from its function for {path}, got {result!r:.80}")
            if result.device is not variable.device:
                raise DeviceError(f"map() got a tensor on {result.device} for {path}, which is on {variable.device}")
            if result.shape != variable.shape:
                raise ShapeError(
                    f"map() got shape {result.shape} for {path}, which has shape {variable.shape}; to change the shape "
                    f"use model.replace({{{path!r}: Param(tensor)}})"
                )
            return variable._with_value(variable._cut(result, "map()", path))

        return self._rebuilt(mapped)

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the module with its parameters and float buffers in another dtype, as new leaves.

        Complex ones get the complex dtype whose parts have the dtype. A complex dtype makes all of them complex.

        Raises:
            DTypeError: ``dtype`` is neither a float nor a complex dtype.
        """
        target = dtype_of(dtype)
        target = target if target.kind == "c" else dtype_of(dtype, "float")
        return self._rebuilt(lambda path, variable: in_dtype(variable, target))

    def quantized(
        self, dtype: QuantizedDType = "int8", where: Where | None = None, *, group_size: int | None = None
    ) -> Self:
        """Return the model with `QuantizedLinear` layers for its `Linear` ones, and for the projections of attention.

        Of a `WeightNorm` or `SpectralNorm` of a `Linear` it is the weight that the layer computes with.

        Args:
            dtype: "int8" or "int4".
            where: the selection of layers by their parameters: None for all; see `no_grad`. The logits of a language
                model stay exact with ``where=lambda path, _: not path.startswith("head")``.
            group_size: the number of weights of an output that share a scale; by default all in 8 bits, and 32 in 4.

        Raises:
            ArgumentError: a path or pattern matches nothing; there is no linear layer; the group size does not divide
                the inputs of a layer; the model itself is a linear layer.

        >>> from burnpy.nn import Linear, Relu, Sequential
        >>> model = Sequential(Linear(64, 32, device=NumPy), Relu(), Linear(32, 10, device=NumPy))
        >>> model.quantized("int8", where="0")
        Sequential()  362 parameters
          0  QuantizedLinear(64, 32, weight_dtype='int8')  32 parameters
            weight  (32, 64) buffer
            scale  (32, 1) buffer
            bias  (32,)
          1  Relu()
          2  Linear(32, 10)  330 parameters
            weight  (32, 10)
            bias  (10,)
        """
        whole, chosen = divided(self, where, "quantized()")

        def converted(path: str, module: Any) -> Any:
            if chosen.isdisjoint(paths_within(path, module)):
                return None
            try:
                layer = module._quantized(dtype, group_size)
            except ArgumentError as error:
                raise ArgumentError(f"quantized() cannot convert {path or a(type(self).__name__)}: {error}") from None
            if layer is not None and not path:
                name = a(type(self).__name__)
                raise ArgumentError(f"quantized() replaces layers of a model, got {name}; write QuantizedLinear(layer)")
            return layer

        model: Self = Rebuild(module=converted)(whole)
        if model is whole:
            raise ArgumentError(f"quantized() found no linear layer in {type(self).__name__} among those selected")
        return model

    def _quantized(self, dtype: QuantizedDType, group_size: int | None) -> Any:
        """Return the quantized form of a layer that has one; None for any other module, whose parts are visited."""
        return None

    def _in_parts(self) -> Any:
        """Return the form of a layer in which each of its matrices is a linear layer; None if it has no other form."""
        return None

    def with_new_ids(self) -> Self:
        """Return the module with new ids, so that it can be used beside the original in one model."""
        return self._rebuilt(lambda path, variable: variable._with_id(new_id()))

    def replace(self, fields: Mapping[str, Any] | None = None, /, **named: Any) -> Self:
        """Return the module with parameters, buffers, submodules or plain values replaced by path.

        A shared part is replaced only at the paths that are named.

        Args:
            fields: new values by path, as in ``{"encoder.layers.0": layer}``.
            named: new values of fields of this module.

        Raises:
            ArgumentError: a path does not exist.
            ModuleError, DeviceError: the result would not be a valid module: see `Module`.

        >>> from burnpy.nn import Linear
        >>> Linear(2, 3, device=NumPy).replace(bias=None)
        Linear(2, 3, bias=False)  6 parameters
          weight  (2, 3)
        """
        return replaced(self, {**(fields or {}), **named})

    def with_values(self, values: Mapping[str, TensorBase[Any]]) -> Self:
        """Return the module with new values of parameters and buffers, as new leaves.

        In a function of `burnpy.func` the derivative passes through the values, also in `map`, `astype` and
        `with_state`; a module from outside moves to the level of the values.

        Args:
            values: new values by id; on the module's device, or on one beneath.

        Raises:
            ModuleError: an id is not the module's.
            ShapeError: a value has another shape or dtype.
            NotTrackedError: a parameter's value was computed from tracked tensors, outside of `burnpy.func`.
        """
        module = self
        if open_levels.get():
            module = self._moved(level_above(self.device, values.values()), renewed=False)
        return module._with_variables(module._renewed(values))

    def _renewed(self, values: Mapping[str, TensorBase[Any]]) -> dict[str, Variable[Any]]:
        """Return variables with new values, by id, for `_with_variables`; raise the errors of `with_values`."""
        device: Any = self.device
        inner = _plain_inner(device)
        renewed: dict[str, Variable[Any]] = {}
        for path, variable in self._variables().items():
            value: Any = values.get(variable._id)
            if value is None:
                continue
            new, old = value._primitive, variable._value._primitive
            if new.shape != old.shape or new.dtype != old.dtype or value.kind != variable.kind:
                raise ShapeError(
                    f"with_values() got {a(type(value).__name__)} of shape {value.shape} and dtype {value.dtype} "
                    f"for {path}, which is of shape {variable.shape} and dtype {variable.dtype}"
                )
            if value._device is inner:
                lifted = device.lift(new) if variable.kind in INEXACT else new
                renewed[variable._id] = variable._with_primitive(device, lifted)
            else:
                value = variable._cut(value, "with_values()", path) if variable.kind in INEXACT else value
                renewed[variable._id] = variable._with_value(transfer(value, device))
        unknown = [key for key in values if key not in renewed]
        if unknown:
            raise ModuleError(
                f"with_values() got the id {unknown[0]}, which {type(self).__name__} does not hold"
                + (f", nor {len(unknown) - 1} more" if unknown[1:] else "")
                + "; for values by path write with_state(values)"
            )
        return renewed

    def _with_variables(self, renewed: Mapping[str, Variable[Any]]) -> Self:
        """Return the module with other variables of the same ids."""
        return self._rebuilt(lambda path, variable: renewed.get(variable._id, variable))

    def _rebuilt(
        self,
        variable: Callable[[str, Variable[Any]], Variable[Any]] | None = None,
        *,
        override: Callable[[ModuleBase[Any]], bool | None] | None = None,
    ) -> Self:
        rebuild = Rebuild(variable, override=override)
        rebuilt: Self = rebuild(self)
        cached = self._cached_variables
        if cached is not None and rebuilt is not self:  # the paths are the same, and need not be found again
            variables = map(rebuild.memo.__getitem__, map(id, cached.values()))
            object.__setattr__(rebuilt, "_cached_variables", dict(zip(cached, variables, strict=True)))
        return rebuilt

    def _on_inner(self, device: Any) -> Any:
        """Return the module on the inner device of ``device``, its own, with which it shares memory."""
        inner = _plain_inner(device)
        if inner is None:
            return self._moved(device.inner, renewed=False)

        def lowered(path: str, variable: Variable[Any]) -> Variable[Any]:
            value = variable._value
            primitive = device.lower(value._primitive) if variable.kind in INEXACT else value._primitive
            return variable._unchecked(new_tensor(type(value), inner, primitive))

        return self._rebuilt(lowered)

    def _moved(self, device: Any, *, renewed: bool) -> Any:
        target = device_of(device)
        return self._rebuilt(lambda _, x: x if x.device is target and not renewed else x._on(target))


_PROJECTION = re.compile(r"(^|\.)[qkv]_proj\.\w+$")
"""The end of the path of a variable in a part of attention."""


def divided(model: T, where: Where | None, operation: str) -> tuple[T, set[str]]:
    """Return the model with linear layers for the parts of attention that a selection has, and the selected paths."""
    every = Rebuild(module=lambda path, module: module._in_parts())(model)
    chosen = {*selected(every, where, operation)}
    parts = {path.rpartition(".")[0].rpartition(".")[0] for path in chosen if _PROJECTION.search(path)}
    only = Rebuild(module=lambda path, module: module._in_parts() if path in parts else None)
    return only(model), chosen


def paths_within(path: str, module: Any) -> set[str]:
    """Return the paths of the variables of a module at a path."""
    return {joined(path, name) for name in module._variables()}


def _plain_inner(device: Any) -> Any:
    """Return the inner device of a device that differentiates, if nothing is recorded there; None otherwise."""
    return device.inner if device.differentiates and not device.inner.differentiates else None
