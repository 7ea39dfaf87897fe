"""From a program or a template to machine code.

`emitter` writes a program as LLVM's intermediate representation, with exp, erf and the like from `vector_functions`;
templates write theirs with `loops`. `entry` adds the function that Python calls, `llvm` makes machine code for the
processor that `target` selects, and `target` keeps that code on disk.
"""
