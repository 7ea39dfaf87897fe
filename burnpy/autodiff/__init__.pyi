"""The names of `burnpy.autodiff`, made from its table by ``make generated``."""

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.balanced import Balanced
from burnpy.autodiff.forward import Forward
from burnpy.autodiff.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from burnpy.autodiff.tools.anomaly import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
    track_lines,
)
from burnpy.autodiff.tools.backward import backward, grad
from burnpy.autodiff.tools.checkpoint import checkpoint, checkpoint_sequential
from burnpy.autodiff.tools.custom_derivatives import custom_jvp, custom_vjp
from burnpy.autodiff.tools.drawing import to_dot, to_mermaid, to_svg
from burnpy.autodiff.tools.forward_mode import Unpacked, make_dual, unpack_dual
from burnpy.autodiff.tools.function import Function
from burnpy.autodiff.tools.function_calls import Context, once_differentiable
from burnpy.autodiff.tools.grad_fn import GradFn
from burnpy.autodiff.tools.hooks import HookHandle, register_multi_grad_hook
from burnpy.autodiff.tools.memory_report import MemoryReport, memory_report
from burnpy.autodiff.tools.saved_tensors import (
    disable_saved_tensors_hooks,
    save_on_cpu,
    save_to_disk,
    saved_tensors_hooks,
)
from burnpy.tensor.gradients import Gradients

__all__ = [
    "Autodiff", "Balanced", "Context", "Forward", "Function", "GradFn", "Gradients", "HookHandle", "MemoryReport",
    "Unpacked", "backward", "checkpoint", "checkpoint_sequential", "custom_jvp", "custom_vjp", "detect_anomaly",
    "disable_saved_tensors_hooks", "enable_grad", "grad", "inference_mode", "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled", "is_grad_enabled", "is_inference_mode_enabled", "make_dual", "memory_report", "no_grad",
    "once_differentiable", "register_multi_grad_hook", "save_on_cpu", "save_to_disk", "saved_tensors_hooks",
    "set_detect_anomaly", "set_grad_enabled", "to_dot", "to_mermaid", "to_svg", "track_lines", "unpack_dual",
]  # fmt: skip
