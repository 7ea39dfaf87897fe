"""The exceptions that burnpy raises. Each also derives from the built-in exception a Python programmer would expect.

A message names, in one sentence, the call, the shapes, dtypes or devices involved, and what to do instead.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

__all__ = [
    "AnomalyError",
    "ArgumentError",
    "BackendUnavailableError",
    "BatchedError",
    "BurnpyError",
    "CallError",
    "ConvergenceError",
    "DTypeError",
    "DeviceError",
    "DimError",
    "EscapedError",
    "ExportError",
    "GraphError",
    "GroupError",
    "ImmutableError",
    "IndexRangeError",
    "KindError",
    "LinAlgError",
    "LoadingError",
    "MissingGradientError",
    "MissingNameError",
    "MissingPackageError",
    "MissingPartError",
    "ModuleError",
    "NonFiniteError",
    "NotTrackedError",
    "OutOfMemoryError",
    "RanksLostError",
    "RecordError",
    "RecordFileError",
    "RecordNotFoundError",
    "RecordingError",
    "SavedTensorsError",
    "ScalarError",
    "ShapeError",
    "StateError",
    "WaitError",
    "WorkerError",
    "a",
    "path_shown",
]


def a(name: str) -> str:
    """Return a class's name with its indefinite article, for messages.

    >>> a("IntTensor"), a("Tensor"), a("ndarray"), a("UserDict"), a("F1"), a("NoneType")
    ('an IntTensor', 'a Tensor', 'an ndarray', 'a UserDict', 'an F1', 'None')
    """
    if name == "NoneType":
        return "None"
    spelled = name[:1] in "FHLMNRSX" and not name[1:2].islower()  # the first letter is spoken as "eff", "em" and so on
    return f"{'an' if spelled or name[:1] in 'AEIOaeio' or name == 'ndarray' else 'a'} {name}"


def class_name(value: object) -> str:
    """Return the name of a value's class, with its package if another one has a class of a name that is burnpy's.

    >>> class_name(1.0), class_name(type("Tensor", (), {"__module__": "torch"})())
    ('float', 'torch.Tensor')
    """
    name, package = type(value).__name__, type(value).__module__.partition(".")[0]
    return f"{package}.{name}" if name.endswith("Tensor") and package != "burnpy" else name


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural, for messages.

    >>> counted(1, "epoch"), counted(1200, "step")
    ('1 epoch', '1,200 steps')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


_ARGS: Any = vars(BaseException)["args"]


def path_shown(path: str | os.PathLike[str]) -> str:
    """Return a path for a message: whole, or without its middle if it is longer than 200 characters.

    >>> path_shown("run.safetensors"), len(path_shown("a" * 5000))
    ('run.safetensors', 200)
    """
    text = os.fspath(path)
    return text if len(text) <= 200 else f"{text[:79]}…{text[-120:]}"


_ITEMS = re.compile(r"((?:[^,\n]{1,40}, ){8})(?:[^,\n]{1,90}, ){12,}")
_WORD = re.compile(r"\S{201,}")


def _shortened(message: str) -> str:
    """Return a message without the data that it repeats: long lists and long words lose their middle.

    >>> _shortened(f"reshape() cannot change shape (2, 3) to {(7,) * 3000}")
    'reshape() cannot change shape (2, 3) to (7, 7, 7, 7, 7, 7, 7, …, 7)'
    """
    if len(message) <= 300:
        return message
    message = _WORD.sub(lambda word: path_shown(word[0]), message)
    return _ITEMS.sub(r"\1…, ", message)


class BurnpyError(Exception):
    """The base class of burnpy's exceptions. A long message is shortened when it is shown."""

    def __str__(self) -> str:  # KeyError would show the message in quotes, escaped
        args = self.args
        return _shortened(str(args[0])) if len(args) == 1 else super().__str__()


class ShapeError(BurnpyError, ValueError):
    """Shapes that are incompatible with the operation or with each other."""


