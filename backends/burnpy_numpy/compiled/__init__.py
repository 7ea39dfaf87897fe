"""Programs compiled to machine code by LLVM, through the package llvmlite (the extra ``burnpy[fast]``).

`emitter` writes a program as LLVM's intermediate representation, with exp, tanh and the like from `functions`;
`compiler` makes machine code of it; `cache` keeps that code on disk; `kernel` calls it; `selection` and `operations`
choose when. Convolution, which no program describes, is a template: `convolution_kernels`, with tables from `windows`,
run by `convolution`. llvmlite is imported at the first kernel.
"""
