"""The samples of PyTorch's own table of operations give the same values and gradients here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff
from burnpy.backend import NumPy
from burnpy.errors import BurnpyError, DTypeError, KindError
from burnpy.testing.conformance import every_case
from tests.interrupting import LONG
from tests.parity.op_calls import AFTER, CALLS, CLASSES, FACTORIES, call_of, class_of, flat
from tests.parity.op_entries import COMPLEX_TOO, KINDS, OUT, REFUSED, SKIPPED, by_heading, names

torch: Any = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
pytest.importorskip("expecttest", reason="PyTorch's table of operations needs expecttest, of the extra parity")

Train = Autodiff[NumPy]
SAMPLES = (
    {"float64": 8, "complex128": 4, "float32": 3, "int64": 4, "bool": 4}
    if LONG
    else {"float64": 6, "complex128": 3, "float32": 2, "int64": 3, "bool": 2}
)
"""How many samples of an entry are compared, evenly spaced among the first `FIRST`."""
FIRST = 60 if LONG else 30
LAYOUT = frozenset(("device", "memory_format", "layout", "requires_grad", "pin_memory", "non_blocking"))
"""Arguments that do not change values."""
DTYPES = {
    "float": (torch.float64, torch.float32),
    "complex": (torch.complex128,),
    "int": (torch.int64,),
    "bool": (torch.bool,),
}
KIND_OF = by_heading(KINDS)
COMPLEX = names(COMPLEX_TOO)
TRIANGLES = ("cholesky_inverse", "cholesky_solve")
"""Functions of a triangle, whose gradients in PyTorch are of all elements, also of those that are not read."""


HERMITIAN = ("cholesky", "linalg.cholesky", "linalg.cholesky_ex")
"""Functions of Hermitian matrices, for which PyTorch's gradients of complex numbers have another part."""


def kind_of(dtype: Any) -> str:
    if dtype == torch.bool:
        return "bool"
    return "complex" if dtype.is_complex else "float" if dtype.is_floating_point else "int"


def converted(argument: Any, device: Any, leaves: list[Any]) -> Any:
    """An argument for this library; the float tensors that PyTorch differentiates by are added to ``leaves``."""
    if isinstance(argument, torch.Tensor):
        x = CLASSES[kind_of(argument.dtype)].from_data(argument.numpy(force=True).copy(), device=device)
        if argument.requires_grad and kind_of(argument.dtype) in ("float", "complex"):
            x = x.require_grad()
            leaves.append((argument, x))
        return x
    if isinstance(argument, dict):
        return {k: converted(v, device, leaves) for k, v in argument.items() if k not in LAYOUT}
    if isinstance(argument, (list, tuple)):
        members = [converted(member, device, leaves) for member in argument]
        return members if isinstance(argument, list) else tuple(members)
    return np.dtype(str(argument).partition(".")[2]) if isinstance(argument, torch.dtype) else argument


def kinds_of(argument: Any) -> set[str]:
    """The kinds of the tensors, numbers and dtypes among the arguments of a sample; an int is of any kind but bool."""
    if isinstance(argument, dict):
        return set().union(*(kinds_of(v) for k, v in argument.items() if k not in LAYOUT))
    if isinstance(argument, (list, tuple)):
        return set().union(*map(kinds_of, argument))
    if isinstance(argument, (torch.Tensor, torch.dtype)):
        return {kind_of(argument.dtype if isinstance(argument, torch.Tensor) else argument)}
    if isinstance(argument, complex):
        return {"complex"}
    return {"float"} if isinstance(argument, float) else set()


