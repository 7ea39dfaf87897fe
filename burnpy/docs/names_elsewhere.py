"""The names that PyTorch and NumPy have for burnpy's public names, from the tables of `burnpy.hints`."""

from __future__ import annotations

import re
from functools import cache
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from burnpy.backend.backend import operations
from burnpy.docs.migrating import theirs
from burnpy.docs.operation_names import in_numpy, in_pytorch
from burnpy.hints import torch_names
from burnpy.hints.missing import rows

_CALL = re.compile(r"(?:\w+\.)*(\w+)(?:\((?:[^()]|\([^()]*\))*\))?")
_DEFAULTS = re.compile(r"(torch|x)\.([gs]et_|.*_$)")
"""Names that change state, and have no counterpart that is one function."""
_OTHER_MEANING = {"select", "split", "put"}
"""Functions of NumPy that do something else than PyTorch's."""
_PACKAGES = {
    "burnpy": ("torch", torch_names.TORCH),
    "burnpy.fft": ("torch.fft", torch_names.FFT),
    "burnpy.func": ("torch.func", torch_names.FUNC),
    "burnpy.linalg": ("torch.linalg", torch_names.LINALG),
    "burnpy.nn": ("torch.nn", torch_names.NN),
    "burnpy.nn.functional": ("torch.nn.functional", torch_names.FUNCTIONAL),
    "burnpy.nn.init": ("torch.nn.init", torch_names.INIT),
    "burnpy.optim": ("torch.optim", torch_names.OPTIM),
    "burnpy.special": ("torch.special", torch_names.SPECIAL),
}
_NUMPY = {"burnpy": np, "burnpy.fft": np.fft, "burnpy.linalg": np.linalg}


class Names(NamedTuple):
    """The names of one function or class in other libraries."""

    pytorch: list[str]
    numpy: list[str]


def of_method(name: str) -> Names:
    """Return the names of a method of tensors.

    >>> of_method("clamp")
    Names(pytorch=['x.clamp', 'torch.clamp', 'x.clip', 'torch.clip'], numpy=['np.clip'])
    """
    pytorch = [each for each in _by_method().get(name, []) if not each.startswith("np.")]
    numpy = [each for each in _by_method().get(name, []) if each.startswith("np.")]
    if name in operations():
        pytorch += [in_pytorch(name)] if not pytorch else []
        numpy += [in_numpy(name)]
    numpy += [f"np.{each[6:]}" for each in pytorch if each.startswith("torch.") and each[6:] not in _OTHER_MEANING]
    if not pytorch and name in torch_names.TENSOR.split():
        pytorch = [f"x.{name}"]
    return Names([each for each in pytorch if each], [each for each in dict.fromkeys(numpy) if _is_function(each)])


def _is_function(name: str) -> bool:
    """Return whether a name is a function of NumPy."""
    try:
        return name.startswith("np.") and callable(attrgetter(name[3:])(np))
    except AttributeError:
        return False


@cache
def _by_method() -> dict[str, list[str]]:
    """Return the names elsewhere by method: the rows of the table whose code is one call."""
    table: dict[str, list[str]] = {}
    for name, row in rows().items():
        call = _CALL.fullmatch(row.ours)
        if call and "imaginary" not in row.why:
            known = table.setdefault(call[1], [])
            known += [each for each in theirs(name) if each not in known and not _DEFAULTS.match(each)]
    return table


def of_function(package: str, name: str) -> Names:
    """Return the names of a function or class of a package; PyTorch's may differ in case and underscores.

    >>> of_function("burnpy.nn", "Relu"), of_function("burnpy.linalg", "svdvals")
    (Names(pytorch=['torch.nn.ReLU'], numpy=[]), Names(pytorch=['torch.linalg.svdvals'], numpy=['np.linalg.svdvals']))
    """
    place, known = _PACKAGES.get(package, ("", ""))
    pytorch = [f"{place}.{each}" for each in known.split() if _plain(each) == _plain(name)]
    module = _NUMPY.get(package)
    numpy = [f"np.{package[7:]}{'.' * (package != 'burnpy')}{name}"] if callable(getattr(module, name, None)) else []
    return Names(pytorch, numpy)


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
