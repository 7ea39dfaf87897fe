"""Errors for calls: of arguments that a function, a method or a class does not accept, and of tensors on two devices.

The tables have the names of arguments in PyTorch, NumPy and JAX, with the corresponding names in burnpy.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from numbers import Integral, Real
from os import PathLike
from types import NoneType
from typing import Any, SupportsFloat

import numpy as np

from burnpy.backend.errors import (
    BACKENDS,
    OWN_PACKAGES,
    ArgumentError,
    CallError,
    DeviceError,
    DimError,
    DTypeError,
    IndexRangeError,
    KindError,
    ScalarError,
    ShapeError,
    a,
    class_name,
    counted,
    raised_by_other_code,
)
from burnpy.backend.functions import meaning, signature
from burnpy.hints.missing_names import meant
from burnpy.hints.torch_functions import ARGUMENTS, MISSING

OURS: dict[str, tuple[str, ...]] = {
    "axis": ("dim", "dims"),
    "axes": ("dims", "dim"),
    "axis1": ("dim0",),
    "axis2": ("dim1",),
    "dims": ("dim",),
    "dim": ("dims",),
    "keepdims": ("keepdim",),
    "ddof": ("correction",),
    "ord": ("p",),
    "a_min": ("min",),
    "a_max": ("max",),
    "shift": ("shifts",),
    "opset_version": ("opset",),
    "output_names": ("outputs",),
    **dict.fromkeys(("dynamic_axes", "dynamic_shapes"), ("dynamic",)),
    "size": ("shape",),
    "newshape": ("shape",),
    "fill_value": ("value",),
    "k": ("diagonal",),
    "offset": ("diagonal",),
    "stop": ("end",),
    "num": ("steps",),
    "n": ("rows",),
    "m": ("columns",),
    "indices": ("index",),
    "values": ("src", "value"),
    "source": ("src",),
    "split_size_or_sections": ("split_size",),
    "indices_or_sections": ("split_size", "chunks"),
    "sections": ("chunks",),
    "arrays": ("tensors",),
    "exponent": ("other",),
    "x2": ("other",),
    "y": ("other",),
    "x": ("input",),
    "input": ("x", "logits", "log_probabilities", "index"),
    "input1": ("x1",),
    "input2": ("x2",),
    "a": ("x",),
    "b": ("y",),
    "other": ("y",),
    "mat2": ("other",),
    "is_causal": ("causal",),
    "attn_mask": ("mask",),
    "dropout_p": ("dropout",),
    "num_classes": ("classes",),
    "key_padding_mask": ("key_mask",),
    "src_key_padding_mask": ("key_mask",),
    "src_mask": ("mask",),
    "num_workers": ("workers",),
    "collate_fn": ("collate",),
    "prefetch_factor": ("prefetch",),
    "optimizer": ("optim",),
    "learning_rate": ("lr",),
    "num_epochs": ("epochs",),
    "max_epochs": ("epochs",),
    "train_loader": ("train",),
    "valid_loader": ("valid",),
    "val_loader": ("valid",),
    "max_new_tokens": ("max_new",),
    "eos_token_id": ("stop",),
    "use_cache": ("cache",),
    "logits_processor": ("processors",),
    "input_ids": ("tokens",),
    "in_axes": ("in_dims",),
    "out_axes": ("out_dims",),
}
"""For each name: the names here. The first that the function accepts is suggested."""
SENTENCES: dict[str, str] = {
    "unbiased": "correction=1 is unbiased=True, and correction=0 unbiased=False",
    "inplace": "nothing is changed in place",
    "out": "the result is always a new tensor",
    "requires_grad": "call .require_grad() on the result",
    "device": "call .to_device(device) on the result",
    "dtype": "call .to_dtype(dtype) on the result",
    "size_average": 'use reduction="mean", "sum" or "none"',
    "reduce": 'use reduction="mean", "sum" or "none"',
    "sparse": "gradients are dense",
    "momentum": "statistics do not change here; burnpy.nn.BatchNorm and InstanceNorm record them",
    "stable": "equal elements always keep their order",
    "non_blocking": "results are computed asynchronously wherever the backend can",
    **dict.fromkeys(
        ("layout", "memory_format", "pin_memory", "order", "strides"), "the backend chooses the memory layout"
    ),
}
"""For each name that has no counterpart: the suggestion."""
_STEP = "the rate comes first: model = optim.step(1e-3, model, grads)"
METHODS: dict[str, dict[str, str]] = {
    "where": {MISSING: "for the indices of True elements use condition.nonzero(as_tuple=True)"},
    "generate": {
        **dict.fromkeys(
            ("do_sample", "temperature", "top_k", "top_p", "min_p"),
            "write sampler=sampling(temperature=0.8, top_k=50), from burnpy.models",
        ),
        "num_beams": "write burnpy.models.beam_search(model, tokens, max_new=20, beams=4)",
        "repetition_penalty": "write processors=[partial(repetition_penalty, penalty=1.2)]",
    },
    "ArrayDataset": {"": "columns have names: ArrayDataset(x=images, y=labels)"},
    "Loader": {
        MISSING: "collate(device=NumPy) makes batches of tensors",
        "device": "collate(device=...) makes batches on a device",
        "pin_memory": "batches are made on the device of collate(device=...)",
        "generator": "seed= and the epoch decide the order",
        "persistent_workers": "they always stay for the next epoch",
        "worker_init_fn": "random numbers belong to samples: f(sample, rng) of data.map_random has them",
        "batch_sampler": "sampler= gives the order, and batch_size the number of samples",
    },
    "Generator": dict.fromkeys(("", "device"), "it takes a seed, and draws for the device of the call that uses it"),
    "compiled": {
        "static_argnums": "ints, bools, strings and other objects are constants of a plan already",
        "static_argnames": "ints, bools, strings and other objects are constants of a plan already",
        "donate_argnums": 'it takes the names of arguments: donate=("x",)',
    },
    "export": {
        "input_names": "inputs have the names of forward's parameters",
        "export_params": "the file always has the parameters",
    },
    "Param": {"requires_grad": "write frozen=True for a parameter that is not to be trained"},
    "randint": {MISSING: "the bounds come first: IntTensor[NumPy].randint(0, 10, (2, 3))"},
    "step": {MISSING: _STEP, "": _STEP, "closure": _STEP, "learning_rate": _STEP, "rate": _STEP},
}
"""For each method: suggestions that apply to its arguments only."""


def call_error(
    name: str,
    parameters: Sequence[Parameter],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    hints: Mapping[str, str] | None = None,
) -> CallError | None:
    """Return the error for a call that does not match the parameters; None if it matches.

    Args:
        name: the name of the function.
        parameters: its parameters, without ``self``.
        args: the positional arguments of the call.
        kwargs: the keyword arguments of the call.
        hints: suggestions by argument name, in addition to those for PyTorch and NumPy; under "" the one for too many
            positional arguments, and under `MISSING` the one for missing arguments.
    """
    try:
        Signature(parameters).bind(*args, **kwargs)
    except TypeError:
        if "axis" in kwargs and "out" in kwargs:  # NumPy's functions pass both on
            return CallError(f"np.{name}() got a tensor, but computes with arrays; write x.{name}()")
        return CallError(f"{name}() {_mistake(parameters, args, kwargs, hints or {})}")
    return None


def method_error(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallError | None:
    """Return the `call_error` of a function, or of a method, whose first argument is the tensor."""
    parameters = [*signature(function).parameters.values()]
    owner, _, name = function.__qualname__.rpartition("<locals>.")[2].rpartition(".")
    shown = name = type(args[0]).__name__ if name == "__init__" else name
    if owner and parameters and parameters[0].name in ("self", "cls"):
        if parameters[0].name == "cls":
            shown = f"{args[0].__name__}.{name}"
        parameters, args = parameters[1:], args[1:]
    taken = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    return call_error(shown, taken, args, kwargs, METHODS.get(name))


def _mistake(
    parameters: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any], hints: Mapping[str, str]
) -> str:
    in_order = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = [key for key in kwargs if key not in names]
    our_names = [_called(key, names) for key in unknown]
    if len(unknown) > 1 and all(our_names):
        return f"does not take {', '.join(unknown)}; they are called {', '.join(filter(None, our_names))} here"
    if unknown:
        return f"does not take {unknown[0]}; {hints.get(unknown[0]) or _instead(unknown[0], parameters, names)}"
    if len(args) > len(in_order) and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        by_name = [f"{key}=" for key in names if key not in in_order]
        others = f"; pass the others by name: {', '.join(by_name)}" if by_name else ""
        hint = f"; {hints['']}" if "" in hints else others
        if in_order == ["shape"] and all(isinstance(size, int) for size in args):
            hint = f"; a shape is one tuple: {args}"
        return f"takes {', '.join(in_order) or 'nothing'} by position, but got {counted(len(args), 'value')}{hint}"
    twice = [key for key in in_order[: len(args)] if key in kwargs]
    if twice:
        return f"got {twice[0]} twice, by position and by name; pass it once"
    passed = {*in_order[: len(args)], *kwargs}
    missing = [p.name for p in parameters if p.default is p.empty and p.name in names and p.name not in passed]
    device_hint = "; device= says where it is: NumPy, or Autodiff[NumPy] to train it" if "device" in missing else ""
    hint_for_missing = f"; {hints[MISSING]}" if MISSING in hints else device_hint
    return f"is missing the argument{'s' * (len(missing) > 1)} {', '.join(missing)}{hint_for_missing}"


def _called(key: str, names: Sequence[str]) -> str | None:
    """Return the name here of an argument ``key`` of PyTorch or NumPy; None if there is none."""
    return next((ours for ours in OURS.get(key, ()) if ours in names), None)


def _instead(key: str, parameters: Sequence[Parameter], names: Sequence[str]) -> str:
    """Return the suggestion for an argument that is not accepted."""
    ours = _called(key, names)
    if ours:
        return f"it is called {ours} here"
    several = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    if several and (key in several or several[0] in OURS.get(key, ())):
        return f"pass it by position, as *{several[0]}"
    suggestion = meant(key, names)
    accepted = [*(f"*{p.name}" for p in parameters if p.kind is p.VAR_POSITIONAL), *names]
    return SENTENCES.get(key) or (
        f"did you mean {suggestion}?" if suggestion else f"it takes {', '.join(accepted) or 'no arguments'}"
    )


def name_arguments(
    error: DeviceError, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Name in the error, in place of the tensors' order, the first argument of a call on each of the two devices. The
    error of an inner call keeps its names if the outer one has no such arguments. The tensor itself of a method is
    called x, as in all messages."""
    if error.mixed is None:
        return
    message, devices = error.mixed
    names: dict[int, str] = {}
    for name, x in _tensors(function, args, kwargs):
        names.setdefault(id(x.device), name)
    if all(id(device) in names for device in devices):
        error.args = (message.format(*[names[id(device)] for device in devices]),)


