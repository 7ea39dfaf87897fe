"""The page ``operations.md``, made from the schema: ``make generated`` writes it anew."""

from __future__ import annotations

from pathlib import Path

from burnpy.autodiff.rule_table import RULES
from burnpy.backend.backend import Backend, operations
from burnpy.backend.entries import EMPTY, Argument, Operation
from burnpy.backend.schema import Algebra, declarations
from burnpy.docs.names_elsewhere import in_burn, in_numpy, in_pytorch
from burnpy.testing.cases.table import ROWS

PAGE = Path(__file__).with_name("operations.md")

_HEAD = """\
# Operations

Made from the declarations in `burnpy/backend/operations` by `make generated`.

There are {total} operations, {required} of them **required**: a backend must write those, and has a default for every
other one, made of required ones. *Gradient* says what `Autodiff` and `Forward` know: **rule**, a rule of its own;
**default**, the rules of the operations its default calls; –, none, since the result carries no gradient. The numbers
behind it are the derivatives that the conformance suite compares with differences, at the examples of
`burnpy.testing.cases`: 1, the first, in reverse and in forward mode (`Autodiff`, `Forward`); 2, the second, in
reverse over reverse and forward over reverse. The kinds of arguments and results are *Float*, *Int*, *Bool*, *Number*
(Float or Int), *Discrete* (Int or Bool) and *Value* (any). The last column has the names of PyTorch (`F` is
`torch.nn.functional`, `x` a tensor), NumPy and Burn for the same, if they have one; arguments may differ.
"""

_COLUMNS = ("operation", "algebra", "gradient", "elsewhere")


def page() -> str:
    """Return the text of the page."""
    table = operations()
    parts = [_HEAD.format(total=len(table), required=sum(op.required for op in table.values()))]
    for family in (*Backend.__bases__, Backend):
        own = [table[name] for name in vars(family) if name in table and name in declarations(family)]
        if own:
            parts.append(f"\n## {family.__name__}\n\n{(family.__doc__ or '').strip().splitlines()[0]}\n")
            parts.append(f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}")
            parts += [_row(op) for op in own]
    return "\n".join(parts) + "\n"


def _row(op: Operation) -> str:
    arguments = ", ".join(_argument(a) for a in op.arguments)
    results = ", ".join(f"{'list of ' if op.lists else ''}{kind or 'value'}" for kind in op.results)
    signature = f"`{op.name}({arguments}) -> {results}`".replace("|", "\\|")
    algebra = op.algebra.value + ", **required**" * op.required
    names = (in_pytorch(op.name), in_numpy(op.name), in_burn(op.name))
    elsewhere = [f"{library}`{name}`" for library, name in zip(("", "", "Burn: "), names, strict=True) if name]
    return f"| {signature}<br>{op.summary} | {algebra} | {_gradient(op)} | {'<br>'.join(elsewhere)} |"


def _gradient(op: Operation) -> str:
    """Return where the gradient comes from, and the orders of the derivatives that the conformance suite checks."""
    if op.algebra is Algebra.NONDIFFERENTIABLE:
        return "–"
    row = ROWS.get(op.name)
    smooth = row is not None and any(row.smooth(example) for example in row.examples.values())
    return f"{'rule' if op.name in RULES else 'default'}{': 1, 2' if smooth else ''}"


def _argument(a: Argument) -> str:
    kind = f": {'list of ' if a.sequence else ''}{a.kind}{' or number' if a.scalar else ''}" if a.kind else ""
    return f"{a.name}{kind}{'' if a.default is EMPTY else f' = {a.default}'}"
