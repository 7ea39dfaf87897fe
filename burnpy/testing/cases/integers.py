"""Examples of operations of ints."""

from __future__ import annotations

import numpy as np

from burnpy.testing.cases.elementwise import elementwise

elementwise("gcd", np.gcd)
elementwise("lcm", np.lcm)
elementwise("bitwise_left_shift", np.left_shift, y=(0.0, 4.0), special=(0.0, 1.0, -1.0, 5.0, 7.0))
elementwise("bitwise_right_shift", np.right_shift, y=(0.0, 4.0), special=(0.0, 1.0, -1.0, 5.0, 7.0))
