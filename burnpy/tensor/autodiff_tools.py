"""Lazy imports of the tools of `burnpy.autodiff` for the methods of tensors: the only imports in that direction.

The tools are made of tensors, and so import them; tensors have methods that call the tools. These methods import the
names below from this module, which imports each at its first use. Nothing else in `burnpy.tensor` knows of the tools:
`tests/test_import_direction.py` asserts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.lazy import lazy_attributes

if TYPE_CHECKING:
    from burnpy.autodiff.tools.backward import reporting
    from burnpy.autodiff.tools.grad_fn import GradFn, grad_fn_of
    from burnpy.autodiff.tools.hooks import HookHandle, hook_gradient, hook_node

__all__ = ["GradFn", "HookHandle", "grad_fn_of", "hook_gradient", "hook_node", "reporting"]

_NAMES = {
    "burnpy.autodiff.tools.backward": "reporting",
    "burnpy.autodiff.tools.hooks": "HookHandle hook_gradient hook_node",
    "burnpy.autodiff.tools.grad_fn": "GradFn grad_fn_of",
}
"""The names, by the module that defines them."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, _NAMES)
