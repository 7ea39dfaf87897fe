"""From a program or a template to machine code.

`emitter` writes a program as LLVM's intermediate representation: loops, with the `instructions` of the program, and
exp, erf and the like from `vector_functions`. Templates write theirs with `loops`. `llvm` makes machine code for the
processor that `target` selects, and `target` keeps that code on disk. `entry` has the functions by which Python calls
it.
"""
