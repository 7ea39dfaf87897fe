"""Kernels compiled to machine code by LLVM, through the package llvmlite (the extra ``burnpy[fast]``).

`kernel` finds and makes them, `launch` calls them. Of a program, `emitter` writes LLVM's intermediate representation,
with exp, erf and the like from `vector_functions` and `error_functions`; `compiler` makes machine code of it for the
processor that `target` selects; `cache` keeps that code on disk. What no program describes is a template that writes
LLVM's code for parameters, by the `loops` that it needs: each family of operations has a file with its templates and
the functions that run them, such as `pooling`. llvmlite, and all modules but `kernel`, are imported with the first
kernel.
"""
