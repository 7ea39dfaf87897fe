"""Programs compiled to machine code by LLVM, through the package llvmlite (the extra ``burnpy[fast]``).

`emitter` writes a program as LLVM's intermediate representation, with exp, tanh and the like from `functions`;
`compiler` makes machine code of it for the processor that `target` selects; `cache` keeps that code on disk; `kernel`
calls it; `selection` and `operations` choose when. What no program describes is a template that writes LLVM's code for
parameters: those in `convolution_kernels`, for example, are run by the methods of `convolution`, and it is so for
recurrent networks, scans, indexing, sampling, pooling, normalization and small matrices. llvmlite is imported at the
first kernel.
"""
