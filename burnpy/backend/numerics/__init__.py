"""Numerical algorithms that backends share: approximations of functions, and linear algebra on the host."""
