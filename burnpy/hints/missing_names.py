"""The errors for missing attributes of packages, tensors and other objects, with what to write instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from itertools import islice
from linecache import getline
from types import CodeType, FrameType
from typing import Any, NamedTuple

from burnpy.backend.errors import MissingNameError
from burnpy.hints import other_names, torch_functions, torch_packages, torch_public_names, torch_tensors

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def meant(name: str, names: Iterable[str]) -> str | None:
    """Return the closest of ``names`` that differs in case, or in one or two letters; None if there is none.

    Names are compared word by word, and numbers must be equal: l1_loss is not nll_loss, and conv1d is not conv2d.

    >>> meant("sofmax", ["softmax"]), meant("RELU", ["Relu"]), meant("l1_loss", ["nll_loss"])
    ('softmax', 'Relu', None)
    """
    candidates: list[tuple[int, str]] = []
    for other in names:
        slips = _slips(name, other)
        if slips is not None:
            candidates.append((slips, other))
    return min(candidates)[1] if candidates else None


def _slips(name: str, other: str) -> int | None:
    """Return the number of letters that differ; None if the names differ too much to be a misspelling."""
    if name.lower().replace("_", "") == other.lower().replace("_", ""):
        return 0
    words, other_words = _words(name), _words(other)
    if len(words) != len(other_words):
        return None
    total, short = 0, 5 if len(words) == 1 else 4  # tan is not tanh, but mse_los is mse_loss
    for word, expected in zip(words, other_words, strict=True):
        if word == expected:
            continue
        if word.isdigit() or expected.isdigit():
            return None
        slips, letters = _distance(word, expected), max(len(word), len(expected))
        if slips > (0 if letters < short else 1 if letters < 6 else 2):
            return None
        total += slips
    return total if total <= 2 else None


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _distance(a: str, b: str) -> int:
    """Return the edit distance of two words, where swapping two adjacent letters counts as one edit."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        last, before, row = before, row, [i + 1]
        for j, y in enumerate(b):
            row.append(min(before[j] + (x != y), before[j + 1] + 1, row[j] + 1))
            if i and j and x == b[j - 1] and a[i - 1] == y:
                row[j + 1] = min(row[j + 1], last[j - 1] + 1)
    return row[-1]


NOTHING = "–"
NOT_YET = "not yet"
IN_PLACE = "nothing is changed in place"


class Row(NamedTuple):
    """The suggestion for one name."""

    section: str
    ours: str
    """Python code; empty if there is no counterpart."""
    why: str
    """The difference, or the reason why there is no counterpart: the end of a sentence, with code in backticks."""


@cache
def rows() -> dict[str, Row]:
    """All rows by the name of the method or function; ``torch.name`` is a function that differs from the method.

    A row that says how to do without an operation is replaced once there is a method of that name.
    """
    table: dict[str, Row] = {}
    texts = (
        torch_tensors.CREATION,
        torch_functions.ROWS,
        torch_tensors.REARRANGEMENT,
        other_names.NUMPY,
        other_names.BURN,
    )
    for text in texts:
        section_rows = parsed(text)
        duplicates = table.keys() & section_rows.keys()
        if duplicates:
            raise ValueError(f"the table of PyTorch's names has two rows for {', '.join(sorted(duplicates))}")
        table |= section_rows
    return table | {name: row for name, old in table.items() if (row := _by_method(name, old)) is not None}


def _by_method(name: str, row: Row) -> Row | None:
    """Return the row of an elementwise operation that is a method of float tensors, in place of one without it."""
    classes = import_module("burnpy.tensor").Tensor.__mro__  # by name, since packages above this one are meant
    operation = import_module("burnpy.backend.backend").operations().get(name)
    has_method = any(name in vars(cls) for cls in classes)  # asking Tensor for a missing name would read this table
    if operation is None or not operation.elementwise or not has_method or f".{name}(" in row.ours:
        return None
    if any(argument.kind is None for argument in operation.arguments):
        return None
    return Row(row.section, f"x.{name}({', '.join('y' for _ in operation.arguments[1:])})", "")


@cache
def parsed(text: str) -> dict[str, Row]:
    """Parse one table, whose lines are ``name | what to write | what differs``, or ``# section`` for a heading."""
    table: dict[str, Row] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("# "):
            section = line[2:]
        elif line:
            name, ours, why = (*line.split(" | ", 2), "")[:3]
            if name in table:
                raise ValueError(f"the table of PyTorch's names has two rows for {name}")
            table[name] = Row(section, "" if ours == NOTHING else ours, why)
    return table


