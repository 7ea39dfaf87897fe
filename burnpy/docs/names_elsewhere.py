"""The names that other libraries have for burnpy's public names and for the operations of a backend.

PyTorch's are found in the lists of its names; NumPy's are functions of NumPy of the same name, and Burn's are listed.
Where a name differs from the operation's, it is in a table."""

from __future__ import annotations

import re
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from burnpy.backend.backend import operations
from burnpy.hints import other_names, torch_public_names
from burnpy.hints.missing_names import IN_PLACE, NOTHING, Row, parsed, rows

PAGE = Path(__file__).with_name("from_pytorch") / "tensors.md"
BY_HAND = ("Autograd", "Burn's names")
"""Sections that other pages have in more words."""

PROLOGUE = """\
import math

import numpy as np

import burnpy
from burnpy import Autodiff, BoolTensor, ComplexTensor, IntTensor, Tensor
from burnpy.backend import NumPy

Train = Autodiff[NumPy]
device = Train
x = Tensor[Train].from_data([[0.5, -1.0, 2.0], [3.0, 0.25, -0.5]]).require_grad()
y = Tensor[Train].from_data([[2.0, 1.0, 0.5], [1.0, 4.0, 2.0]])
v, m = x[0], Tensor[Train].eye(3)              # a vector and a matrix
p = x.sigmoid()                                # probabilities
z = x.complex()                                # complex numbers
i = IntTensor[Train].from_data([[0, 1, 0], [1, 0, 1]])
j = i + 1
b, c = x > 0.0, y > 1.0                        # truth values
rows = IntTensor[Train].from_data([1, 0])
array = np.ones((2, 3))
low, high, value, shape = 0.0, 1.0, 0.5, (2, 3)
"""
"""The names that the code in the second column uses, as Python code."""

_HEAD = """\
# Tensor operations

Made from the tables in `burnpy/hints` by `make generated`.

A row for each method of PyTorch's tensors and each of its functions of tensors, with the code to write here, or the
reason why there is none. `x.add_` stands for the form in place, which never is there: tensors do not change.
[autograd.md](autograd.md) has the methods that mark tensors and differentiate.

In the code, `x` and `y` are float tensors of shape (2, 3), `v` is a vector, `m` a matrix, `p` holds probabilities, `i`
and `j` ints, `b` and `c` truth values, `rows` indices:

```python
{prologue}```
"""


def page() -> str:
    """Return the text of the page."""
    table = rows()
    parts = [_HEAD.format(prologue=PROLOGUE)]
    for title in dict.fromkeys(row.section for row in table.values()):
        if title not in BY_HAND:
            own = {name: row for name, row in table.items() if row.section == title}
            parts.append(f"## {title}\n\n| PyTorch | burnpy | where it differs |\n| --- | --- | --- |")
            parts += [line(name, row) for name, row in own.items()]
            parts[-1] += "\n"
    return "\n".join(parts)


def line(name: str, row: Row) -> str:
    """Return a row of a table."""
    ours = f"`{row.ours}`" if row.ours else NOTHING
    why = row.why or _by_itself(name, row.ours)
    if name.endswith("_"):
        why = f"{IN_PLACE}{f'; {why}' if row.why else ''}"
    cells = (", ".join(f"`{each}`" for each in theirs(name)), ours, _sentence(why))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def theirs(name: str) -> list[str]:
    """Return the forms in which PyTorch has a name: method, in-place method, function; NumPy's names unchanged."""
    if name.startswith("torch."):
        return [name]
    of_tensors, of_torch = torch_public_names.TENSOR.split(), torch_public_names.TORCH.split()
    both = (name,) if f"{name}_" in rows() else (name, f"{name}_")
    names = [f"x.{each}" for each in both if each in of_tensors]
    if name in of_torch and f"torch.{name}" not in rows():
        names.append(f"torch.{name}")
    return names or [f"np.{name}" if name in parsed(other_names.NUMPY) else name]