_CALL = re.compile(r"[a-z][a-z_0-9]*(?=\(\))")
"""The function that the message of an error begins with."""
_NAMING = ("burnpy.fft", "burnpy.linalg", "burnpy.nn", "burnpy.special", "burnpy.tensor")
"""The packages whose functions are computed by operations, and not by functions of the caller."""
_OF_ARGUMENTS = (ArgumentError, DTypeError, DeviceError, DimError, IndexRangeError, KindError, ScalarError, ShapeError)
"""The errors of a wrong argument; others, such as `NonFiniteError`, are about the operation."""


def name_call(error: Exception, function: Callable[..., Any]) -> None:
    """Name a function in the error of an operation that it called, as in ``dist() got shapes …`` for ``sub() …``. Other
    errors stay as they are, and so do those of other packages' functions, and of functions that it takes."""
    if not (isinstance(error, _OF_ARGUMENTS) and function.__module__.startswith(_NAMING) and len(error.args) == 1):
        return
    if any("Callable" in str(annotation) for annotation in function.__annotations__.values()):
        return
    found = _CALL.match(str(error.args[0]))
    if found is not None and found[0] != function.__name__ and not raised_by_other_code(error, OWN_PACKAGES | BACKENDS):
        error.args = (function.__name__ + str(error.args[0])[found.end() :],)


