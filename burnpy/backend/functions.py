"""Python functions: their signatures, what their annotations mean, and copies of them with some names replaced.

Methods are made by tables as copies. Two hundred methods differ only in the operation that they call. A closure would
look up a cell at every call, and a wrapper costs a frame; here the code object of one function, the template, is copied
with another name in it, so that each copy runs as fast as a method written by hand. Tracebacks show the template's
lines with the names replaced. Where a method must be different code for each operation, as those of `Autodiff` are, it
is generated as source text instead (`burnpy.autodiff.codegen`).
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect import Signature

_NONE: Mapping[str, str] = {}


def copy_function(
    template: Any, name: str, words: Mapping[str, str] = _NONE, namespace: dict[str, Any] | None = None
) -> Any:
    """Return a copy of the function ``template`` that is called ``name``.

    Args:
        template: a function.
        name: the qualified name of the copy, such as ``Tensor.exp``.
        words: the replacements among the names that the function uses (globals, attributes, parameters, variables) and
            among its string constants.
        namespace: the globals of the copy; None for those of the template.

    >>> def call(x):
    ...     return x.METHOD(), "METHOD"
    >>> upper = copy_function(call, "upper", {"METHOD": "upper"})
    >>> upper("abc"), upper.__name__
    (('ABC', 'upper'), 'upper')
    """
    code = template.__code__
    own = name.rpartition(".")[2]
    if words:  # replacing nothing takes its time too, and three hundred methods are copied at import
        filename = f"{code.co_filename} ({name})"
        linecache.cache[filename] = (partial(_source, code.co_filename, words),)  # a lazy entry: read for a traceback
        code = code.replace(
            co_filename=filename,
            co_names=tuple([words.get(n, n) for n in code.co_names]),
            co_varnames=tuple([words.get(n, n) for n in code.co_varnames]),
            co_consts=tuple([words.get(c, c) if type(c) is str else c for c in code.co_consts]),
            co_name=own,
            co_qualname=name,
        )
    copy = FunctionType(
        code, template.__globals__ if namespace is None else namespace, own, template.__defaults__, template.__closure__
    )
    copy.__kwdefaults__, copy.__annotations__ = template.__kwdefaults__, template.__annotations__
    copy.__doc__, copy.__module__, copy.__qualname__ = template.__doc__, template.__module__, name
    vars(copy).update(vars(template))
    return copy


def _source(filename: str, words: Mapping[str, str]) -> str:
    """Return the source of a template's file with some names replaced, for tracebacks."""
    return re.sub(r"\b\w+\b", lambda found: words.get(found[0], found[0]), "".join(linecache.getlines(filename)))


def signature(function: Callable[..., Any]) -> Signature:
    """Return the signature of a function. An annotation that cannot be evaluated stays unevaluated. Python 3.14
    evaluates annotations when they are read, and by default raises a NameError for a name that is only imported ``if
    TYPE_CHECKING``."""
    import inspect  # slow to import, and NumPy 2.0 does without it

    if sys.version_info >= (3, 14):
        from annotationlib import Format

        found = inspect.signature(function, annotation_format=Format.FORWARDREF)
    else:
        found = inspect.signature(function)
    return found


def meaning(name: str, module: str) -> tuple[ast.expr | bool, str]:
    """Return what a name in the annotations of a module means, and the module that defines it.

    It means an expression if it is a type alias, or a type variable with a bound; otherwise whether it is a class.
    Protocols are no classes, and neither is a name that is not found. The source is read, as some names are imported
    for type checkers alone.

    >>> import burnpy.typevars
    >>> bound, home = meaning("M", "burnpy.typevars")
    >>> ast.unparse(bound), home
    ("'Module[Any]'", 'burnpy.typevars')
    """
    found = getattr(sys.modules.get(module), name, None)
    if isinstance(found, type):
        return not getattr(found, "_is_protocol", False), module
    for statement in _statements(module):
        match statement:
            case ast.AnnAssign(
                target=ast.Name(id=alias), annotation=ast.Name(id="TypeAlias"), value=ast.expr() as value
            ):
                if alias == name:
                    return value, module
            case ast.Assign(
                targets=[ast.Name(id=variable)], value=ast.Call(func=ast.Name(id="TypeVar"), keywords=given)
            ):
                if variable == name:
                    return next((each.value for each in given if each.arg == "bound"), False), module
            case ast.ImportFrom(module=str(source), names=names):
                for each in names:
                    if name == (each.asname or each.name):
                        return meaning(each.name, source)
            case _:
                pass
    return False, module


@cache
def _statements(module: str) -> list[ast.stmt]:
    """Return the statements of a module of burnpy, with those that only type checkers execute; none without source."""
    import inspect

    try:
        source = inspect.getsource(sys.modules[module]) if module.startswith("burnpy") else ""
    except (KeyError, OSError, TypeError):
        source = ""
    body = ast.parse(source).body
    return [*body, *(inner for each in body if isinstance(each, ast.If) for inner in each.body)]