def _by_itself(name: str, ours: str) -> str:
    """Return the remark for code that works as in PyTorch."""
    if re.fullmatch(rf"(?:\w+\.)+{name}\b(\(.*\))?", ours):
        return "the same"
    return "another name" if re.fullmatch(r"(?:\w+\.)+\w+(\([^()]*\))?", ours) else "made of other operations"


def _sentence(text: str) -> str:
    return f"{text[0].upper() if text[0].islower() else text[0]}{text[1:]}."


_PLACES = {
    "torch": torch_public_names.TORCH,
    "torch.linalg": torch_public_names.LINALG,
    "torch.fft": torch_public_names.FFT,
    "F": torch_public_names.FUNCTIONAL,
    "x": torch_public_names.TENSOR,
    "torch.special": torch_public_names.SPECIAL,
}

_PYTORCH = """
normalize –
cast x.to
to_float x.float
to_int x.int
to_bool x.bool
to_numpy x.numpy
clamp_between torch.clamp
accumulate x.add_
slice x[...]
max_dim torch.max
min_dim torch.min
one_hot F.one_hot
attention F.scaled_dot_product_attention
resample F.interpolate
random_uniform torch.rand
random_normal torch.randn
random_integers torch.randint
random_permutation torch.randperm
random_exponential x.exponential_
random_poisson torch.poisson
random_binomial torch.binomial
random_gamma torch._standard_gamma
vector_norm torch.linalg.vector_norm
fft_real torch.fft.fft
frames x.unfold
foreach_mul torch._foreach_mul
foreach_div torch._foreach_div
foreach_add torch._foreach_add
foreach_lerp torch._foreach_lerp
foreach_cast –
foreach_norm torch._foreach_norm
total_norm torch.nn.utils.get_total_norm
"""

_NUMPY = """
from_numpy –
to_numpy –
nonzero argwhere
normalize –
sub subtract
mul multiply
div divide
pow power
neg negative
eq equal
ne not_equal
lt less
le less_equal
gt greater
ge greater_equal
clamp_between clip
clamp_min maximum
clamp_max minimum
cast astype
asin arcsin
acos arccos
atan arctan
asinh arcsinh
acosh arccosh
atanh arctanh
atan2 arctan2
permute transpose
expand broadcast_to
cat concatenate
slice x[...]
index_select take
gather take_along_axis
scatter put_along_axis
index_add add.at
index_put put_along_axis
topk_index argpartition
kthvalue_index argpartition
max_dim max
min_dim min
inv linalg.inv
vector_norm linalg.vector_norm
random_uniform random.uniform
random_normal random.normal
random_integers random.randint
random_permutation random.permutation
random_exponential random.exponential
random_poisson random.poisson
random_binomial random.binomial
random_gamma random.gamma
"""

_BURN = """
from_numpy from_data
to_numpy to_data
to_float float
to_int int
to_bool bool
pow powf
maximum max_pair
minimum min_pair
clamp_between clamp
floor_divide –
eq equal
ne not_equal
lt lower
le lower_equal
gt greater
ge greater_equal
isnan is_nan
isinf is_inf
isfinite is_finite
where mask_where
reciprocal recip
rsqrt –
amax max_dims
amin min_dims
slice_scatter slice_assign
index_select select
index_add select_assign
scatter_add scatter
hardswish hard_swish
resample interpolate
random_uniform random
random_normal random
random_permutation –
max_dim max_dim_with_indices
min_dim min_dim_with_indices
sort sort_with_indices
topk topk_with_indices
nonzero argwhere
conv2d_weight conv2d_weight_backward
"""

_SAME_IN_BURN = """
abs acos acosh adaptive_avg_pool2d add all any arange argmax argmin argsort asin asinh atan atan2 atanh attention
avg_pool2d avg_pool2d_backward bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
cast cat ceil clamp clamp_max clamp_min conv2d cos cosh cummax cummin cumprod cumsum det detach div elu embedding erf
exp expand eye flip floor fmod full gather gelu hardtanh hypot leaky_relu linear log log1p log_softmax matmul
max_pool2d mean mish mul neg one_hot permute prod qr relu remainder reshape round scatter sigmoid sign silu sin sinh
slice softmax softplus sqrt square sub sum tan tanh tril triu trunc var vector_norm
"""


