"""Differentiation: `Autodiff[B]` records a graph over any backend, and a backward pass returns `Gradients`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.gradients import Gradients

if TYPE_CHECKING:
    from burnpy.autodiff.anomaly import (
        detect_anomaly,
        is_anomaly_check_nan_enabled,
        is_anomaly_enabled,
        set_detect_anomaly,
    )
    from burnpy.autodiff.custom.context import Context
    from burnpy.autodiff.custom.decorators import custom_jvp, custom_vjp
    from burnpy.autodiff.custom.function import Function
    from burnpy.autodiff.custom.once import once_differentiable
    from burnpy.autodiff.forward.duals import Unpacked, make_dual, unpack_dual
    from burnpy.autodiff.forward.forward import Forward
    from burnpy.autodiff.functional import backward, grad
    from burnpy.autodiff.hooks.group_hooks import register_multi_grad_hook
    from burnpy.autodiff.hooks.tensor_hooks import HookHandle
    from burnpy.autodiff.looking.drawing import to_dot, to_mermaid, to_svg
    from burnpy.autodiff.looking.memory import MemoryReport, memory_report
    from burnpy.autodiff.looking.source_lines import track_lines
    from burnpy.autodiff.looking.views import GradFn
    from burnpy.autodiff.modes import (
        enable_grad,
        inference_mode,
        is_grad_enabled,
        is_inference_mode_enabled,
        no_grad,
        set_grad_enabled,
    )
    from burnpy.autodiff.saving.balanced import Balanced
    from burnpy.autodiff.saving.checkpointing import checkpoint, checkpoint_sequential
    from burnpy.autodiff.saving.offload import save_on_cpu, save_to_disk
    from burnpy.autodiff.saving.saved import disable_saved_tensors_hooks, saved_tensors_hooks

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
    "burnpy.autodiff.custom.context": ("Context",),
    "burnpy.autodiff.custom.decorators": ("custom_jvp", "custom_vjp"),
    "burnpy.autodiff.forward.duals": ("Unpacked", "make_dual", "unpack_dual"),
    "burnpy.autodiff.forward.forward": ("Forward",),
    "burnpy.autodiff.custom.function": ("Function",),
    "burnpy.autodiff.functional": ("backward", "grad"),
    "burnpy.autodiff.hooks.group_hooks": ("register_multi_grad_hook",),
    "burnpy.autodiff.hooks.tensor_hooks": ("HookHandle",),
    "burnpy.autodiff.custom.once": ("once_differentiable",),
    "burnpy.autodiff.anomaly": (
        "detect_anomaly",
        "is_anomaly_check_nan_enabled",
        "is_anomaly_enabled",
        "set_detect_anomaly",
    ),
    "burnpy.autodiff.saving.balanced": ("Balanced",),
    "burnpy.autodiff.saving.checkpointing": ("checkpoint", "checkpoint_sequential"),
    "burnpy.autodiff.looking.drawing": ("to_dot", "to_mermaid", "to_svg"),
    "burnpy.autodiff.looking.memory": ("MemoryReport", "memory_report"),
    "burnpy.autodiff.looking.views": ("GradFn",),
    "burnpy.autodiff.modes": (
        "enable_grad",
        "inference_mode",
        "is_grad_enabled",
        "is_inference_mode_enabled",
        "no_grad",
        "set_grad_enabled",
    ),
    "burnpy.autodiff.saving.offload": ("save_on_cpu", "save_to_disk"),
    "burnpy.autodiff.saving.saved": ("disable_saved_tensors_hooks", "saved_tensors_hooks"),
    "burnpy.autodiff.looking.source_lines": ("track_lines",),
}
"""What is imported at first use."""


def __getattr__(name: str) -> Any:
    from burnpy.backend.doors import opened

    return opened(__name__, _LATER, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
