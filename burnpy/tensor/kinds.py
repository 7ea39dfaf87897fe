"""What is said of a method that another kind of tensors has, or PyTorch's tensors have: how to get there."""

from __future__ import annotations

from typing import Any, NoReturn

from burnpy.backend.errors import KindError
from burnpy.backend.primitives import KindName
from burnpy.tensor.base import TensorBase

_ARTICLE = {"float": "a float", "int": "an int", "bool": "a bool"}


class MissingMethodError(KindError, AttributeError):
    """A method that a kind lacks and another has."""


class Lacking:
    """Stands for such a method: ``i.mean`` of an int tensor says ``i.float().mean()``.

    An attribute for each costs nothing, where a ``__getattr__`` would slow down every attribute of every tensor.
    """

    def __init__(self, name: str, owner: KindName, value: object) -> None:
        self.name, self.factory = name, isinstance(value, classmethod)
        self.owner: KindName = owner
        self.call = "" if isinstance(value, property) else "()"

    def __get__(self, tensor: TensorBase[Any] | None, cls: type[TensorBase[Any]]) -> NoReturn:
        if self.factory:
            theirs = TensorBase.kinds[self.owner].__name__
            raise MissingMethodError(
                f"{cls.__name__} has no {self.name}(), which makes {_ARTICLE[self.owner]} tensor; "
                f"write {theirs}[NumPy].{self.name}(...)"
            )
        own = f" of dtype {tensor.dtype}" if tensor is not None else ""
        raise MissingMethodError(
            f"{self.name}{self.call} needs {_ARTICLE[self.owner]} tensor, and this is {_ARTICLE[cls.kind]} tensor"
            f"{own}; convert it first: x.{self.owner}().{self.name}{self.call}"
        )


_IN_PLACE = "nothing is changed in place: "
PYTORCH = {
    "requires_grad": "x.is_require_grad() tells, and x = x.require_grad() makes a leaf",
    "requires_grad_": f"{_IN_PLACE}x = x.require_grad() makes a leaf",
    "is_leaf": "of a tracked tensor, x.grad_fn is None tells",
    "data": "x.inner() has the values, on the backend where nothing is recorded",
    "detach_": f"{_IN_PLACE}x = x.detach()",
    "retains_grad": 'x.grad_fn.name == "retain_grad" tells',
    "register_post_accumulate_grad_hook": "x, handle = x.register_hook(f) sees a leaf's gradient when it is complete",
    "size": "x.shape is a tuple of ints, and x.shape[d] one of them",
    "dim": "x.ndim is the number of dimensions",
    "numpy": "x.to_numpy() gives a read-only array, np.array(x) one of your own",
    "to": "x.to_device(device) moves it, x.to_dtype(dtype) keeps the kind, x.float(), x.int() and x.bool() change it",
    "cpu": "x.to_device(NumPy) moves it to the CPU, x.to_numpy() is its values there",
    "cuda": "x.to_device(CuPy) moves it to the GPU",
    "long": "x.int() gives int64",
    "view": "x.reshape(...) copies nothing where a view will do",
    "unflatten": "x.reshape(...) does that",
    "clone": "tensors never change, so that x itself is as good as a copy",
    "contiguous": "how the elements lie in memory is the backend's affair",
    "nelement": "x.numel() counts the elements",
    "zero_": f"{_IN_PLACE}x = x.zeros_like()",
    "fill_": f"{_IN_PLACE}x = x.full_like(value)",
    "copy_": f"{_IN_PLACE}x = y",
    **{
        f"{name}_": f"{_IN_PLACE}x = x.{name}(...)"
        for name in ("add", "sub", "mul", "div", "pow", "clamp", "masked_fill", "scatter", "scatter_add", "unsqueeze")
    },
}
"""What to write in place of attributes of PyTorch's tensors that have another form here."""


class Elsewhere:
    """Stands for such an attribute."""

    def __init__(self, name: str, instead: str) -> None:
        self.message = f"tensors have no attribute {name}; {instead}"

    def __get__(self, tensor: object, cls: type) -> NoReturn:
        raise AttributeError(self.message)

    def __set__(self, tensor: object, value: object) -> NoReturn:
        raise AttributeError(self.message)


def explain_missing_methods() -> None:
    """Give each kind an explanation of every public method that another one has and it has not, and of `PYTORCH`."""
    methods: dict[KindName, dict[str, object]] = {kind: _methods(cls) for kind, cls in TensorBase.kinds.items()}
    for kind, cls in TensorBase.kinds.items():
        for owner, theirs in methods.items():
            for name in theirs.keys() - methods[kind].keys():
                setattr(cls, name, Lacking(name, owner, theirs[name]))
        for name, instead in PYTORCH.items():
            setattr(cls, name, Elsewhere(name, instead))


def _methods(cls: type) -> dict[str, object]:
    """The public attributes of a class, its factories included, inherited ones too."""
    return {name: value for base in cls.__mro__ for name, value in vars(base).items() if not name.startswith("_")}
