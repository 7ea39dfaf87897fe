"""Differentiation: `Autodiff[B]` records a graph over any backend, and a backward pass returns `Gradients`."""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.autodiff.autodiff": "Autodiff",
    "burnpy.autodiff.balanced": "Balanced",
    "burnpy.autodiff.forward": "Forward",
    "burnpy.autodiff.modes": (
        "enable_grad inference_mode is_grad_enabled is_inference_mode_enabled no_grad set_grad_enabled"
    ),
    "burnpy.autodiff.tools.anomaly": (
        "detect_anomaly is_anomaly_check_nan_enabled is_anomaly_enabled set_detect_anomaly track_lines"
    ),
    "burnpy.autodiff.tools.backward": "backward grad",
    "burnpy.autodiff.tools.checkpoint": "checkpoint checkpoint_sequential",
    "burnpy.autodiff.tools.custom_derivatives": "custom_jvp custom_vjp",
    "burnpy.autodiff.tools.drawing": "to_dot to_mermaid to_svg",
    "burnpy.autodiff.tools.forward_mode": "Unpacked make_dual unpack_dual",
    "burnpy.autodiff.tools.function": "Function",
    "burnpy.autodiff.tools.function_calls": "Context once_differentiable",
    "burnpy.autodiff.tools.grad_fn": "GradFn",
    "burnpy.autodiff.tools.memory_report": "MemoryReport memory_report",
    "burnpy.autodiff.tools.hooks": "HookHandle register_multi_grad_hook",
    "burnpy.autodiff.tools.saved_tensors": "disable_saved_tensors_hooks save_on_cpu save_to_disk saved_tensors_hooks",
    "burnpy.tensor.gradients": "Gradients",
}
"""The public names by module, which ``make generated`` writes into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
