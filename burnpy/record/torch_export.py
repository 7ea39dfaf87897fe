"""`to_torch`: the weights of a burnpy model as a state dict for PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.nn.module import Module
from burnpy.nn.tree import walk
from burnpy.nn.variable import Variable
from burnpy.record.fitting import refuse_no_model
from burnpy.record.torch_names import torch_names

if TYPE_CHECKING:
    from numpy.typing import NDArray


def to_torch(model: Module[Any]) -> dict[str, NDArray[Any]]:
    """Return the parameters and buffers of a model as arrays, under PyTorch's names and in its layouts.

    It is the way back of `from_torch`. PyTorch loads it with ``net.load_state_dict(state)``, where state is
    ``{name: torch.from_numpy(array) for name, array in to_torch(model).items()}``, and
    ``safetensors.numpy.save_file(to_torch(model), path)`` makes a file of it. ``torch.from_numpy`` knows no bfloat16:
    write ``to_torch(model.astype("float32"))``, which loses nothing.

    Args:
        model: a model on any device, for whose values the device is waited for.

    Returns:
        Copies in the order of the model, of the model's dtypes. A parameter in two places of the model is there under
        both names, as in PyTorch.

    Raises:
        KindError: ``model`` is not a module.

    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear, Sequential
    >>> model = Sequential(Linear(2, 3, device=NumPy))
    >>> {name: array.shape for name, array in to_torch(model).items()}
    {'0.weight': (3, 2), '0.bias': (3,)}
    """
    refuse_no_model(model, "to_torch() takes a model")
    names = torch_names(model)
    state: dict[str, NDArray[Any]] = {}
    for path, item in walk(model):
        if isinstance(item, Variable):
            name, transposed = names[path]
            value: NDArray[Any] = item._value.to_numpy()
            state[name] = np.array(value.T if transposed else value, order="C")
    return state