_KINDS: dict[str, tuple[Any, str]] = {
    "int": (Integral, "an int"),
    "float": (Real, "a number"),
    "SupportsFloat": (SupportsFloat, "a number"),
    "str": (str, "a string"),
    "bool": (bool, "True or False"),
    "bytes": (bytes, "bytes"),
    "Path": (PathLike, "a path"),
    "PathLike": (PathLike, "a path"),
    "type": (type, "a class"),
    "Callable": (Callable, "a function"),
    "Initializer": (Callable, "an initializer, such as nn.init.Normal(std=0.02)"),
    "Mapping": (Mapping, "a dict"),
    "dict": (dict, "a dict"),
    "Sequence": ((Sequence, np.ndarray), "a list"),
    "list": (list, "a list"),
    "tuple": (tuple, "a tuple"),
    "Iterable": (Iterable, "a list"),
    "ArrayLike": ((Sequence, np.ndarray, Real), "an array or a list"),
    "NDArray": (np.ndarray, "an array"),
    "None": (NoneType, "None"),
}
"""For an annotation, without its parameters and its module: the types of its values, and the words for them."""
_ITEMS = {"int": " of ints", "float": " of numbers", "str": " of strings", "str | os.PathLike[str]": " of paths"}
"""For the first parameter of a list's or tuple's annotation: the words for the elements."""


