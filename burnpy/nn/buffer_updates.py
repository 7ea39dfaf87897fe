"""Updates of buffers, such as running statistics: recorded in the forward pass, applied by the optimizer's step.

Running a layer modifies nothing. In training a layer passes its output through `record_update`, and the backward pass
returns the update in ``grads.buffer_updates``, independently of the gradient. An update is a vector: the flat value
followed by a weight of 1. Adding gradients therefore adds updates, and value divided by weight is the mean over
micro-batches, over forks of a model, or over several calls of a layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.graph import carrying
from burnpy.backend.errors import ArgumentError, ModuleError, ShapeError
from burnpy.backend.primitives import DType
from burnpy.nn.module_base import ModuleBase
from burnpy.nn.module_tree import own_variables, walk
from burnpy.nn.param import Variable
from burnpy.nn.transform import Transforms
from burnpy.tensor.call_errors import Explaining, explained
from burnpy.tensor.levels import differs_between_examples, transfer
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.nn.param import Buffer
    from burnpy.tensor.tensor import Tensor

Updated = TypeVar("Updated", bound=Transforms[Any])


class BufferUpdate(Generic[B], metaclass=Explaining):
    """The combined updates of one buffer from one or several training passes."""

    def __init__(self, total: Tensor[B], shape: tuple[int, ...]) -> None:
        self._shape = shape
        self.total = total
        """The sum of the recorded values, flat, followed by their number: one vector on the module's device."""

    @property
    def mean(self) -> Tensor[B]:
        """The mean of the recorded values, of the buffer's shape."""
        count = self.total.shape[0] - 1
        return (self.total[:count] / self.total[count]).reshape(self._shape)

    @property
    def weight(self) -> Tensor[B]:
        """The number of recorded values, 0-d."""
        return self.total[self.total.shape[0] - 1]


class Updatable(Transforms[B]):
    """The method of a module that turns recorded updates into new values of its buffers."""

    __slots__ = ()

    def updated(self, updates: Mapping[str, BufferUpdate[B]]) -> Mapping[str, TensorBase[B]]:
        """Compute new values of this module's buffers after training passes; layers that record updates override it.

        Args:
            updates: the combined updates by the buffer's path in this module, for buffers passed to `record_update`.

        Returns:
            New untracked values of buffers of this module by path; by default the means of the updates.
        """
        return {path: update.mean for path, update in updates.items()}


@explained
def record_update(output: Tensor[B], buffer: Buffer[B], value: Tensor[B]) -> Tensor[B]:
    """Attach an update of a buffer to ``output`` and return the result, which must be used in place of ``output``.

    A backward pass through the returned tensor reports ``value`` in ``grads.buffer_updates``. On a plain backend, under
    ``no_grad``, and for a frozen buffer, ``output`` is returned unchanged.

    Args:
        output: the output of a layer.
        buffer: the buffer to update.
        value: the value of this pass, of the buffer's shape; it is detached. `Module.updated` turns it into the
            buffer's new value.

    Raises:
        ShapeError: ``value`` has another shape than the buffer.
        ArgumentError: it is called under `burnpy.func.vmap`, which would lose the update.

    >>> from burnpy.nn import Buffer
    >>> largest = Buffer(Tensor[Autodiff[NumPy]].zeros(()))
    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 5.0]).require_grad()
    >>> grads = record_update(x * 2.0, largest, x.max()).sum().backward()
    >>> grads.buffer_updates[largest.id].tolist(), grads[x].tolist()
    ([5.0, 1.0], [2.0, 2.0])
    """
    return record_updates(output, (buffer, value))


def record_updates(output: Tensor[B], *updates: tuple[Buffer[B], Tensor[B]]) -> Tensor[B]:
    """Attach updates of several buffers of one dtype as `record_update` does; their vectors are parts of one vector."""
    device: Any = output.device
    live = [(buffer, value) for buffer, value in updates if not buffer.frozen]
    if any(differs_between_examples(value) for _, value in live):
        raise ArgumentError(
            "a layer with running statistics, such as BatchNorm, was called in training mode under vmap(), which would "
            "lose their updates; call it on the whole batch, put the model in model.eval(), or use GroupNorm"
        )
    if not isinstance(device, Autodiff) or not live:
        return output
    inner: Any = device.inner
    parts: list[Any] = []
    for buffer, value in live:
        shape, dtype = buffer.shape, buffer.dtype
        if value.shape != shape:
            raise ShapeError(
                f"record_update() got a value of shape {value.shape} for a buffer of shape {shape}; they must be equal"
            )
        flat = inner.reshape(device.lower(value.detach()._primitive), (math.prod(shape),))
        parts += [flat if flat.dtype == dtype else inner.cast(flat, dtype), _one(inner, dtype)]
    return _carrying(output, [buffer for buffer, _ in live], inner.cat(parts, 0))


