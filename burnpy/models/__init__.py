"""Architectures that read and write the folders of transformers, and generation of text.

>>> from burnpy.models import ResNet, ResNetConfig
>>> from burnpy.backend import NumPy
>>> model = ResNet(ResNetConfig.of_depth(18), device=NumPy)
>>> model.num_params
11689512
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.lazy import missing
from burnpy.models.config import Config
from burnpy.models.decoder import Decoder
from burnpy.models.gpt2 import Gpt2, Gpt2Config
from burnpy.models.resnet import ResNet, ResNetConfig

__all__ = ["Config", "Decoder", "Gpt2", "Gpt2Config", "ResNet", "ResNetConfig"]

if not TYPE_CHECKING:  # type checkers see only the names above

    def __getattr__(name: str) -> object:
        """Raise an error for an unknown name, with what to write instead."""
        return missing(__name__, name)
