"""Optimizers as pure functions: `OptimizerState`, a state that is a value, and trees of tensors as models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, final

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.errors import ArgumentError, ImmutableError, KindError, StateError, a, counted
from burnpy.backend.operations.complex_numbers import paired
from burnpy.func.pytree import register_tree
from burnpy.nn.module import Module
from burnpy.nn.module_tree import FrozenDict, joined, new_module, part_names, regrouped
from burnpy.nn.param import ComplexParam, Param
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.matching import gradient_device, refuse_examples
from burnpy.optim.optimizer_states import Memory, OptimizerRecord, ParamState, checked_record, rekeyed
from burnpy.optim.parameter_batch import MASTER, placed
from burnpy.optim.settings import at_least_zero, number_or_tensor
from burnpy.optim.step import stepped_model
from burnpy.optim.update_formula import UpdateCount
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.levels import beneath_levels, plain_device, transfer
from burnpy.tensor.tensor import ComplexTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import new_tensor

if TYPE_CHECKING:
    from burnpy.optim.optimizer import Optimizer

CONTAINERS = (dict, list, tuple)


class Leaves(Module[Any]):
    """A model whose parameters are the leaves of a tree, by their paths, which are their ids too."""


def is_tree(value: object) -> bool:
    """Return whether a value is a tensor, or a dict, list or tuple."""
    return isinstance(value, (Tensor, ComplexTensor, *CONTAINERS))


def as_model(name: str, tree: Any, grads: Any) -> tuple[Any, Any, Callable[..., Any]]:
    """Return a model of a tree's leaves, its gradients, and the function that makes a tree of such a model."""
    model, restored = in_tree(name, tree)
    return model, tree_grads(name, model, tree, grads), restored


def in_tree(name: str, tree: Any) -> tuple[Any, Callable[..., Any]]:
    """Return a model whose parameters are the leaves of a tree, and the function that makes a tree of such a model.
    With ``tracked=True`` the function gives the leaves of the model; otherwise the tree's own where they are the
    same."""
    params: dict[str, Param[Any]] = {}

    def held(leaf: Any, path: str) -> Any:
        if not isinstance(leaf, (Tensor, ComplexTensor)):
            raise KindError(f"{name} got a tree with {a(type(leaf).__name__)} at {path!r}; its leaves are Tensors")
        param: Param[Any] = Param(leaf, id=path) if isinstance(leaf, Tensor) else ComplexParam(leaf, id=path)
        # The very tensor, if it is a leaf already, so that a second step from it is noticed.
        params[path] = param._unchecked(leaf) if leaf.is_require_grad() else param
        return params[path]

    alone = not isinstance(tree, CONTAINERS)
    outer = {"x": tree} if alone else tree
    inside = _mapped(outer, held, frozen=True)
    fields = dict(inside) if isinstance(inside, dict) else dict(zip(part_names(inside), inside, strict=True))
    if not params:
        raise ArgumentError(f"{name} got a tree without tensors; expected at least one")
    model: Any = new_module(Leaves, {str(key): part for key, part in fields.items()}, tuple(map(str, fields)), None)

    def restored(after: Any, tracked: bool = False) -> Any:
        values = after.named_params()

        def updated(leaf: Any, path: str) -> Any:
            new = values[path].value
            return leaf if new is params[path].value and not tracked else new

        result = _mapped(outer, updated)
        return result["x"] if alone else result

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
        if not isinstance(leaf, (Tensor, ComplexTensor)):
            raise KindError(f"{name} got {a(type(leaf).__name__)} as gradient of {path!r}; expected a Tensor")
        refuse_examples(name, {path: leaf})
        by_path[path] = transfer(leaf.detach(), device)
        return leaf

    if not is_tree(grads):
        raise KindError(
            f"{name} takes the Gradients that backward() returned, or gradients in a tree like the tensors', got "
            f"{a(type(grads).__name__)}"
        )
    _mapped(tree if isinstance(tree, CONTAINERS) else {"x": tree}, noted)
    _mapped(grads if isinstance(grads, CONTAINERS) else {"x": grads}, placed)
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


_set = object.__setattr__
RATE = "the learning rate of pure_step()"