class ArgumentError(BurnpyError, ValueError):
    """An argument whose value is invalid for the operation."""


class CallError(BurnpyError, TypeError):
    """A class called with unexpected arguments, or without a required one."""


class ConvergenceError(BurnpyError, ArithmeticError):
    """A solver of `burnpy.func` that ends without a solution: of too many steps, too small ones, or a NaN."""


class LinAlgError(BurnpyError, ValueError):
    """A matrix that is singular, not positive definite, or has no decomposition, as with NaN; named by its place."""


class MissingNameError(BurnpyError, AttributeError):
    """A missing attribute; the message says what to write instead.

    ``name`` is None, because Python would otherwise add its own suggestion, by spelling alone, to the message.

    Args:
        message: the message, or a function that makes it. The function is called when the message is first read, so
            that ``hasattr(x, name)`` and ``getattr(x, name, None)``, which read none, do not search for similar names.
    """

    def __init__(self, message: str | Callable[[], str]) -> None:
        super().__init__(message)

    if not TYPE_CHECKING:
        name = property(lambda self: None, lambda self, value: None)  # Python sets it

        @property
        def args(self) -> tuple[Any, ...]:
            """The message."""
            args = _ARGS.__get__(self)
            if args and callable(args[0]):
                args = (args[0](), *args[1:])
                _ARGS.__set__(self, args)
            return args

        @args.setter
        def args(self, args: tuple[Any, ...]) -> None:
            _ARGS.__set__(self, args)

    def __repr__(self) -> str:
        _ = self.args  # makes the message, which Python reads past the property
        return super().__repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, vars(self)


class DTypeError(BurnpyError, TypeError):
    """A dtype that is unknown, unsupported, or of the wrong kind."""


class KindError(BurnpyError, TypeError):
    """Float, int and bool tensors mixed, or an operation called on a kind that does not have it."""


class ScalarError(BurnpyError, TypeError):
    """``len()``, iteration or a dimension of a 0-d tensor, which has none."""


class DeviceError(BurnpyError, TypeError):
    """Tensors of two devices mixed, an object that is not a backend, or a feature that the device does not have."""

    mixed: tuple[str, tuple[object, object]] | None = None
    """The message for tensors on two devices, with places for the names of two arguments, and their devices."""


class NotTrackedError(BurnpyError, TypeError):
    """Differentiation of a tensor that is not part of a graph, or whose backend records none."""


class ImmutableError(BurnpyError, TypeError):
    """An attempt to change a tensor or a `Gradients` in place."""


class ModuleError(BurnpyError, TypeError):
    """A module with an invalid member: a bare tensor or array, the module itself, or a repeated id."""


class StateError(BurnpyError, ValueError):
    """A state that does not match the module it is loaded into; ``report`` lists the differences."""

    def __init__(self, message: str, report: object = None) -> None:
        super().__init__(message)
        self.report = report  #: a `burnpy.nn.StateReport`


class RecordError(BurnpyError, ValueError):
    """A file that is not a record, is corrupted, or would execute code."""


class RecordFileError(BurnpyError, OSError):
    """A file that the system cannot read or write, as for lack of permission or disk space."""


class RecordNotFoundError(RecordFileError, FileNotFoundError):
    """A missing file, or a missing folder to save it in."""


class MissingPartError(BurnpyError, KeyError, AttributeError):
    """Access to a part that a record does not have."""


class DimError(BurnpyError, IndexError):
    """A dimension that the tensor does not have."""


class IndexRangeError(BurnpyError, IndexError):
    """An index out of range of its dimension."""


class OutOfMemoryError(BurnpyError, MemoryError):
    """An operation whose result or temporaries do not fit into memory."""


class GraphError(BurnpyError, RuntimeError):
    """A graph that cannot be traversed: already freed, or being consumed by another backward pass."""


class EscapedError(BurnpyError, RuntimeError):
    """A tensor of a differentiated function, used after that function has returned."""


