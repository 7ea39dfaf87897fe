"""Programs compiled to machine code by LLVM, through the package llvmlite (the extra ``burnpy[fast]``).

`burnpy_numpy.compiled.emitter` writes a program as LLVM's intermediate representation, `functions` has exp, tanh and
the like for it, `compiler` makes machine code of it, `cache` keeps that code on disk, and `kernel` calls it. llvmlite is
imported at the first kernel.
"""
