"""Every error that burnpy raises on purpose. Each is also the built-in error a Python programmer would expect.

A message says in one sentence what was asked, the shapes, dtypes or devices involved, and what to do instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING


def a(name: str) -> str:
    """A class's name with its article, as messages have it.

    >>> a("IntTensor"), a("Tensor"), a("ndarray"), a("UserDict")
    ('an IntTensor', 'a Tensor', 'an ndarray', 'a UserDict')
    """
    return f"{'an' if name[:1] in 'AEIOaeio' or name == 'ndarray' else 'a'} {name}"


class BurnpyError(Exception):
    """The base of all of burnpy's own errors."""


class ShapeError(BurnpyError, ValueError):
    """Shapes that do not fit the operation or each other."""


class ArgumentError(BurnpyError, ValueError):
    """An argument whose value makes no sense for the operation."""


class CallError(BurnpyError, TypeError):
    """A class called with arguments that it does not take, or without one that it needs."""


class MissingNameError(BurnpyError, AttributeError):
    """An attribute that there is not; the message says what to write instead.

    ``name`` is None, or Python would add a guess of its own to the message, by spelling alone.
    """

    if not TYPE_CHECKING:
        name = property(lambda self: None, lambda self, value: None)  # Python sets it


class DTypeError(BurnpyError, TypeError):
    """A dtype that is unknown, unsupported, or of the wrong kind."""


class KindError(BurnpyError, TypeError):
    """Float, int and bool tensors mixed, or an operation asked of a kind that lacks it."""


class ScalarError(BurnpyError, TypeError):
    """``len()``, iteration or a dimension asked of a 0-d tensor, which has none."""


class DeviceError(BurnpyError, TypeError):
    """Tensors of two devices mixed, or something that is no backend where one is wanted."""


class NotTrackedError(BurnpyError, TypeError):
    """Differentiation asked of a tensor whose backend, or history, records no graph."""


class ImmutableError(BurnpyError, TypeError):
    """An attempt to change a tensor or a `Gradients` in place."""


class ModuleError(BurnpyError, TypeError):
    """A module that holds what no module can: a bare tensor or array, itself, one id twice."""


class StateError(BurnpyError, ValueError):
    """A state that does not fit the module that it was given to; ``report`` lists what."""

    def __init__(self, message: str, report: object = None) -> None:
        super().__init__(message)
        self.report = report  #: a `burnpy.nn.StateReport`


class RecordError(BurnpyError, ValueError):
    """A file that is no record, is damaged, or would run code."""


class RecordFileError(BurnpyError, OSError):
    """A file that the system cannot read or write: no permission, a full disk."""


class RecordNotFoundError(RecordFileError, FileNotFoundError):
    """A file, or the folder to save it in, that is not there."""


class MissingPartError(BurnpyError, KeyError, AttributeError):
    """A part asked of a record that does not have it."""

    def __str__(self) -> str:  # KeyError would show the message in quotes, escaped
        return str(self.args[0])


class DimError(BurnpyError, IndexError):
    """A dimension that the tensor does not have."""


class IndexRangeError(BurnpyError, IndexError):
    """An index outside of the dimension that it indexes."""


class OutOfMemoryError(BurnpyError, MemoryError):
    """An operation whose result, or what it takes to compute it, finds no memory."""


class GraphError(BurnpyError, RuntimeError):
    """A graph that cannot be walked: already freed, or being consumed by another pass."""


class EscapedError(BurnpyError, RuntimeError):
    """A tensor that belongs to a derivative, used after the function that was differentiated has returned."""


class AnomalyError(GraphError):
    """NaN or infinity that came up in a backward pass, found by `burnpy.autodiff.detect_anomaly`."""


class NonFiniteError(BurnpyError, FloatingPointError):
    """NaN or infinity that came up in an operation, found by `burnpy.backend.Checked`."""


class SavedTensorsError(BurnpyError, RuntimeError):
    """What a graph saved cannot be had back: ``unpack`` gave something else, or a checkpointed function did."""


class MissingGradientError(BurnpyError, KeyError):
    """``grads[x]`` of a leaf that the backward pass did not reach."""

    def __str__(self) -> str:  # KeyError would show the message in quotes, escaped
        return str(self.args[0])


class BackendUnavailableError(BurnpyError, RuntimeError):
    """A backend whose library, driver or hardware is not there."""