def type_error(
    name: str, own: Signature, args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception, module: str
) -> ArgumentError | None:
    """Return the error for the first argument that is not of its annotation's type; None if there is none.

    Errors of other packages' functions, such as those of the caller, are not about the arguments.

    Args:
        name: the name of the function.
        own: its signature.
        args: the positional arguments of the call.
        kwargs: the keyword arguments of the call.
        error: what the call raised: a `TypeError`, a `ValueError`, or an `AttributeError`. If the ``obj`` of this is an
            argument, that is the wrong one.
        module: the name of the function's module, whose names the annotations have.
    """
    try:
        bound = own.bind(*args, **kwargs)
    except TypeError:  # of a decorator that shows the signature of the function that it replaces
        return None
    given: list[tuple[Parameter, Any]] = []
    for key, value in bound.arguments.items():
        parameter = own.parameters[key]
        several = value.values() if parameter.kind is parameter.VAR_KEYWORD else value
        one = parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        given += [(parameter, each) for each in ((value,) if one else several)]
    at_fault = [each for each in given if isinstance(error, AttributeError) and each[1] is error.obj]
    if not at_fault and raised_by_other_code(error, OWN_PACKAGES | BACKENDS):
        return None
    for parameter, value in at_fault or given:
        words = _expected(_parsed(parameter.annotation), value, module, bool(at_fault))
        if words:
            kind, numbers = words.rpartition(" ")[2], isinstance(value, (Real, list, tuple)) or _is_foreign_array(value)
            made = f"; make one of it first: {kind}.from_data(values, device=device)"
            hint = made if kind.endswith("Tensor") and numbers else ""
            return ArgumentError(f"{name}() got {parameter.name}={shown(value)}; expected {words}{hint}")
    return None


