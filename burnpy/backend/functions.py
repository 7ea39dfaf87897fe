"""Python functions: their signatures, and copies of them with some names replaced.

Methods are made by tables as copies. Two hundred methods differ only in the operation that they call. A closure would
look up a cell at every call, and a wrapper costs a frame; here the code object of one function, the template, is copied
with another name in it, so that each copy runs as fast as a method written by hand. Tracebacks show the template's
lines with the names replaced. Where a method must be different code for each operation, as those of `Autodiff` are, it
is generated as source text instead (`burnpy.autodiff.codegen`).
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType
from typing import Any

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


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function. An annotation that cannot be evaluated stays unevaluated.

    Python 3.14 evaluates annotations when they are read, and by default raises a NameError for a name that is only
    imported ``if TYPE_CHECKING``.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        found = inspect.signature(function, annotation_format=Format.FORWARDREF)
    else:
        found = inspect.signature(function)
    return found