def array(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return (x.float() if x.dtype == torch.bfloat16 else x.detach().resolve_neg().resolve_conj()).numpy(force=True)
    x = x.to_numpy() if hasattr(x, "to_numpy") else np.asarray(x)
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


def compare(ours: Any, theirs: Any, tolerance: float, what: str) -> None:
    x, y = array(ours), array(theirs)
    assert x.shape == y.shape, f"{what}: shapes {x.shape} and {y.shape}"
    assert x.dtype == y.dtype, f"{what}: dtypes {x.dtype} and {y.dtype}"
    if y.dtype.kind not in "fc":
        assert np.array_equal(x, y), f"{what}: ours {x.ravel()[:6]}, PyTorch's {y.ravel()[:6]}"
        return
    size = tolerance * max(1.0, float(np.abs(y[np.isfinite(y)]).max(initial=0.0)))
    close = np.isclose(x, y, rtol=tolerance, atol=size, equal_nan=True)
    assert close.all(), f"{what}: ours {x[~close].ravel()[:6]}, PyTorch's {y[~close].ravel()[:6]}"


def real(x: Any) -> Any:
    """The real part of a sum of complex numbers."""
    return x.real if "complex" in str(x.dtype) else x


def weights_of(y: Any) -> Any:
    angles = torch.arange(1, y.numel() + 1, dtype=y.real.dtype).reshape(y.shape)
    return torch.complex(angles.sin(), angles.cos()) if y.is_complex() else angles.sin()


def compare_gradients(name: str, ours: list[Any], theirs: list[Any], leaves: list[Any], tolerance: float) -> None:
    """Compare the gradients of a weighted sum of all differentiable results."""
    pairs = [(x, y) for x, y in zip(ours, theirs, strict=True) if isinstance(y, torch.Tensor) and y.requires_grad]
    weights = [weights_of(y) for _, y in pairs]
    if not pairs:
        return
    total = sum(real((y * w).sum()) for (_, y), w in zip(pairs, weights, strict=True))
    wanted = torch.autograd.grad(total, [x for x, _ in leaves], allow_unused=True)
    tensors = [CLASSES[kind_of(w.dtype)].from_data(w.numpy(), device=Train) for w in weights]
    losses = [real((x * w).sum()) for (x, _), w in zip(pairs, tensors, strict=True)]
    loss = sum(losses[1:], losses[0])
    grads = loss.backward() if loss.is_require_grad() or loss.grad_fn is not None else None
    for (x, leaf), want in zip(leaves, wanted, strict=True):
        got = None if grads is None else leaf.grad(grads)
        a, b = (np.zeros(x.shape, array(x).dtype) if each is None else array(each) for each in (got, want))
        if name in HERMITIAN:
            a, b = ((x + x.conj().swapaxes(-1, -2)) / 2 for x in (a, b))
        compare(a, np.where(a != 0, b, 0.0) if name in TRIANGLES else b, tolerance, "gradient")


def samples_of(entry: Any, dtype: Any) -> Iterator[Any]:
    from torch.testing._internal.common_utils import set_rng_seed

    set_rng_seed(0)  # NumPy's and Python's generators, too
    differentiated = dtype in (torch.float64, torch.complex128) and entry.supports_autograd
    # sample_inputs() also seeds each sample, and formats the whole stack four times: five times the work of comparing.
    found = list(itertools.islice(entry.sample_inputs_func(entry, "cpu", dtype, differentiated), FIRST))
    count = SAMPLES[str(dtype).partition(".")[2]]
    places = sorted({round(k) for k in np.linspace(0, len(found) - 1, min(count, len(found)))})
    return (found[k] for k in places)


def name_of(entry: Any) -> str:
    return f"{entry.name}_{entry.variant_test_name}" if entry.variant_test_name else str(entry.name)


def dtypes_of(entry: Any) -> list[tuple[str, Any]]:
    """The kinds and dtypes in which an entry is compared."""
    kinds = KIND_OF.get(entry.name, "float").split()
    kinds += ["complex"] if {entry.name, name_of(entry)} & COMPLEX else []
    return [(kind, dtype) for kind in kinds for dtype in DTYPES[kind] if dtype in entry.dtypes]


VALUES_ALONE = {
    "nn.functional.ctc_loss": "PyTorch's gradient is right only for normalized scores, so test_ctc.py composes both",
    **{f"nn.functional.max_unpool{n}d": "of a repeated index the last value alone has a gradient" for n in (1, 2, 3)},
    "bfloat16": "the gradient is rounded",
    "linalg.pinv_hermitian": "PyTorch's gradient is of a function of both triangles",
}
"""Entries whose gradients are not compared, and why."""


def run(entry: Any, sample: Any, dtype: Any, call: Callable[..., Any]) -> None:
    theirs = entry(sample.input, *sample.args, **sample.kwargs)
    leaves: list[Any] = []
    device = Train if dtype in (torch.float64, torch.complex128) else NumPy
    given = converted((sample.input, *sample.args), device, leaves)
    named = converted(sample.kwargs, device, leaves)
    if entry.name in FACTORIES:
        given = (class_of(converted(theirs.dtype, device, [])), device, *given)
    ours = call(*given, **named)
    after = AFTER.get(entry.name, flat)
    ours, theirs = after(ours), after(theirs)
    assert len(ours) == len(theirs), f"{len(ours)} results, PyTorch's are {len(theirs)}"
    tolerance = 1e-7 if dtype.itemsize >= 8 else 2e-4
    for x, y in zip(ours, theirs, strict=True):
        compare(x, y, tolerance, "value")
    if leaves and name_of(entry) not in VALUES_ALONE:
        compare_gradients(name_of(entry), ours, theirs, leaves, tolerance)


def refused(entry: Any, sample: Any, error: Exception) -> bool:
    """Return whether an error is intended: mixed kinds, or an entry of REFUSED."""
    if isinstance(error, (KindError, DTypeError)):
        return len(kinds_of((sample.input, sample.args, sample.kwargs))) > 1 or entry.name in REFUSED
    return isinstance(error, BurnpyError) and REFUSED.get(entry.name, "\0") in str(error)


def described(sample: Any) -> str:
    def short(argument: Any) -> str:
        if isinstance(argument, torch.Tensor):
            return f"{str(argument.dtype).partition('.')[2]}{list(argument.shape)}"
        if isinstance(argument, (list, tuple)):
            return f"({', '.join(map(short, argument))})"
        return repr(argument)[:40]

    return ", ".join(
        [*map(short, (sample.input, *sample.args)), *(f"{k}={short(v)}" for k, v in sample.kwargs.items())]
    )


def compared_samples(entry: Any) -> tuple[int, list[str]]:
    """The number of samples of an entry that agree, and the failures."""
    failures, agreeing = [], 0
    for kind, dtype in dtypes_of(entry):
        call = call_of(name_of(entry), CLASSES[kind]) or call_of(entry.name, CLASSES[kind])
        assert call is not None, f"{entry.name} is in no list of op_entries.py, and there is nothing of this name"
        for sample in samples_of(entry, dtype):
            if entry.name in SKIPPED and SKIPPED[entry.name](sample):
                continue
            try:
                run(entry, sample, dtype, call)
                agreeing += 1
            except Exception as error:
                if not refused(entry, sample, error):
                    failures.append(f"{dtype} {described(sample)}: {type(error).__name__} {error}")
    return agreeing, failures


@pytest.mark.filterwarnings("ignore")  # PyTorch's, about deprecated functions
def test_the_samples_of_all_entries() -> None:
    """Kinds do not mix here, so samples that mix them are refused; REFUSED has other refusals.

    One test goes through all entries, as importing the table takes seconds: only one worker does.
    """
    from torch.testing._internal.common_methods_invocations import op_db

    with every_case() as case:
        for entry in op_db:
            if {entry.name, name_of(entry)} & names(OUT) or not dtypes_of(entry):
                continue
            with case(name_of(entry)):
                agreeing, failures = compared_samples(entry)
                assert not failures, "\n".join(["", *failures])
                assert agreeing, f"no sample of {entry.name} was compared"
        with case("the lists have entries that exist"):
            known = {e.name for e in op_db} | {name_of(e) for e in op_db}
            listed = (
                names(OUT)
                | names(KINDS)
                | REFUSED.keys()
                | SKIPPED.keys()
                | AFTER.keys()
                | CALLS.keys()
                | FACTORIES.keys()
            )
            assert listed <= known, f"not in PyTorch's table: {', '.join(sorted(listed - known))}"