def record_moments(
    output: Tensor[B], mean: Buffer[B], var: Buffer[B], batch_mean: Tensor[B], batch_var: Tensor[B], factor: float
) -> Tensor[B]:
    """Attach the updates of running statistics by those of a batch, as `record_updates` does, in one operation.

    Args:
        output: the output of a layer.
        mean: the running mean.
        var: the running variance.
        batch_mean: the mean of the batch, with the elements of the buffer.
        batch_var: its variance, which is multiplied by the factor.
        factor: the factor.
    """
    device: Any = output.device
    plain = isinstance(device, Autodiff) and not (mean.frozen or var.frozen)
    if not plain or mean.dtype != batch_mean.dtype or differs_between_examples(batch_mean):
        flat = batch_mean.detach().reshape(mean.shape), batch_var.detach().reshape(var.shape) * factor
        return record_updates(output, (mean, flat[0]), (var, flat[1]))
    moments = device.lower(batch_mean._primitive), device.lower(batch_var._primitive)
    return _carrying(output, [mean, var], device.inner.batch_totals(*moments, factor))


def _carrying(output: Tensor[B], buffers: Sequence[Buffer[B]], totals: Any) -> Tensor[B]:
    """Return the output with an update for each buffer, which are parts of one vector."""
    device: Any = output.device
    inner, out, start = device.inner, output._primitive, 0
    for buffer in buffers:
        stop = start + math.prod(buffer.shape) + 1
        out = carrying(device, out, buffer.id, inner.slice(totals, (slice(start, stop, 1),)))
        start = stop
    return output._like(out)


@explained
def stepped(
    module: Updated, values: Mapping[str, TensorBase[Any]], updates: Mapping[str, Tensor[Any]] | None = None
) -> Updated:
    """Return the module with new parameter values, and buffers updated by `Module.updated` of their layers.

    Args:
        module: on any device.
        values: new values of parameters and buffers by id; on the module's device or on one beneath.
        updates: ``grads.buffer_updates``, all of buffers of this module.

    Raises:
        ModuleError: an id is not the module's, or `Module.updated` of a layer names a path that is not its buffer.
        ShapeError: a value has another shape or dtype.
    """
    return module.with_values({**values, **(buffer_values(module, updates) if updates else {})})


def buffer_values(module: ModuleBase[Any], updates: Mapping[str, Tensor[Any]]) -> dict[str, TensorBase[Any]]:
    """Compute the new values of a module's buffers from updates, by id."""
    layers: dict[str, ModuleBase[Any]] = {}  # by path, and those of the updates
    updated: dict[int, tuple[str, ModuleBase[Any]]] = {}
    unknown = {*updates}
    for path, item in walk(module):
        if isinstance(item, ModuleBase):
            layers[path] = item
        elif isinstance(item, Variable) and item._id in updates:
            unknown.discard(item._id)
            while path not in layers:
                path = path.rpartition(".")[0]
            updated.setdefault(id(layers[path]), (path, layers[path]))
    if unknown:
        raise ModuleError(
            f"these gradients have updates of {len(unknown)} buffers that {type(module).__name__} does not hold; they "
            "come from another model"
        )
    values: dict[str, TensorBase[Any]] = {}
    for path, layer in updated.values():
        own = own_variables(layer)
        layer_updates = {
            name: BufferUpdate(transfer(updates[variable._id], variable.device), variable.shape)
            for name, variable in own.items()
            if variable._id in updates
        }
        for name, value in layer.updated(layer_updates).items():  # type: ignore[attr-defined]  # a Module or Stateless
            if name not in own:
                raise ModuleError(f"{type(layer).__name__}.updated() names {name!r}, which is no buffer at {path!r}")
            values[own[name].id] = value
    return values


@lru_cache(maxsize=64)
def _one(device: Any, dtype: DType) -> Any:
    """Return the vector of a 1, which is not made anew for each update."""
    return device.full((1,), 1.0, dtype)
