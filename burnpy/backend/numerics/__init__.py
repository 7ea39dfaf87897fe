"""Numerical algorithms that backends share: approximations, linear algebra and Fourier transforms on the host."""
