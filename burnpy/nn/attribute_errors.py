"""The errors for missing attributes of modules, variables and optimizers."""

from __future__ import annotations

from typing import Any


def missing_attribute(owner: Any, kind: str, name: str) -> AttributeError:
    """Return the AttributeError for a missing attribute, with a hint at the equivalent name in burnpy.

    Args:
        owner: the object without the attribute: a module, an optimizer or a variable.
        kind: the key of the table of PyTorch's methods to look the name up in, such as "Module".
        name: the missing attribute.
    """
    if name.startswith("_"):  # `copy`, `pickle` and NumPy probe for such names
        return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}", name=name, obj=owner)
    from burnpy.hints.missing import of_object

    return of_object(owner, kind, name)