def _table(text: str) -> dict[str, str]:
    pairs = (line.split(" ") for line in text.strip().splitlines())
    return {name: "" if other == "–" else other for name, other in pairs}


_RENAMED = {"PyTorch": _table(_PYTORCH), "NumPy": _table(_NUMPY), "Burn": _table(_BURN)}


def in_pytorch(operation: str) -> str:
    """Return PyTorch's name of an operation, ``F`` being ``torch.nn.functional`` and ``x`` a tensor.

    >>> in_pytorch("matmul"), in_pytorch("solve_triangular"), in_pytorch("cast"), in_pytorch("matmul_nt")
    ('torch.matmul', 'torch.linalg.solve_triangular', 'x.to', '')
    """
    known = _RENAMED["PyTorch"].get(operation)
    if known is not None:
        return known
    return next((f"{place}.{operation}" for place, names in _PLACES.items() if operation in names.split()), "")


def in_numpy(operation: str) -> str:
    """Return NumPy's name of an operation.

    >>> in_numpy("add"), in_numpy("asin"), in_numpy("svdvals"), in_numpy("gelu")
    ('np.add', 'np.arcsin', 'np.linalg.svdvals', '')
    """
    known = _RENAMED["NumPy"].get(operation)
    if known is not None:
        return known if known.startswith("x") or not known else f"np.{known}"
    places = (("np", np), ("np.linalg", np.linalg), ("np.fft", np.fft))
    return next((f"{place}.{operation}" for place, module in places if callable(getattr(module, operation, None))), "")


def in_burn(operation: str) -> str:
    """Return the name that Burn has for an operation: a method of its tensors, or a function of its modules.

    >>> in_burn("matmul"), in_burn("lt"), in_burn("eigh")
    ('matmul', 'lower', '')
    """
    known = _RENAMED["Burn"].get(operation)
    return known if known is not None else operation if operation in _SAME_IN_BURN.split() else ""


_CALL = re.compile(r"(?:\w+\.)*(\w+)(?:\((?:[^()]|\([^()]*\))*\))?")
_DEFAULTS = re.compile(r"(torch|x)\.([gs]et_|.*_$)")
"""Names that change state, and have no counterpart that is one function."""
_OTHER_MEANING = {"select", "split", "put"}
"""Functions of NumPy that do something else than PyTorch's."""
_PACKAGES = {
    "burnpy": ("torch", torch_public_names.TORCH),
    "burnpy.fft": ("torch.fft", torch_public_names.FFT),
    "burnpy.func": ("torch.func", torch_public_names.FUNC),
    "burnpy.linalg": ("torch.linalg", torch_public_names.LINALG),
    "burnpy.nn": ("torch.nn", torch_public_names.NN),
    "burnpy.nn.functional": ("torch.nn.functional", torch_public_names.FUNCTIONAL),
    "burnpy.nn.init": ("torch.nn.init", torch_public_names.INIT),
    "burnpy.optim": ("torch.optim", torch_public_names.OPTIM),
    "burnpy.special": ("torch.special", torch_public_names.SPECIAL),
}
_NUMPY_PACKAGES = {"burnpy": np, "burnpy.fft": np.fft, "burnpy.linalg": np.linalg}


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
    if not pytorch and name in torch_public_names.TENSOR.split():
        pytorch = [f"x.{name}"]
    return Names([each for each in pytorch if each], [each for each in dict.fromkeys(numpy) if _is_function(each)])


def _is_function(name: str) -> bool:
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
    module = _NUMPY_PACKAGES.get(package)
    numpy = [f"np.{package[7:]}{'.' * (package != 'burnpy')}{name}"] if callable(getattr(module, name, None)) else []
    return Names(pytorch, numpy)


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
