"""Forward mode: `Forward[B]` computes a tangent with each value, from the same rules as `Autodiff`."""