def row_of(name: str, *, function: bool = False) -> Row | None:
    """Return the row of a method or a function; an in-place name such as ``add_`` has the row of the name without _.

    >>> row_of("add_").ours
    'x = x.add(y)'
    """
    all_rows = rows()
    row = (all_rows.get(f"torch.{name}") if function else None) or all_rows.get(name)
    if row is None and name.endswith("_") and not name.startswith("_"):
        row = all_rows.get(name[:-1])
        if row is not None and row.ours:
            target = "b" if row.ours.startswith("b.") else "i" if row.ours.startswith("i.") else "x"
            row = row._replace(ours=f"{target} = {row.ours}", why=IN_PLACE)
    return row


def advice(row: Row) -> str:
    """Return a row as the end of an error message.

    >>> advice(rows()["clip"]), advice(rows()["stft"])
    ('; write x.clamp(low, high)', '; write burnpy.fft.stft(v, 2) (its result is a ComplexTensor)')
    """
    why = row.why.replace("`", "").replace(NOT_YET, "it is not here yet", 1)
    if row.ours:
        return f"; write {row.ours}{f' ({why})' if why else ''}"
    return f"; {why}"


_PACKAGES = {
    "burnpy": (torch_packages.BURNPY, torch_public_names.TORCH),
    "burnpy.nn": (torch_packages.NN, torch_public_names.NN),
    "burnpy.nn.functional": (torch_packages.FUNCTIONAL, torch_public_names.FUNCTIONAL),
    "burnpy.nn.init": (torch_packages.INIT, torch_public_names.INIT),
    "burnpy.optim": (torch_packages.OPTIM, torch_public_names.OPTIM),
    "burnpy.func": (torch_packages.FUNC, torch_public_names.FUNC),
    "burnpy.fft": (torch_packages.FFT, torch_public_names.FFT),
    "burnpy.distributions": (torch_packages.DISTRIBUTIONS, ""),
    "burnpy.distributions.bijections": (torch_packages.DISTRIBUTIONS, ""),
    "burnpy.linalg": (torch_packages.LINALG, torch_public_names.LINALG),
    "burnpy.special": (torch_packages.SPECIAL, torch_public_names.SPECIAL),
    "burnpy.autodiff": (torch_packages.AUTODIFF, ""),
    "burnpy.data": (torch_packages.DATA, ""),
    "burnpy.distributed": (torch_packages.DISTRIBUTED, ""),
    "burnpy.metrics": (torch_packages.METRICS, ""),
    "burnpy.models": (torch_packages.MODELS, ""),
    "burnpy.testing": (torch_packages.TESTING, ""),
    "burnpy.train": (torch_packages.TRAIN, ""),
}
"""For each package of burnpy: the table of suggestions, and the names that PyTorch has in the corresponding package."""
_ROOMS = tuple(
    f"burnpy.{room}"
    for room in (
        *("nn", "nn.functional", "nn.init", "optim", "func", "fft", "linalg", "distributions", "special"),
        *("autodiff", "backend", "record", "testing"),
    )
)


def from_package(package: str, name: str) -> AttributeError:
    """Return the error for a name that a package does not have."""
    if name.startswith("__"):  # Python's own modules probe for such names
        return AttributeError(f"module {package!r} has no attribute {name!r}")
    return MissingNameError(lambda: f"{package} has no {name}{_of_package(package, name)}")


def of_tensor(owner: str, name: str, caller: FrameType) -> MissingNameError:
    """Return the error for an attribute of PyTorch or NumPy that tensors of class ``owner`` do not have."""
    code, instruction = caller.f_code, caller.f_lasti  # and not the frame, which would keep the caller's values alive

    def message() -> str:
        row = row_of(name)
        if row is not None and name == "view" and (sizes := _arguments(code, instruction, name)):
            row = row._replace(ours=f"x.reshape{sizes}")
        room = _room_of(name.removesuffix("_"), of_tensors=True)
        if room and not (row and row.why):
            return f"{owner} has no {name}; write {room}.{name.removesuffix('_')}(...)"
        return f"{owner} has no {name}{advice(row) if row else _THEIRS}"

    return MissingNameError(message)


