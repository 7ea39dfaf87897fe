"""Kernels compiled to machine code by LLVM, through the package llvmlite (the extra ``burnpy[fast]``).

`kernel` finds and makes them, `launch` calls them, and `compiler` writes and compiles LLVM's code for programs. What no
program describes is a template that writes LLVM's code for parameters: each family of operations has a file or a folder
with its templates and the functions that run them, such as `pooling`. `plans` has the kernels of compiled steps.
llvmlite, and all modules but `kernel`, are imported with the first kernel.
"""
