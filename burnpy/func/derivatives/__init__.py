"""Derivatives of functions: gradients, products with Jacobians from both sides, Jacobians and Hessians."""