def _arguments(code: CodeType, instruction: int, name: str) -> str:
    """Return the arguments of the method that an instruction reads, in parentheses, as they are written, or ""."""
    _, line, _, column = next(islice(code.co_positions(), instruction // 2, None))
    if line is None or column is None:
        return ""
    text = getline(code.co_filename, line).encode()
    rest = text[column:].decode(errors="replace")
    if not text[:column].endswith(f".{name}".encode()):  # read by `getattr`
        return ""
    for end in (match.end() for match in re.finditer(r"\)", rest)):
        try:
            if isinstance(ast.parse(f"{name}{rest[:end]}", mode="eval").body, ast.Call):
                return rest[:end]
        except SyntaxError:  # the parenthesis closes another one
            continue
    return ""


def of_object(owner: object, name: str) -> MissingNameError:
    """Return the error for an attribute that an object, such as a module or an optimizer, does not have."""
    return MissingNameError(lambda: f"{type(owner).__name__} has no {name}{_of_object(owner, name)}")


_THEIRS = "; it is PyTorch's, and not here yet"


def _of_package(package: str, name: str) -> str:
    of_tensors = package in ("burnpy", "burnpy.tensor")
    table, pytorch_names = _PACKAGES.get(package, ("", torch_public_names.TORCH))
    row = parsed(table).get(name) or parsed(table).get(name.removesuffix("_")) or parsed(table).get(f"{name}_")
    if row is not None:
        return advice(row)
    row = row_of(name, function=True) if of_tensors else None
    if row is not None and f"torch.{name}" in rows():
        return advice(row)
    has_methods = of_tensors or package == "burnpy.nn.functional"
    different = row is not None and f".{name}" not in row.ours  # such as torch.inner, which is not x.inner()
    method = _method(name.removesuffix("_")) if has_methods and not different else ""
    if method:
        return method
    if name.endswith("_") and name[:-1] in _public(package):
        return f"; write x = {name[:-1]}(x) ({IN_PLACE})"
    row = row or row_of(name)
    if row is not None:
        return advice(row)
    room = _room_of(name)
    if room:
        return f"; use {room}.{name}"
    if any(name in each.split() for each in (pytorch_names, *(each for _, each in _PACKAGES.values()))):
        return _THEIRS
    suggestion = meant(name, _public(package))
    if suggestion is None and has_methods:
        suggestion = meant(name, [each for each in dir(_kinds()[0]) if not each.startswith("_")])
        return f"; did you mean x.{suggestion}?" if suggestion else ""
    return f"; did you mean {suggestion}?" if suggestion else ""


def _room_of(name: str, *, of_tensors: bool = False) -> str | None:
    """Return the package below `burnpy` that has a public name, for tensors or at all; None if there is none."""
    rooms = [room for room in _ROOMS if not of_tensors or room != "burnpy.func"]  # of functions
    return next((room for room in rooms if name in _public(room)), None)


def _kinds() -> tuple[Any, ...]:
    tensor: Any = import_module("burnpy.tensor")
    return tensor.Tensor, tensor.IntTensor, tensor.BoolTensor, tensor.ComplexTensor


def _method(name: str) -> str:
    """Return the suggestion for a function that is a method of tensors here; an empty string if it is not one."""
    row = row_of(name)
    for cls, x in zip(_kinds(), "xibz", strict=True):
        attribute: Any = getattr(cls, name, None)
        if isinstance(attribute, property):
            return f", which is an attribute: {x}.{name}"
        if hasattr(attribute, "__self__"):  # a classmethod
            return advice(row) if row else f"; write {cls.__name__}.{name}(..., device=device)"
        if attribute is not None:
            return f", which is a method: {row.ours if row and f'.{name}(' in row.ours else f'{x}.{name}(...)'}"
    return ""


def _public(package: str) -> list[str]:
    """Return the public names of a package."""
    module = import_module(package)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == package]
    return list(getattr(module, "__all__", own))


def _of_object(owner: object, name: str) -> str:
    tables = [_ATTRIBUTES.get(base.__name__, {}) for base in type(owner).__mro__]
    hint = next((table[name] for table in tables if name in table), None)
    if hint:
        return f"; {hint}"
    value = vars(type(owner)).get("value") or getattr(type(owner), "value", None)
    if value is not None and hasattr(type(getattr(owner, "value", None)), name):
        return f", but its tensor has: .value.{name}"
    if value is not None and (row := row_of(name)) is not None:
        return advice(row).replace("; write", "; with x = param.value write", 1)
    known = [each for each in [*getattr(owner, "__dict__", ()), *dir(type(owner))] if not each.startswith("_")]
    suggestion = meant(name, known)
    return f"; did you mean {suggestion}?" if suggestion else ""


_GRADIENTS = "gradients are not stored: loss.backward() returns them"
_ATTRIBUTES: dict[str, dict[str, str]] = {
    "ModuleBase": {
        "parameters": "use model.params()",
        "named_parameters": "use model.named_params()",
        "buffers": "use model.named_buffers()",
        "modules": "use model.named_modules()",
        "children": "use model.named_modules()",
        "state_dict": "use model.into_record(), of arrays, or model.state(), of tensors",
        "load_state_dict": "use model.load_record(record); for PyTorch's, burnpy.record.from_torch(model, …)",
        "zero_grad": _GRADIENTS,
        "training": "use model.is_training",
        "compile": "use burnpy.compiled(model), and to train compile the whole step",
        "requires_grad_": "use model.no_grad(where) and model.require_grad(where)",
        "apply": "use model.map(f), which returns another model",
        **dict.fromkeys(("to", "cuda", "cpu"), "use model.to_device(device), and for dtypes model.astype(dtype)"),
        **dict.fromkeys(("float", "double", "half", "bfloat16", "type", "to_dtype"), "use model.astype(dtype)"),
        "register_buffer": "assign a Buffer in __init__",
        "register_parameter": "assign a Param in __init__",
        "add_module": "assign it in __init__, or use model.replace({path: module})",
        "append": "make another: Sequential(*model, layer)",
        "named_children": "use model.named_modules()",
        **dict.fromkeys(("get_parameter", "get_buffer"), "use model.named_params()[path]"),
        "get_submodule": "use model.named_modules()[path]",
        **dict.fromkeys(("num_parameters", "count_params"), "use model.num_params"),
        "freeze": "use model.no_grad(where), which returns another model",
        "unfreeze": "use model.require_grad(where), which returns another model",
        **dict.fromkeys(("copy", "clone"), "a module never changes, so that the module itself is as good as a copy"),
        "share_memory": "modules are pickled, and never change",
    },
    "Optimizer": {
        "zero_grad": _GRADIENTS,
        "state_dict": "use optim.into_record()",
        "load_state_dict": "use optim.load_record(record, model)",
        "param_groups": "use optim.groups, and pass the rate to each step",
        **dict.fromkeys(("lr", "defaults"), "the rate is an argument of each step"),
        "add_param_group": "give groups=[Group(where, …)] when it is made",
    },
    "LrSchedule": {
        "step": "a schedule has no state: count the steps, and pass its rate: optim.step(schedule(step), model, grads)",
        **dict.fromkeys(("get_last_lr", "get_lr"), "use schedule(step), the rate of a step"),
        "last_epoch": "a schedule has no state; count the steps yourself",
        "state_dict": "a schedule has no state: save the number of the step, and the schedule by pickle",
        "load_state_dict": "a schedule has no state: call schedule(step) with the number of the step",
    },
    "ReduceOnPlateau": {
        "step": "use plateau = plateau.observe(loss), which returns the next",
        **dict.fromkeys(("get_last_lr", "get_lr"), "use plateau.lr"),
        "state_dict": "it is a value: save it by pickle",
    },
    "Distribution": {
        "std": "use d.stddev",
        "var": "use d.variance",
        **dict.fromkeys(("prob", "pdf", "pmf"), "use d.log_prob(x).exp()"),
        **dict.fromkeys(("log_pdf", "logpdf", "log_pmf", "logpmf"), "use d.log_prob(x)"),
        **dict.fromkeys(("rvs", "sample_n"), "use d.sample((n,))"),
        "rsample": "its samples have no gradients of the parameters; use d.sample(), and the gradient of d.log_prob(x)",
        "rsample_n": "use d.rsample((n,))",
        "has_rsample": "use hasattr(d, 'rsample')",
        "to_event": "use d.independent(n)",
        "ppf": "use d.icdf(p)",
        "sf": "use 1.0 - d.cdf(x)",
        "perplexity": "use d.entropy().exp()",
        **dict.fromkeys(("support", "arg_constraints"), "messages name the constraint of a parameter"),
    },
    "Metric": {
        **dict.fromkeys(("compute", "result", "item"), "use metric.value()"),
        **dict.fromkeys(("update", "add_batch", "update_state"), "add what of() returns: total = total + Mean.of(x)"),
        **dict.fromkeys(("reset", "reset_states"), "a metric is a value, and never changes; begin with another one"),
        "to": "its sums are on the device of the predictions",
    },
    "Pretrained": {
        "generate": "use burnpy.models.generate(model, tokens, max_new=100), of a decoder",
        "push_to_hub": "nothing is sent or downloaded; use model.save_pretrained(folder)",
    },
    "Initializer": dict.fromkeys(("init", "init_with", "sample"), "call it: initializer(shape, device=device)"),
    "Ema": {
        **dict.fromkeys(("module", "average", "ema_model", "shadow"), "use ema.model"),
        **dict.fromkeys(("update_parameters", "step"), "use ema = ema.update(model)"),
        "state_dict": "save ema.model and ema.updates",
    },
    "GradScaler": {
        "step": "use grads, scaler = scaler.unscale(grads), and then model = optim.step(rate, model, grads)",
        "update": "unscale() returns the next scaler: grads, scaler = scaler.unscale(grads)",
        "unscale_": "use grads, scaler = scaler.unscale(grads)",
        "get_scale": "use scaler.loss_scale",
        "state_dict": "use scaler.into_record()",
        "load_state_dict": "use scaler.load_record(record)",
    },
    "Variable": {
        "grad": _GRADIENTS,
        "data": "use param.value",
        **dict.fromkeys(
            ("requires_grad", "requires_grad_", "no_grad", "require_grad"),
            "use model.no_grad(where) or model.require_grad(where), which return another model",
        ),
    },
}
"""Suggestions by attribute name, for objects of each class and of its subclasses."""
