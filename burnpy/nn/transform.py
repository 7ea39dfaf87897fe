"""What makes a module of a module: train and eval, freezing, moving, mapping, replacing. Ids and sharing stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.devices import device_of
from burnpy.backend.dtypes import dtype_of
from burnpy.backend.errors import ArgumentError, DeviceError, ModuleError, ShapeError, a
from burnpy.nn.base import ModuleBase
from burnpy.nn.replace import replaced
from burnpy.nn.select import Where, selected
from burnpy.nn.tree import Rebuild
from burnpy.nn.variable import Param, Variable, new_id
from burnpy.tensor.base import TensorBase
from burnpy.tensor.transfer import transfer

if TYPE_CHECKING:
    from burnpy.nn.buffer_updates import BufferUpdate
    from burnpy.tensor.data import DTypeLike
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


class Transforms(ModuleBase[B]):
    """The methods of a module that return another one. None of them changes anything."""

    __slots__ = ()

    def train(self, mode: bool | None = True) -> Self:
        """The same module, which behaves as in training wherever it is: dropout drops, statistics are of the batch.

        Args:
            mode: False is `eval`; None goes by the device again, as every module does at first.

        Raises:
            ArgumentError: ``mode`` is something else.

        >>> from burnpy.backend import NumPy
        >>> from burnpy.nn import Linear
        >>> model = Linear(2, 3, device=NumPy)
        >>> model.is_training, model.train().is_training, model.train().train(None).is_training
        (False, True, False)
        """
        given: object = mode
        if given is not None and not isinstance(given, bool):
            raise ArgumentError(f"train() was given {given!r:.60}; it is True, False, or None to go by the device")
        return self._rebuilt(override=lambda module: mode)

    def eval(self) -> Self:
        """The same module, which behaves as in use wherever it is. It still learns; `valid` gives one that does not."""
        return self.train(False)

    def no_grad(self, where: Where | None = None) -> Self:
        """The same module with parameters frozen: they get no gradient, and training leaves them as they are.

        Buffers that are meant are frozen too: running statistics stay.

        Args:
            where: which are meant: all for None; a path (``"encoder"``), a pattern (``"*.bias"``), several of these, or
                a function of path and parameter.

        Raises:
            ArgumentError: a path or pattern meets nothing.

        >>> from burnpy.backend import NumPy
        >>> from burnpy.nn import Linear
        >>> Linear(2, 3, device=NumPy).no_grad("bias").bias
        Param(shape=(3,), dtype=float32, device=NumPy, frozen)
        """
        return self._frozen(where, True, "no_grad()")

    def require_grad(self, where: Where | None = None) -> Self:
        """The same module with parameters that learn again: what `no_grad` froze, all or those that are meant.

        Raises:
            ArgumentError: a path or pattern meets nothing.
        """
        return self._frozen(where, False, "require_grad()")

    def _frozen(self, where: Where | None, frozen: bool, operation: str) -> Self:
        meant = {id(held) for held in selected(self, where, operation).values() if held.frozen is not frozen}

        def marked(path: str, held: Variable[Any]) -> Variable[Any]:
            return held.holding(held._value.detach(), frozen) if id(held) in meant else held

        return self._rebuilt(marked)

    def map(self, f: Callable[[Tensor[B]], Tensor[B]], where: Where | None = None) -> Self:
        """The same module with ``f`` of each parameter's value in its place; shared ones are mapped once.

        Args:
            f: takes an untracked tensor and returns one of the same shape and device.
            where: which parameters are meant: all for None; as for `no_grad`.

        Raises:
            ShapeError: ``f`` returned another shape.
            DeviceError: ``f`` returned something on another device.
            ArgumentError: ``f`` returned no tensor, or ``where`` meets nothing.

        >>> from burnpy.backend import NumPy
        >>> from burnpy.nn import Linear
        >>> Linear(2, 2, device=NumPy).map(lambda w: w.ones_like()).weight.value.tolist()
        [[1.0, 1.0], [1.0, 1.0]]
        """
        meant = {id(held) for held in selected(self, where, "map()").values()}

        def mapped(path: str, held: Variable[Any]) -> Variable[Any]:
            if not isinstance(held, Param) or id(held) not in meant:
                return held
            found: object = f(held.value.detach())
            if not isinstance(found, TensorBase) or found.kind != "float":
                raise ArgumentError(f"map() of {path} wants a Tensor from its function, which returned {found!r:.80}")
            if found.device is not held.device:
                raise DeviceError(
                    f"map() of {path}, on {held.device}, was given a tensor on {found.device} in its place"
                )
            if found.shape != held.shape:
                raise ShapeError(
                    f"map() of {path}, of shape {held.shape}, was given shape {found.shape} in its place; for another "
                    f"shape use model.replace({{{path!r}: Param(tensor)}})"
                )
            return held.holding(found.detach())  # type: ignore[attr-defined]  # a float tensor

        return self._rebuilt(mapped)

    def astype(self, dtype: DTypeLike) -> Self:
        """The same module with its parameters and float buffers in another dtype; as new leaves.

        Raises:
            DTypeError: it is no float dtype.
        """
        wanted = dtype_of(dtype, "float")

        def cast(path: str, held: Variable[Any]) -> Variable[Any]:
            return held if held.kind != "float" else held.holding(held._value.detach().to_dtype(wanted))

        return self._rebuilt(cast)

    def with_new_ids(self) -> Self:
        """The same module under ids of its own, for a copy that is to stand beside the original in one model."""
        return self._rebuilt(lambda path, held: held.with_id(new_id()))

    def replace(self, fields: Mapping[str, Any] | None = None, /, **named: Any) -> Self:
        """The same module with other things at some paths: parameters, buffers, modules or plain values.

        Of something shared, only the paths that are named are replaced.

        Args:
            fields: what to put at which path, as in ``{"encoder.layers.0": layer}``.
            named: the same for fields of this module.

        Raises:
            ArgumentError: there is no such path.
            ModuleError, DeviceError: the result would be no module: see `Module`.

        >>> from burnpy.backend import NumPy
        >>> from burnpy.nn import Linear
        >>> Linear(2, 3, device=NumPy).replace(bias=None)
        Linear(2, 3, bias=False)  6 parameters
          weight  (2, 3)
        """
        return replaced(self, {**(fields or {}), **named})

    def with_values(self, values: Mapping[str, TensorBase[Any]]) -> Self:
        """The same module with other values for the parameters and buffers of some ids, as new leaves.

        Args:
            values: by id; on the module's device, or on one beneath.

        Raises:
            ModuleError: an id is not the module's.
            ShapeError: a value has another shape or dtype.
        """
        device: Any = self.device
        paths = {held.id: path for path, held in self._all_held().items()}
        unknown = [key for key in values if key not in paths]
        if unknown:
            raise ModuleError(
                f"with_values() was given the id {unknown[0]}, which {type(self).__name__} does not hold"
                + (f", nor {len(unknown) - 1} more" if unknown[1:] else "")
            )

        def valued(path: str, held: Variable[Any]) -> Variable[Any]:
            value: Any = values.get(held._id)
            if value is None:
                return held
            if value.shape != held.shape or value.dtype != held.dtype or value.kind != held.kind:
                raise ShapeError(
                    f"with_values() was given {a(type(value).__name__)} of shape {value.shape} and dtype {value.dtype} "
                    f"for {path}, which is of shape {held.shape} and dtype {held.dtype}"
                )
            return held.holding(transfer(value.detach() if value.kind == "float" else value, device))

        return self._rebuilt(valued)

    def updated(self, updates: Mapping[str, BufferUpdate[B]]) -> Mapping[str, TensorBase[B]]:
        """What the buffers of this module become after training steps: a layer that records updates of them says how.

        Args:
            updates: for each buffer that `record_update` was called with, by its path in this module.

        Returns:
            New values, untracked, of buffers of this module by path. Unless a layer says otherwise, the mean.
        """
        return {path: update.mean for path, update in updates.items()}

    def _rebuilt(
        self,
        held: Callable[[str, Variable[Any]], Variable[Any]] = lambda path, held: held,
        *,
        override: Callable[[ModuleBase[Any]], bool | None] = lambda module: module._override,
    ) -> Self:
        found: Self = Rebuild(held, override=override)(self)
        return found

    def _moved(self, device: Any, *, renewed: bool) -> Any:
        target = device_of(device)

        def moved(path: str, held: Variable[Any]) -> Variable[Any]:
            if held.device is target and not renewed:
                return held
            return held.holding(transfer(held._value.detach(), target))

        return self._rebuilt(moved)