def shown(value: Any) -> str:
    """Return a wrong argument for an error message: an array without its elements."""
    if _is_tensor(value) or getattr(value, "shape", None):
        return f"{a(class_name(value))} of shape {tuple(value.shape)}"
    try:
        return f"{' '.join(repr(value).split()):.80}"
    except ValueError:  # an int of more digits than Python converts, or a list that contains one
        return a(class_name(value))


def _parsed(annotation: Any) -> ast.expr:
    """Return the expression of an annotation; ``Any`` if there is none, or it is not an expression, as ``*Ts``."""
    if annotation is Parameter.empty:
        return ast.Name("Any")
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return ast.Name("Any")


def _expected(annotation: ast.expr, value: object, module: str, surely: bool) -> str:
    """Return words for the values that an annotation admits; none if it admits the value, or if that is not known.

    Args:
        annotation: the annotation, as ``int | Sequence[int] | None``.
        value: the argument.
        module: the name of the module that the annotation is written in.
        surely: whether the value is known to be wrong, so that a name of no known meaning is a class that it is not of.
    """
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = _parsed(annotation.value)
    name, items = _name_and_items(annotation)
    if isinstance(annotation, ast.BinOp) or name in ("Union", "Optional"):
        sides = [annotation.left, annotation.right] if isinstance(annotation, ast.BinOp) else items
        none = [ast.Constant(None)] * (name == "Optional")
        words = [_expected(side, value, module, surely) for side in (*sides, *none)]
        return " or ".join(dict.fromkeys(words)) if all(words) else ""
    if name == "Literal":
        admitted = [ast.literal_eval(item) for item in items]
        fits = isinstance(value, (str, int, NoneType)) and value in admitted
        return "" if fits else " or ".join(map(repr, admitted))
    if name in _KINDS:
        types, kind = _KINDS[name]
        item = _ITEMS.get(ast.unparse(items[0]), "") if kind in ("a list", "a tuple") and items else ""
        members = value if isinstance(value, (list, tuple)) and item else ()
        is_text = isinstance(value, str) and "list" in kind and item != " of strings"  # a list of its letters
        is_array = name == "SupportsFloat" and bool(getattr(value, "shape", None))  # it has a __float__ too
        fits = isinstance(value, types) and not any(_expected(items[0], each, module, surely) for each in members)
        return "" if fits and not is_text and not is_array else kind + item
    of_class = name in [cls.__name__ for cls in type(value).__mro__] and (name[-6:] != "Tensor" or _is_tensor(value))
    if name in ("Any", "object") or of_class:
        return ""
    means, home = meaning(name, module)
    if isinstance(means, ast.expr):
        return _expected(means, value, home, surely)
    return a(name) if means or (surely and len(name) > 2) else ""  # a short name is a type variable's


def _name_and_items(annotation: ast.expr) -> tuple[str, list[ast.expr]]:
    """Return the last name of an annotation, and what its brackets hold: "Sequence", [int] of ``Sequence[int]``."""
    base, items = annotation, list[ast.expr]()
    if isinstance(annotation, ast.Subscript):
        base = annotation.value
        items = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    return ast.unparse(base).rpartition(".")[2], items


def _tensors(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors among the arguments of a call, with their names."""
    for name, value in signature(function).bind(*args, **kwargs).arguments.items():
        shown = "x" if name == "self" else name
        if _is_tensor(value):
            yield shown, value
        elif isinstance(value, (list, tuple)):
            yield from ((f"{shown}[{k}]", each) for k, each in enumerate(value) if _is_tensor(each))


def _is_tensor(value: object) -> bool:
    return hasattr(value, "_primitive") and hasattr(value, "device")


def _is_foreign_array(value: object) -> bool:
    return hasattr(value, "__dlpack__") and not _is_tensor(value)


def arguments_of(cls: type) -> dict[str, str]:
    """Return the suggestions for the arguments of a class, including those of its base classes."""
    hints: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        hints |= ARGUMENTS.get(base.__name__, {})
    return hints
