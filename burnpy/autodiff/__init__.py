"""Differentiation: `Autodiff[B]` records a graph over any backend, and a backward pass returns `Gradients`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.lazy import lazy_attributes

if TYPE_CHECKING:
    from burnpy.autodiff.anomaly import (
        detect_anomaly,
        is_anomaly_check_nan_enabled,
        is_anomaly_enabled,
        set_detect_anomaly,
    )
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.autodiff.checkpointing.checkpoint import checkpoint, checkpoint_sequential
    from burnpy.autodiff.custom.context import Context
    from burnpy.autodiff.custom.custom_derivatives import custom_jvp, custom_vjp
    from burnpy.autodiff.custom.function import Function
    from burnpy.autodiff.custom.once_differentiable import once_differentiable
    from burnpy.autodiff.forward.duals import Unpacked, make_dual, unpack_dual
    from burnpy.autodiff.forward.forward import Forward
    from burnpy.autodiff.functional import backward, grad
    from burnpy.autodiff.hooks.group_hooks import register_multi_grad_hook
    from burnpy.autodiff.hooks.tensor_hooks import HookHandle
    from burnpy.autodiff.inspect.grad_fn import GradFn
    from burnpy.autodiff.inspect.layout import to_svg
    from burnpy.autodiff.inspect.memory_report import MemoryReport, memory_report
    from burnpy.autodiff.inspect.render import to_dot, to_mermaid
    from burnpy.autodiff.inspect.track_lines import track_lines
    from burnpy.autodiff.modes import (
        enable_grad,
        inference_mode,
        is_grad_enabled,
        is_inference_mode_enabled,
        no_grad,
        set_grad_enabled,
    )
    from burnpy.autodiff.rematerialize.balanced import Balanced
    from burnpy.autodiff.saved_tensors.hooks import disable_saved_tensors_hooks, saved_tensors_hooks
    from burnpy.autodiff.saved_tensors.offload import save_on_cpu, save_to_disk
    from burnpy.tensor.gradients import Gradients

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
    "burnpy.autodiff.autodiff": ("Autodiff",),
    "burnpy.tensor.gradients": ("Gradients",),
    "burnpy.autodiff.custom.context": ("Context",),
    "burnpy.autodiff.custom.custom_derivatives": ("custom_jvp", "custom_vjp"),
    "burnpy.autodiff.forward.duals": ("Unpacked", "make_dual", "unpack_dual"),
    "burnpy.autodiff.forward.forward": ("Forward",),
    "burnpy.autodiff.custom.function": ("Function",),
    "burnpy.autodiff.functional": ("backward", "grad"),
    "burnpy.autodiff.hooks.group_hooks": ("register_multi_grad_hook",),
    "burnpy.autodiff.hooks.tensor_hooks": ("HookHandle",),
    "burnpy.autodiff.custom.once_differentiable": ("once_differentiable",),
    "burnpy.autodiff.anomaly": (
        "detect_anomaly",
        "is_anomaly_check_nan_enabled",
        "is_anomaly_enabled",
        "set_detect_anomaly",
    ),
    "burnpy.autodiff.rematerialize.balanced": ("Balanced",),
    "burnpy.autodiff.checkpointing.checkpoint": ("checkpoint", "checkpoint_sequential"),
    "burnpy.autodiff.inspect.layout": ("to_svg",),
    "burnpy.autodiff.inspect.render": ("to_dot", "to_mermaid"),
    "burnpy.autodiff.inspect.memory_report": ("MemoryReport", "memory_report"),
    "burnpy.autodiff.inspect.grad_fn": ("GradFn",),
    "burnpy.autodiff.modes": (
        "enable_grad",
        "inference_mode",
        "is_grad_enabled",
        "is_inference_mode_enabled",
        "no_grad",
        "set_grad_enabled",
    ),
    "burnpy.autodiff.saved_tensors.offload": ("save_on_cpu", "save_to_disk"),
    "burnpy.autodiff.saved_tensors.hooks": ("disable_saved_tensors_hooks", "saved_tensors_hooks"),
    "burnpy.autodiff.inspect.track_lines": ("track_lines",),
}
"""The public names by module. All are imported at first use, since the package has parts below and above tensors."""

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, _LATER)
