"""The names of `burnpy.distributed`, made from its table by ``make generated``."""

from burnpy.distributed.elastic import Elastic
from burnpy.distributed.group import DataParallel, Group
from burnpy.distributed.workers import Workers
from burnpy.distributed.zero import ZeroRedundancy

__all__ = [
    "DataParallel", "Elastic", "Group", "Workers", "ZeroRedundancy",
]  # fmt: skip
