"""ONNX's operators as functions of tensors, which imported models call: inputs by position, attributes by keyword.

An annotation says how an input is passed: `Ints`, `Scalar` and `Numbers` are read from a tensor, as tuples and numbers
of Python and as arrays of NumPy, `Kept` stays where it is, all others are tensors on one device.
"""
