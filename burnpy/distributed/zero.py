"""`ZeroRedundancy`: an optimizer whose states are divided among the ranks of a group."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, overload

import numpy as np

from burnpy.backend.errors import ArgumentError, KindError, a
from burnpy.distributed.group import Group, checked_weight
from burnpy.nn.module import Module
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.matching import gradient_device
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.optimizer_states import OptimizerRecord, ParamState
from burnpy.optim.pure_functions import as_model, is_tree
from burnpy.optim.step import param_gradients
from burnpy.optim.update_formula import Step
from burnpy.tensor.call_errors import explained
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.levels import beneath_levels, plain_device
from burnpy.tensor.tensor import ComplexTensor, Tensor
from burnpy.tensor.tensor_base import tensor_of
from burnpy.typevars import B, M

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import Shape
    from burnpy.nn.param import Param
    from burnpy.optim.optimizer import Floats

T = TypeVar("T", bound=Tensor[Any] | ComplexTensor[Any] | dict[str, Any] | list[Any] | tuple[Any, ...])

_ALIGNED = 64
"""The alignment of parameters in a message, in bytes, which suits vector instructions."""

_set = object.__setattr__


class ZeroRedundancy(Optimizer):
    """An optimizer whose states are divided among ranks, and need ``1 / group.size`` of the memory on each.

    Each parameter belongs to one rank, which keeps its state and computes its update; then the ranks exchange the new
    values. The numbers are those of the optimizer itself, to the bit::

        optim = ZeroRedundancy(AdamW(), group)
        for batch in loader.shard(group.rank, group.size).epoch(epoch):
            grads = group.backward(loss_of(model, batch), model, weight=len(batch))
            model = optim.step(rate, model, grads)

    `step` needs the gradients of this rank's own parameters alone. `mean`, in place of `Group.mean`, returns these and
    sends half as much.

    All ranks call `step`, `mean`, `into_record` and `load_record`. A record holds all states, like a record of the
    optimizer itself: training continues from it on any number of ranks, or without a group.

    Source: Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter models, 2020: its first
    stage.

    Args:
        optim: the optimizer, which is copied.
        group: the ranks.

    Raises:
        KindError: ``optim`` is not an optimizer, or ``group`` not a group.
        ArgumentError: the optimizer takes all parameters together, as `LBfgs` does.

    >>> from burnpy.distributed import Group
    >>> from burnpy.nn import Linear
    >>> from burnpy.optim import Adam
    >>> group, model = Group.world(), Linear(2, 1, device=Autodiff[NumPy])
    >>> optim = ZeroRedundancy(Adam(), group)
    >>> loss = model(Tensor[Autodiff[NumPy]].ones((3, 2))).square().mean()
    >>> model = optim.step(1e-3, model, group.backward(loss, model))
    >>> optim
    ZeroRedundancy(Adam(...), rank 0 of 1)
    """

    optim: Optimizer
    group: Group
    _owners: _Owners

    factored: ClassVar[bool] = True  # of some optimizers
    impure: ClassVar[str] = "its ranks exchange parameters in each step"

    def __init__(self, optim: Optimizer, group: Group) -> None:
        given: object = optim
        if not isinstance(given, Optimizer) or isinstance(given, ZeroRedundancy):
            raise KindError(f"ZeroRedundancy() takes an optimizer, such as AdamW(), got {a(type(given).__name__)}")
        ranks: object = group
        if not isinstance(ranks, Group):
            raise KindError(f"ZeroRedundancy() takes a Group, got {a(type(ranks).__name__)}; see Group.world()")
        if optim.joint:
            raise ArgumentError(
                f"ZeroRedundancy() got {type(optim).__name__}, whose update takes all parameters together, which "
                "cannot be divided among ranks; use it without"
            )
        for name, value in (("weight_decay", optim.weight_decay), ("maximize", optim.maximize)):
            _set(self, name, value)
        _set(self, "master_weights", optim.master_weights)
        _set(self, "groups", optim.groups)
        super().__post_init__()
        _set(self, "optim", copy(optim))
        _set(self, "group", group)
        _set(self, "_owners", _Owners(group.size))

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the state tensors of the optimizer."""
        return self.optim.slots

    def initial(self, device: Backend, param: Any) -> tuple[Any, ...]:
        """Return the optimizer's state tensors before the first update of a parameter."""
        return self.optim.initial(device, param)

    def slot_shape(self, slot: str, shape: Shape) -> Shape:
        """Return the shape of the optimizer's state tensor of a parameter."""
        return self.optim.slot_shape(slot, shape)

    def update(
        self, device: Backend, params: Floats, grads: Floats, states: tuple[Floats, ...], step: Step
    ) -> tuple[Floats, ...]:
        """Compute the optimizer's update."""
        return self.optim.update(device, params, grads, states, step)

    def mean(self, grads: GradientsParams[B] | None, model: Module[Any], *, weight: float = 1.0) -> GradientsParams[B]:
        """Return the mean over all ranks of the gradients of this rank's own parameters.

        The others are `GradientsParams.missing`, so a norm of the result covers only a part of the gradients. Updates
        of buffers, and ``found_inf``, come from all ranks. With three ranks or more, the last bits may differ from
        `Group.mean`, since the MPI library may add in another order.

        Args:
            grads: see `Group.mean`.
            model: the model that is stepped.
            weight: see `Group.mean`.

        Raises:
            GroupError, WaitError, KindError, ArgumentError: see `Group.mean`.
        """
        share = checked_weight("mean", weight, "gradients", grads)
        if self.group.size == 1 and grads is not None:
            return grads
        return self.group._reduction.parts(grads, share, self._owners.of(model))

    @overload
    def step(self, lr: float, model: M, grads: GradientsParams[Any] | Gradients[Any]) -> M: ...
    @overload
    def step(self, lr: float, model: T, grads: T | Gradients[Any]) -> T: ...
    @explained
    def step(self, lr: float, model: Any, grads: Any) -> Any:
        """Update every parameter that has a gradient, each on the rank that it belongs to, and return the new model.

        Args:
            lr: the learning rate.
            model: see `Optimizer.step`.
            grads: the same on all ranks, such as `Group.mean` or `Group.backward` returned; or those of `mean`.

        Raises:
            ArgumentError, ModuleError, DeviceError, ShapeError, StateError, KindError: see `Optimizer.step`.
            GroupError: another rank has called something else.
            WaitError: a rank did not come within the limit.
        """
        if not isinstance(model, Module) and is_tree(model):
            held, given, restored = as_model(f"{type(self).__name__}.step()", model, grads)
            return restored(self.step(lr, held, given))
        owners, rank = self._owners.of(model), self.group.rank
        self._forget(owners)
        given = param_gradients(self, grads, model)
        new: Any = self.optim.step(lr, model, given.without([ident for ident in given if owners.get(ident) != rank]))
        return new if self.group.size == 1 else self._exchanged(new, owners)

    def _forget(self, owners: Mapping[str, int]) -> None:
        """Drop the states of other ranks' parameters, which a record or the given optimizer may have had."""
        memory, rank = self.optim._memory, self.group.rank
        if all(owners.get(ident) == rank for ident in memory.states):
            return
        known = memory.shown("step()")
        if not owners.keys().isdisjoint(known):  # otherwise they are of another model, as the optimizer's step says
            memory.load({ident: state for ident, state in known.items() if owners.get(ident, rank) == rank})

    def _exchanged(self, model: Any, owners: Mapping[str, int]) -> Any:
        outer = model.device
        device = plain_device(outer)
        params = sorted((param for param in model.params() if not param.frozen), key=lambda param: owners[param.id])
        spaces = [-(-_nbytes(param) // _ALIGNED) * _ALIGNED for param in params]
        message = np.empty(sum(spaces), np.uint8)
        flats = [message[stop - space : stop] for stop, space in zip(accumulate(spaces), spaces, strict=True)]
        sizes = [0] * self.group.size
        for param, space, flat in zip(params, spaces, flats, strict=True):
            sizes[owners[param.id]] += space
            if owners[param.id] == self.group.rank:
                value = beneath_levels(outer, param.value._primitive)
                flat[: _nbytes(param)] = np.ascontiguousarray(device.to_numpy(value)).reshape(-1).view(np.uint8)
        self.group._reduction.exchange("step", message, sizes, _ALIGNED)
        values: dict[str, Tensor[Any]] = {}
        for param, flat in zip(params, flats, strict=True):
            array = flat[: _nbytes(param)].view(np.dtype(param.dtype)).reshape(param.shape)
            values[param.id] = tensor_of(device, device.adopt_numpy(array))
        return model.with_values(values)

    def state(self) -> dict[str, ParamState]:
        """Return the states of this rank's own parameters by id; `into_record` has those of all."""
        return self.optim.state()

    def into_record(self) -> OptimizerRecord:
        """Return the states of all ranks, as the optimizer's own record; all ranks call it.

        Raises:
            StateError: a step is in progress.
            GroupError: another rank has called something else.
            WaitError: a rank did not come within the limit.
        """
        own = self.optim.into_record()
        owners = self._owners.last
        merged: dict[str, ParamState] = {}
        for rank in range(self.group.size):
            states = self.group.broadcast(own.states if rank == self.group.rank else {}, root=rank)
            merged.update({ident: state for ident, state in states.items() if owners.get(ident, rank) == rank})
        ordered = {ident: merged.pop(ident) for ident in owners if ident in merged}
        return OptimizerRecord(own.optimizer, ordered | merged)

    def load_record(self, record: OptimizerRecord, model: Module[Any] | None = None) -> Self:
        """Replace the states with those of a record, written by any number of ranks or by the optimizer itself.

        Args:
            record: the same on all ranks.
            model: see `Optimizer.load_record`.

        Raises:
            StateError: see `Optimizer.load_record`.
        """
        self.optim.load_record(record, model)
        if model is not None:
            self._forget(self._owners.of(model))
        return self

    def __copy__(self) -> Self:
        """Return an independent optimizer of the same group with the same settings and states."""
        other = type(self)(self.optim, self.group)
        _set(other, "_owners", copy(self._owners))
        return other

    def __repr__(self) -> str:
        return f"ZeroRedundancy({self.optim!r}, rank {self.group.rank} of {self.group.size})"


class _Owners:
    """The rank that each parameter belongs to, by id: largest first, each to the rank that has the least so far. A
    parameter stays with its rank, which has its state, when others join or leave the model."""

    def __init__(self, size: int) -> None:
        self.last: dict[str, int] = {}
        self._size = size
        self._ranks: dict[str, int] = {}
        """The ranks of the parameters of all models so far."""
        self._known: dict[str, int] = {}

    def of(self, model: Module[Any]) -> Mapping[str, int]:
        """Return the owners of a model's parameters, frozen ones included."""
        gradient_device(model)  # refuses anything but a model
        sizes = {param.id: _nbytes(param) for param in model.params()}
        if sizes != self._known:
            loads, ranks = [0] * self._size, dict(self._ranks)
            for ident in sorted(sizes, key=lambda ident: (ident not in ranks, -sizes[ident])):
                rank = ranks.setdefault(ident, loads.index(min(loads)))
                loads[rank] += sizes[ident]
            self._ranks, self._known = ranks, sizes
            self.last = {ident: ranks[ident] for ident in sizes}
        return self.last


def _nbytes(param: Param[Any]) -> int:
    """Return the bytes of a parameter's value."""
    return int(np.prod(param.shape, dtype=np.int64)) * param.dtype.itemsize
