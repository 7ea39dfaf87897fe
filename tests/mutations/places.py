"""Places in the source that mutations change: found by syntax, named by file, function and text, picked by a seed."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

WEIGHTS = {
    "burnpy/autodiff": 2,
    "burnpy/backend": 1,
    "burnpy/backend/decorators": 1,
    "burnpy/backend/numerics": 1,
    "burnpy/backend/operations": 10,
    "burnpy/backend/programs": 1,
    "burnpy/fft": 1,
    "burnpy/func": 1,
    "burnpy/linalg": 1,
    "burnpy/nn": 1,
    "burnpy/nn/layers": 5,
    "burnpy/optim": 3,
    "burnpy/tensor": 4,
    "backends/burnpy_array": 4,
    "backends/burnpy_numpy": 3,
    "backends/burnpy_numpy/kernels": 3,
}
"""The folders that are mutated, each with those below it that are not listed, and their shares of the places."""

CALLS = {"add": "sub", "sub": "add", "mul": "div", "div": "mul"}
ORDERED = {"sub", "div", "pow", "matmul", "matmul_nt", "matmul_tn", "lt", "le", "gt", "ge", "atan2", "floor_divide"}
OPERATORS: dict[type[ast.AST], tuple[str, str, str]] = {
    ast.Add: ("sign", "+", "-"),
    ast.Sub: ("sign", "-", "+"),
    ast.Mult: ("sign", "*", "/"),
    ast.Div: ("sign", "/", "*"),
    ast.Lt: ("bound", "<", "<="),
    ast.LtE: ("bound", "<=", "<"),
    ast.Gt: ("bound", ">", ">="),
    ast.GtE: ("bound", ">=", ">"),
}
LLVM = {"fadd": "fsub", "fsub": "fadd", "fmul": "fadd", "olt": "ole", "ogt": "oge", "ole": "olt", "oge": "ogt"}
UNSEEN = re.compile(r"TypeVar|PER_ELEMENT|_PACKED|_share\(|threads\.")
"""Lines that concern types or how work is divided: changing them changes no result."""
DTYPES = {"float64": "float32", "int64": "int32"}
SETTINGS = {"dim", "dims", "dtype", "keepdim", "shape"}
"""Arguments that raise an error at once where an array is expected."""
KINDS = ("sign", "value", "bound", "message", "dtype", "condition", "default")


@dataclass(frozen=True)
class Place:
    """One change of the source. Trees in which its function has the same text have the same place."""

    kind: str
    file: str
    function: str
    line: str
    before: str
    after: str
    nth: int  #: which of the equal ones in the function
    start: int = field(compare=False)
    end: int = field(compare=False)

    def applied(self, source: bytes) -> bytes:
        """Return the source of the file with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    @property
    def order(self) -> str:
        """The text by which a seed orders the places."""
        return "\n".join([self.kind, self.file, self.function, self.line, self.before, self.after, str(self.nth)])