@final
class OptimizerState(Mapping[str, Mapping[str, Tensor[Any]]], metaclass=Explaining):
    """The state of an optimizer as a value: by parameter id, the state tensors by name. A tree for `burnpy.func`.

    `Optimizer.init` makes the first one, and `Optimizer.pure_step` the next. Numbers of updates are int64 tensors, so
    that a compiled step counts; parameters that are always updated together share one.

    >>> from burnpy.nn import Linear
    >>> from burnpy.optim import Sgd
    >>> model = Linear(2, 1, device=NumPy)
    >>> state = Sgd(momentum=0.9).init(model)
    >>> state[model.bias.id]["velocity"].tolist(), [state.paths[ident] for ident in state], len(state.counts)
    ([0.0], ['weight', 'bias'], 1)
    """

    __slots__ = ("_form", "_leaves", "_shared", "_values", "counts", "optimizer", "paths")

    optimizer: str  #: the name of the optimizer's class
    paths: Mapping[str, str]  #: the paths of the parameters by id
    counts: tuple[IntTensor[Any], ...]  #: the different numbers of updates, 0-d
    _form: tuple[Any, ...] | None  # all but the tensors, once it is known
    _leaves: tuple[Any, ...] | None  # all tensors, once they are known
    _shared: tuple[int, ...]  # for each parameter, the position of its number
    _values: Mapping[str, Mapping[str, Tensor[Any]]]

    def __init__(
        self,
        optimizer: str,
        paths: Mapping[str, str],
        counts: Sequence[IntTensor[Any]],
        shared: Sequence[int],
        values: Mapping[str, Mapping[str, Tensor[Any]]],
    ) -> None:
        """Store a state without validation; use `Optimizer.init`."""
        for name, value in zip(
            ("optimizer", "paths", "counts", "_shared", "_values", "_form", "_leaves"),
            (optimizer, dict(paths), tuple(counts), tuple(shared), dict(values), None, None),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    def step(self, key: Param[Any] | str) -> IntTensor[Any]:
        """Return the number of updates of a parameter, a 0-d tensor.

        Args:
            key: the parameter or its id.

        Raises:
            KeyError: there is no state of it.
        """
        ident = key.id if isinstance(key, Param) else key
        return self.counts[self._shared[list(self._values).index(ident)] if ident in self else self._missing(ident)]

    def into_record(self) -> OptimizerRecord:
        """Return the state as a record, which `Optimizer.init` and `Optimizer.load_record` continue from."""
        numbers = [count.item() for count in self.counts]
        states = {
            ident: ParamState(self.paths[ident], numbers[k], {name: x.to_numpy() for name, x in tensors.items()})
            for k, (ident, tensors) in zip(self._shared, self._values.items(), strict=True)
        }
        return OptimizerRecord(self.optimizer, states)

    def __getitem__(self, key: str) -> Mapping[str, Tensor[Any]]:
        return self._values[key] if key in self._values else self._missing(key)

    def _missing(self, ident: str) -> NoReturn:
        raise KeyError(f"this state of {self.optimizer} holds no parameter with the id {ident!r}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise ImmutableError(
            f"a state of an optimizer never changes: {name} cannot be set or deleted; pure_step() returns the next"
        )

    __delattr__: Any = __setattr__

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __reduce__(self) -> tuple[Any, ...]:
        return OptimizerState, (self.optimizer, self.paths, self.counts, self._shared, self._values)

    def __repr__(self) -> str:
        return f"OptimizerState({self.optimizer}, {counted(len(self), 'parameter')})"


def _flatten(state: OptimizerState) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    leaves, form = state._leaves, state._form
    if leaves is None or form is None:
        leaves = (*state.counts, *[x for tensors in state._values.values() for x in tensors.values()])
        slots = tuple([(ident, *tensors) for ident, tensors in state._values.items()])
        form = state.optimizer, tuple(state.paths.items()), len(state.counts), state._shared, slots
        _set(state, "_form", form)
        _set(state, "_leaves", leaves)
    return leaves, form


def _unflatten(leaves: Sequence[Any], form: tuple[Any, ...]) -> OptimizerState:
    optimizer, paths, count, shared, slots = form
    rest = iter(leaves[count:])
    values = {slot[0]: dict(zip(slot[1:], rest, strict=False)) for slot in slots}
    state = object.__new__(OptimizerState)
    _set(state, "optimizer", optimizer)
    _set(state, "paths", dict(paths))
    _set(state, "counts", tuple(leaves[:count]))
    _set(state, "_shared", shared)
    _set(state, "_values", values)
    _set(state, "_form", form)
    _set(state, "_leaves", tuple(leaves))
    return state


register_tree(OptimizerState, _flatten, _unflatten)


def initial_state(optimizer: Optimizer, model: Any, record: OptimizerRecord | None) -> OptimizerState:
    """Return the state before the first pure step: see `Optimizer.init`."""
    name = type(optimizer).__name__
    _refuse_impure(optimizer)
    model = _model_of(f"{name}.init()", model)[0]
    refuse_examples(f"{name}.init()", {path: param.value for path, param in model.named_params().items()})
    device = plain_device(model.device)
    known: Mapping[str, ParamState] = {}
    if record is not None:
        masters = (MASTER,) if optimizer.master_weights else ()
        known = rekeyed(checked_record(record, name, optimizer.slots, masters), model, optimizer.slot_shape)
    numbers: dict[int, int] = {}
    paths, shared, values = {}, [], {}
    for path, param in model.named_params().items():
        ident, value = param.id, beneath_levels(model.device, param.value._primitive)
        if param.kind == "complex":
            value = paired(device, value)
        state = known.get(ident)
        if param.frozen and state is None:
            continue
        wide = optimizer.master_weights and value.dtype.itemsize == 2
        master = device.cast(value, float32) if wide else value
        if state is None:
            made = dict(zip(optimizer.slots, optimizer.initial(device, master), strict=True))
        else:
            made = {slot: placed(state.values[slot], device, master.dtype) for slot in optimizer.slots}
            if wide and MASTER in state.values:
                master = placed(state.values[MASTER], device, float32)
        if wide:
            made[MASTER] = master
        paths[ident] = path
        shared.append(numbers.setdefault(0 if state is None else state.step, len(numbers)))
        values[ident] = {slot: new_tensor(Tensor, device, x) for slot, x in made.items()}
    return OptimizerState(name, paths, [_count(device, number) for number in numbers], shared, values)


def pure_step(optimizer: Optimizer, lr: Any, model: Any, grads: Any, state: Any) -> tuple[Any, OptimizerState]:
    """Return the next model and state: see `Optimizer.pure_step`."""
    name = type(optimizer).__name__
    _refuse_impure(optimizer)
    if not isinstance(state, OptimizerState):
        raise KindError(
            f"{name}.pure_step() takes a state, at first {name}().init(model), got {a(type(state).__name__)}"
        )
    held, restored = _model_of(f"{name}.pure_step()", model)
    device: Any = plain_device(held.device)
    _check(optimizer, state, held)
    rate = number_or_tensor(lr, device, RATE, _rate)
    memory = _memory_of(state, device)
    if held is not model:
        grads = tree_grads(f"{name}.pure_step()", held, model, grads)
    new, _ = stepped_model(optimizer, memory, rate, held, grads)
    return restored(new), _state_of(state, memory, device)


def _memory_of(state: OptimizerState, device: Any) -> Memory:
    """Return the states for one step. In a recording, the numbers of updates are values on the device."""
    recorded = device.stands_for is not None
    numbers = [0 if recorded else count.item() for count in state.counts]
    memory = Memory({}, loaded=False)
    memory.held = True
    tensors: Any
    for k, (ident, tensors) in zip(state._shared, state._values.items(), strict=True):
        memory.states[ident] = ParamState(state.paths[ident], numbers[k], tensors)
    if recorded:
        counts = [UpdateCount(device, transfer(count, device)._primitive) for count in state.counts]
        memory.counts = {ident: counts[k] for k, ident in zip(state._shared, state, strict=True)}
    return memory


def _state_of(before: OptimizerState, memory: Memory, device: Any) -> OptimizerState:
    """Return the state after a step. Parameters share a number if they did before, and were updated or not together."""
    shared = dict(zip(before, before._shared, strict=True))
    places: dict[Any, int] = {}
    counts: list[Any] = []
    positions: list[int] = []
    for ident, state in memory.states.items():
        old = shared.get(ident)
        kept = old is not None and state.values is before._values[ident]
        position = places.setdefault((old, kept), len(places))
        positions.append(position)
        if position < len(counts):
            continue
        count = memory.counts.get(ident)
        if count is not None:
            counts.append(new_tensor(IntTensor, device, count.value))
        else:
            counts.append(_count(device, state.step))
    paths = {ident: state.path for ident, state in memory.states.items()}
    values = {ident: state.values for ident, state in memory.states.items()}
    return OptimizerState(before.optimizer, paths, counts, positions, values)


def _count(device: Any, number: int) -> Any:
    return new_tensor(IntTensor, device, device.discrete.full((), number, int64))


def _model_of(name: str, model: Any) -> tuple[Any, Any]:
    """Return a model, and what makes its tree again: of a module the module itself."""
    if isinstance(model, Module):
        return model, lambda new: new
    if is_tree(model):
        return in_tree(name, model)
    raise KindError(
        f"{name} takes a model, or a tensor, or dicts, lists and tuples of them; got {a(type(model).__name__)}"
    )


def _rate(lr: float) -> tuple[float]:
    return (at_least_zero(lr, RATE),)


def _check(optimizer: Optimizer, state: OptimizerState, model: Any) -> None:
    name = type(optimizer).__name__
    if state.optimizer != name:
        raise StateError(f"{name}.pure_step() got a state of {state.optimizer}; begin with {name}().init(model)")
    slots = {*optimizer.slots, MASTER} if optimizer.master_weights else {*optimizer.slots}
    for ident, tensors in state.items():
        if not {*optimizer.slots} <= tensors.keys() <= slots:
            raise StateError(
                f"{name}.pure_step() got a state of {state.paths[ident]} with {', '.join(tensors) or 'no tensors'}, "
                f"and this optimizer remembers {', '.join(optimizer.slots) or 'none'}: it is of one with other settings"
            )
        break
    params = {param._id for param in model.params()}
    if len(state) and params.isdisjoint(state):
        raise StateError(f"{name}.pure_step() got a state of other parameters than this {type(model).__name__}'s")


def _refuse_impure(optimizer: Optimizer) -> None:
    if optimizer.impure:
        name = type(optimizer).__name__
        raise ArgumentError(f"{name} has no pure step: {optimizer.impure}; use {name}.step()")
