"""Updates of buffers: what a forward pass would change travels with the gradients, and an optimizer's step applies it.

Nothing is changed when a layer runs. In training it passes its result through `record_update`, and the update comes out
of the backward pass in ``grads.buffer_updates``, whatever the gradient is. An update is a vector: the value, flat, and
a weight, 1, at its end. So adding gradients adds updates, and the value over the weight is the mean: of micro-batches,
of the forks of a model, of a layer that ran twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.buffer_updates import carrying
from burnpy.backend.backend import Backend
from burnpy.backend.errors import ModuleError, ShapeError
from burnpy.nn.base import ModuleBase
from burnpy.nn.tree import joined, variables_in
from burnpy.nn.variable import Variable
from burnpy.tensor.base import TensorBase
from burnpy.tensor.transfer import transfer

if TYPE_CHECKING:
    from burnpy.nn.module import Module
    from burnpy.nn.variable import Buffer
    from burnpy.tensor.tensor import Tensor

    M = TypeVar("M", bound=Module[Any])

B = TypeVar("B", bound=Backend)


class BufferUpdate(NamedTuple, Generic[B]):
    """What passes of training say of one buffer."""

    mean: Tensor[B]  #: the mean of what they recorded, of the buffer's shape, on the module's device
    weight: Tensor[B]  #: how many times they did, 0-d


def record_update(output: Tensor[B], buffer: Buffer[B], value: Tensor[B]) -> Tensor[B]:
    """``output``, with which an update of a buffer travels: use the tensor returned.

    A backward pass that comes to it has ``value`` in its ``grads.buffer_updates``. On a plain backend, under
    ``no_grad`` and of a frozen buffer, it is ``output`` as it is.

    Args:
        output: what a layer returns.
        buffer: what is to become another.
        value: what of this pass goes into it, of its shape; detached here. See `Module.updated`.

    Raises:
        ShapeError: ``value`` is of another shape than the buffer.

    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Buffer
    >>> largest = Buffer(Tensor[Autodiff[NumPy]].zeros(()))
    >>> x = Tensor[Autodiff[NumPy]].from_data([1.0, 5.0]).require_grad()
    >>> grads = record_update(x * 2.0, largest, x.max()).sum().backward()
    >>> grads.buffer_updates[largest.id].tolist(), grads[x].tolist()
    ([5.0, 1.0], [2.0, 2.0])
    """
    device: Any = output.device
    if not isinstance(device, Autodiff) or buffer.frozen:
        return output
    if value.shape != buffer.shape:
        raise ShapeError(
            f"record_update() was given a value of shape {value.shape} for a buffer of shape {buffer.shape}"
        )
    inner: Any = device.inner
    flat = inner.reshape(device.lower(value.detach()._primitive), (math.prod(value.shape),))
    vector = inner.cat([inner.cast(flat, buffer.dtype), inner.full((1,), 1.0, buffer.dtype)], 0)
    return output._like(carrying(device, output._primitive, buffer.id, vector))


def stepped(module: M, values: Mapping[str, TensorBase[Any]], updates: Mapping[str, Tensor[Any]] | None = None) -> M:
    """The module with new values for its parameters, and its buffers as `Module.updated` of their layers say.

    Args:
        module: on any device.
        values: of parameters and buffers, by id; on the module's device or on one beneath.
        updates: ``grads.buffer_updates``; what no buffer here is meant by is an error.

    Raises:
        ModuleError: an id is not the module's, or a layer says something of what is no buffer of its own.
        ShapeError: a value has another shape or dtype.
    """
    return module.with_values({**values, **(buffer_values(module, updates) if updates else {})})


def buffer_values(module: Module[Any], updates: Mapping[str, Tensor[Any]]) -> dict[str, TensorBase[Any]]:
    """What the buffers of a module become through updates, by id.

    Raises:
        ModuleError: an update is of no buffer here, or a layer says something of what is no buffer of its own.
    """
    known = {held.id: held for held in module._all_held().values()}
    unknown = [key for key in updates if key not in known]
    if unknown:
        raise ModuleError(
            f"these gradients have updates of {len(unknown)} buffers that {type(module).__name__} does not hold; they "
            "come from another model"
        )
    found: dict[str, TensorBase[Any]] = {}
    for path, layer in module.named_modules().items():
        own = _own(layer)
        told = {name: _mean(held, updates[held.id]) for name, held in own.items() if held.id in updates}
        if not told:
            continue
        for name, value in layer.updated(told).items():  # type: ignore[attr-defined]  # a Module or Stateless
            if name not in own:
                raise ModuleError(f"{type(layer).__name__}.updated() names {name!r}, which is no buffer at {path!r}")
            found[own[name].id] = value
    return found


def _own(layer: ModuleBase[Any]) -> dict[str, Variable[Any]]:
    """What a module holds itself, not in its submodules."""
    found: dict[str, Variable[Any]] = {}
    below = [joined(path, "") for path in layer.named_modules() if path]
    for path, held in variables_in(layer).items():
        if not path.startswith(tuple(below)):
            found[path] = held
    return found


def _mean(held: Variable[Any], vector: Tensor[Any]) -> BufferUpdate[Any]:
    count = vector.shape[0] - 1
    weight = vector[count]
    mean = (vector[:count] / weight).reshape(held.shape)
    return BufferUpdate(transfer(mean, held.device), transfer(weight, held.device))
