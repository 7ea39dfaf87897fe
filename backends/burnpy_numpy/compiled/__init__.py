"""Programs compiled to machine code by LLVM, through the package llvmlite (the extra ``burnpy[fast]``).

`emitter` writes a program as LLVM's intermediate representation, with exp, tanh and the like from `functions`;
`compiler` makes machine code of it; `cache` keeps that code on disk; `kernel` calls it; `selection` and `operations`
choose when. What no program describes is a template: convolution (`convolving`, with tables from `windows`, run by
`convolution`), scans (`scanning` and `scans`), indices (`scattering` and `indexing`), sums of elements at places (`tapping`
and `sampling`), adaptive pools (`maxima` and `adaptive`) and small matrices (`factoring` and `matrices`). llvmlite is
imported at the first kernel.
"""
