"""How ONNX computes operations: the rules that the declarations of operations name as ``onnx=``.

Such a name is an operator, whose inputs are the primitives among the arguments in order, and numbers as
constants; or a function of a module here, as ``shapes.reshape``; or ``"refused"``, for an operation without a
counterpart, such as a random draw. A derived operation without a name is exported by its default.

A function ``(g, *args)`` gets the graph that is written, a `GraphWriter`, and all arguments: primitives as `Operand`,
sizes that vary between calls as objects without arithmetic, other values as they are. It returns the name of the
result, or a tuple of names; None stands for a result that the operators do not give.
"""