class Finder(ast.NodeVisitor):
    """Collects the places of one file."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source, self.places = file, source, list[Place]()
        self.lines = source.splitlines(keepends=True)
        self.starts = [0, *accumulate(map(len, self.lines))]
        self.names: list[str] = []
        self.seen: Counter[tuple[str, ...]] = Counter()
        self.visit(ast.parse(source))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where the text of a node begins and ends, in bytes."""
        first, last = getattr(node, "lineno", 1) - 1, getattr(node, "end_lineno", 1) - 1
        start = self.starts[first] + int(getattr(node, "col_offset", 0))
        return start, self.starts[last] + int(getattr(node, "end_col_offset", 0))

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def add(self, kind: str, start: int, end: int, after: str) -> None:
        """Note that the text from start to end can be replaced."""
        line = self.lines[self.source.count(b"\n", 0, start)].decode().strip()
        if UNSEEN.search(line):
            return
        key = (kind, self.file, ".".join(self.names), line, self.source[start:end].decode(), after)
        self.places.append(Place(*key, self.seen[key], start, end))
        self.seen[key] += 1

    def replace(self, kind: str, node: ast.AST, after: str) -> None:
        self.add(kind, *self.span(node), after)

    def operator(self, left: ast.AST, op: ast.AST, right: ast.AST) -> None:
        """Note the operator between two nodes."""
        if type(op) not in OPERATORS:
            return
        kind, before, after = OPERATORS[type(op)]
        start, end = self.span(left)[1], self.span(right)[0]
        at = start + self.source[start:end].find(before.encode())
        self.add(kind, at, at + len(before), after)

    def swap(self, first: ast.AST, second: ast.AST) -> None:
        """Note that two arguments can change places."""
        (start, begin), (stop, end) = self.span(first), self.span(second)
        if self.text(first) != self.text(second):
            self.add("value", start, end, self.text(second) + self.source[begin:stop].decode() + self.text(first))

    def inside(self, name: str, nodes: list[ast.AST]) -> None:
        self.names.append(name)
        for node in nodes:
            self.visit(node)
        self.names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        defaults = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        for default in defaults:
            self.flip(default)
        self.inside(node.name, [*node.decorator_list, *defaults, *node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.inside(node.name, [*node.body])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and not self.text(node.annotation).startswith("TypeAlias"):
            self.flip(node.value)
            self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if self.text(node.test) != "TYPE_CHECKING":
            self.replace("condition", node.test, f"not ({self.text(node.test)})")
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.replace("condition", node.test, f"not ({self.text(node.test)})")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        literals = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)]
        words = re.findall(r"(?<!\w)[a-z]{4,}(?![\w(])", " ".join(literals))
        words = [word for word in words if self.text(node).count(word) == 1]
        if words:
            at = self.span(node)[0] + self.text(node).encode().find((word := max(words, key=len)).encode())
            self.add("message", at, at + len(word), "other")

    def visit_Call(self, node: ast.Call) -> None:
        name, args = node.func.attr if isinstance(node.func, ast.Attribute) else "", node.args
        if name in CALLS and len(args) == 2:
            end = self.span(node.func)[1]
            self.add("sign", end - len(name), end, CALLS[name])
        if name == "neg" and len(args) == 1:
            self.replace("sign", node, self.text(args[0]))
        if name in ORDERED and len(args) > 1:
            self.swap(args[0], args[1])
        if name == "where" and len(args) == 3:
            self.swap(args[1], args[2])
        helps = isinstance(node.func, ast.Name) and len(args) > 2 and self.text(args[0]) in ("i", "self", "b", "d")
        if helps and all(isinstance(a, ast.Name) and a.id not in SETTINGS for a in args[-2:]):
            self.swap(args[-2], args[-1])
        for argument in [*args, *(keyword.value for keyword in node.keywords if keyword.arg != "strict")]:
            self.flip(argument)
        self.generic_visit(node)

    def flip(self, node: ast.AST) -> None:
        """Note a True or a False."""
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            self.replace("default", node, str(not node.value))

    def visit_Lambda(self, node: ast.Lambda) -> None:
        names = [argument.arg for argument in node.args.args]
        if names[:1] == ["i"] and len({"x", "out"} & {*names}) == 1:
            before, after = ("x", "out") if "x" in names else ("out", "x")
            self.replace("value", node, re.sub(rf"\b{before}\b", after, self.text(node)))
        self.visit(node.body)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        sides = (node.left, node.right)
        if not any(
            isinstance(s, ast.Tuple | ast.List | ast.JoinedStr | ast.Constant) and not _number(s) for s in sides
        ):
            self.operator(node.left, node.op, node.right)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self.operator(left, op, right)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, int) and _number(node):
            self.replace("bound", node, str(node.value + 1))
        self.name(node, str(node.value))
        self.instruction(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.instruction(node)  # what stands inside has no reliable positions before Python 3.12

    def instruction(self, node: ast.AST) -> None:
        """Note an instruction in the text of a kernel."""
        for match in re.finditer(r"\b(?:fadd|fsub|fmul|olt|ogt|ole|oge)\b", self.text(node)):
            at = self.span(node)[0] + len(self.text(node)[: match.start()].encode())
            self.add("sign" if match[0][0] == "f" else "bound", at, at + len(match[0]), LLVM[match[0]])

    def visit_Name(self, node: ast.Name) -> None:
        self.name(node, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.name(node, node.attr)
        self.generic_visit(node)

    def name(self, node: ast.AST, name: str) -> None:
        """Note a dtype. An index that is int32 selects the same, so int64 counts where users see what is made."""
        if name == "float64" or (name == "int64" and self.file.startswith(("burnpy/tensor", "burnpy/nn"))):
            self.replace("dtype", node, self.text(node).replace(name, DTYPES[name]))


def _number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def folder_of(file: str) -> str:
    """Return the listed folder that a file belongs to; "" for none."""
    return max((folder for folder in WEIGHTS if file.startswith(folder + "/")), key=len, default="")


def found_in(root: Path) -> Iterator[Place]:
    """Yield the places of a tree."""
    for path in sorted([*root.glob("burnpy/**/*.py"), *root.glob("backends/**/*.py")]):
        if folder_of(file := path.relative_to(root).as_posix()):
            yield from Finder(file, path.read_bytes()).places


def picked(places: list[Place], count: int, seed: int) -> list[Place]:
    """Return as many places of each kind, from the folder that has the fewest for its share.

    The order is one of hashes, so that places which come or go elsewhere move few others.
    """
    rank = {place: hashlib.sha256(f"{seed}\n{place.order}".encode()).hexdigest() for place in places}
    left, taken = sorted(places, key=rank.__getitem__), Counter[str]()
    chosen: list[Place] = []
    while left and len(chosen) < count:
        of_kind = [place for place in left if place.kind == KINDS[len(chosen) % len(KINDS)]]
        place = min(of_kind or left, key=lambda p: taken[folder_of(p.file)] / WEIGHTS[folder_of(p.file)])
        left.remove(place)
        taken[folder_of(place.file)] += 1
        chosen.append(place)
    return chosen