class RecordingError(BurnpyError, RuntimeError):
    """A computation cannot be recorded, as its steps would depend on values that differ from call to call."""


class ExportError(BurnpyError, ValueError):
    """A model cannot be written in a format, as one of its steps has no counterpart there."""


class BatchedError(BurnpyError, TypeError):
    """A value that differs between the examples of `burnpy.func.vmap`, where one for all of them is needed."""


class AnomalyError(GraphError):
    """NaN or infinity in a backward pass, detected by `burnpy.autodiff.detect_anomaly`."""


class NonFiniteError(BurnpyError, FloatingPointError):
    """NaN or infinity in the result of an operation, detected by `burnpy.backend.Checked`."""


class SavedTensorsError(BurnpyError, RuntimeError):
    """Saved tensors that cannot be restored: an ``unpack`` hook or a checkpointed function returned different ones."""


class MissingGradientError(BurnpyError, KeyError):
    """Access to ``grads[x]`` for a leaf that the backward pass did not reach."""


class BackendUnavailableError(BurnpyError, RuntimeError):
    """A backend whose library, driver or hardware is missing."""


class LoadingError(BurnpyError, RuntimeError):
    """A sample or a batch that could not be made; the exception that was raised is the ``__cause__``."""

    def __init__(
        self, message: str, index: int | None = None, batch: int | None = None, epoch: int | None = None
    ) -> None:
        super().__init__(message)
        self.index = index  #: the sample, where it is known
        self.batch = batch  #: the number of the batch in its epoch
        self.epoch = epoch

    def __reduce__(self) -> tuple[type[LoadingError], tuple[str, int | None, int | None, int | None]]:
        return LoadingError, (str(self), self.index, self.batch, self.epoch)


class WorkerError(BurnpyError, RuntimeError):
    """A worker that could not be started or given its work, or that ended before it was done."""


class MissingPackageError(BurnpyError, ImportError):
    """A package that an optional part of burnpy needs, and that is not installed."""


class GroupError(BurnpyError, RuntimeError):
    """Ranks of a `burnpy.distributed.Group` that do not agree, or a group that cannot be formed."""

    def __init__(self, message: str, *, everywhere: bool = False) -> None:
        super().__init__(message)
        self.everywhere = everywhere  #: True if all ranks raise the same error


class WaitError(GroupError, TimeoutError):
    """A wait for other ranks that reached its limit; ``ranks`` are those that did not arrive, as far as is known."""

    def __init__(self, message: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.ranks = ranks  #: the ranks that did not arrive


class RanksLostError(GroupError):
    """Ranks that ended while others were waiting for them."""


OWN_PACKAGES = sys.stdlib_module_names | {"burnpy", "numpy"}
"""The packages whose exceptions burnpy expects when it reads and writes files."""
BACKENDS = frozenset(("burnpy_array", "burnpy_numpy", "burnpy_cupy", "cupy", "cupyx", "None"))
"""The packages of backends, and the name of no module, to which the generated methods of `Autodiff` belong."""


def raised_by_other_code(error: BaseException, own: Container[str] = OWN_PACKAGES) -> bool:
    """Return whether a caught error passed through a Python function of another package than ``own``.

    The handler of a signal may raise anything at any point, for example TimeoutError (an OSError) or ValueError. The
    code that it interrupted has not failed then.

    Args:
        error: an error that is being handled.
        own: the top-level packages whose functions do not count. The calling frame never counts, so with an empty
            container the answer is whether the error was raised inside any Python function that was called.

    >>> try:
    ...     int("x")
    ... except ValueError as error:
    ...     print(raised_by_other_code(error, ()))
    False
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] not in own:
            return True
    return False


def no_complex_arrays(device: Any) -> DTypeError:
    """Return the error for complex numbers on a backend that has none."""
    return DTypeError(
        f"{device.name} has no complex arrays; compute with the real and the imaginary part as two tensors, or on a "
        "backend that has some, such as NumPy"
    )
