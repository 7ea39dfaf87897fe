"""Differentiation: `Autodiff[B]` records a graph over any backend, and a backward pass returns `Gradients`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.functional import backward, grad
from burnpy.autodiff.gradients import Gradients
from burnpy.autodiff.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

if TYPE_CHECKING:
    from burnpy.autodiff.anomaly import (
        detect_anomaly,
        is_anomaly_check_nan_enabled,
        is_anomaly_enabled,
        set_detect_anomaly,
    )
    from burnpy.autodiff.balanced import Balanced
    from burnpy.autodiff.checkpointing import checkpoint, checkpoint_sequential
    from burnpy.autodiff.context import Context
    from burnpy.autodiff.custom import custom_jvp, custom_vjp
    from burnpy.autodiff.duals import Unpacked, make_dual, unpack_dual
    from burnpy.autodiff.forward import Forward
    from burnpy.autodiff.function import Function
    from burnpy.autodiff.group_hooks import register_multi_grad_hook
    from burnpy.autodiff.hooks import HookHandle
    from burnpy.autodiff.looking.drawing import to_dot, to_mermaid, to_svg
    from burnpy.autodiff.looking.memory import MemoryReport, memory_report
    from burnpy.autodiff.looking.views import GradFn
    from burnpy.autodiff.offload import save_on_cpu, save_to_disk
    from burnpy.autodiff.once import once_differentiable
    from burnpy.autodiff.saved import disable_saved_tensors_hooks, saved_tensors_hooks
    from burnpy.autodiff.source_lines import track_lines
    from burnpy.testing.gradcheck import gradcheck, gradgradcheck

__all__ = [
    "Autodiff",
    "Balanced",
    "Context",
    "Forward",
    "Function",
    "GradFn",
    "Gradients",
    "HookHandle",
    "MemoryReport",
    "Unpacked",
    "backward",
    "checkpoint",
    "checkpoint_sequential",
    "custom_jvp",
    "custom_vjp",
    "detect_anomaly",
    "disable_saved_tensors_hooks",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "make_dual",
    "memory_report",
    "no_grad",
    "once_differentiable",
    "register_multi_grad_hook",
    "save_on_cpu",
    "save_to_disk",
    "saved_tensors_hooks",
    "set_detect_anomaly",
    "set_grad_enabled",
    "to_dot",
    "to_mermaid",
    "to_svg",
    "track_lines",
    "unpack_dual",
]

_LATER = {
    "burnpy.autodiff.context": ("Context",),
    "burnpy.autodiff.custom": ("custom_jvp", "custom_vjp"),
    "burnpy.autodiff.duals": ("Unpacked", "make_dual", "unpack_dual"),
    "burnpy.autodiff.forward": ("Forward",),
    "burnpy.autodiff.function": ("Function",),
    "burnpy.autodiff.group_hooks": ("register_multi_grad_hook",),
    "burnpy.autodiff.hooks": ("HookHandle",),
    "burnpy.autodiff.once": ("once_differentiable",),
    "burnpy.autodiff.anomaly": (
        "detect_anomaly",
        "is_anomaly_check_nan_enabled",
        "is_anomaly_enabled",
        "set_detect_anomaly",
    ),
    "burnpy.autodiff.balanced": ("Balanced",),
    "burnpy.autodiff.checkpointing": ("checkpoint", "checkpoint_sequential"),
    "burnpy.autodiff.looking.drawing": ("to_dot", "to_mermaid", "to_svg"),
    "burnpy.autodiff.looking.memory": ("MemoryReport", "memory_report"),
    "burnpy.autodiff.looking.views": ("GradFn",),
    "burnpy.autodiff.offload": ("save_on_cpu", "save_to_disk"),
    "burnpy.autodiff.saved": ("disable_saved_tensors_hooks", "saved_tensors_hooks"),
    "burnpy.autodiff.source_lines": ("track_lines",),
    "burnpy.testing.gradcheck": ("gradcheck", "gradgradcheck"),
}
"""What is imported at first use."""


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            from importlib import import_module

            found = globals()[name] = getattr(import_module(module), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
