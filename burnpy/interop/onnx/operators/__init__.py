"""ONNX's operators, one file a family: as functions of tensors for imported models, and as rules that export writes.

A function with the decorator `operator` computes one: inputs by position, attributes by keyword. An annotation says how
an input is passed: `Ints`, `Scalar` and `Numbers` are read from a tensor, as tuples and numbers of Python and as arrays
of NumPy, `Kept` stays where it is, all others are tensors on one device.

A function ``write_name`` is the rule that the declaration of an operation names as ``onnx="family.name"``; one of a
single expression is a ``rule(lambda g, …: …)``. It gets the graph that is written, a `GraphWriter`, and all arguments:
primitives as `Operand`, sizes that vary between calls as objects without arithmetic, other values as they are. It
returns the name of the result, or a tuple of names; None stands for a result that the operators do not give,
and a function writes one where it is read.

A declaration may also name an operator, whose inputs are the primitives among the arguments in order, and numbers as
constants; or ``"refused"``, for an operation without a counterpart, such as a random draw; or ``"whole node"``, for one
that is recorded as a node. A derived operation without a name is exported by its default.
"""
