"""Forward mode: `Forward[B]` carries a tangent beside each value, out of the same rules as `Autodiff`."""
