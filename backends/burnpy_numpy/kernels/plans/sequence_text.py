"""The code of `burnpy_numpy.kernels.plans.sequence`: a function that makes the calls of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from burnpy_numpy.kernels.compiler.entry import Entry
from burnpy_numpy.kernels.kernel import entry_kernel
from burnpy_numpy.openblas import ROW_MAJOR, cblas

NUMBER, PROGRAM, TEMPLATE, GEMM_32, GEMM_64, GEMV_32, GEMV_64, ZEROS, SUM_32, SUM_64 = range(10)
"""The kinds of calls."""
HEAD, WORDS, STAND_IN = 6, 16, 1 + object.__basicsize__ // 8
"""The words of a table before the places of arguments, those of each call, and those of an array's stand-in: an object
whose only field is the address of its data."""
STEPS, MOVED = 3, 4
"""The words of a table with the number of steps, and with the number of stand-ins that move with them."""


def sequence_entry() -> Entry | None:
    """Return the function that makes the calls of a table; None if kernels are off."""
    blas = cblas("gemm", True)
    return entry_kernel(sequence, blas is not None and blas.long)


def sequence(long: bool) -> str:
    """Return the text of the function ``entry`` that makes the calls of a table.

    Its arguments are the table and the arrays that differ each time: NumPy arrays, which is not checked. The table has
    whether Python's lock is released, the number of arguments to place and of calls; for each argument where it goes
    and its number; and then the calls, of `WORDS` words each.

    Args:
        long: whether sizes are 64-bit ints for OpenBLAS.
    """
    size = "i64" if long else "i32"
    lines = [_HEAD_TEXT]

    def block(name: str, body: Sequence[str], after: str = "next") -> None:
        lines.extend([f"{name}:", *[f"  {line}" for line in body], f"  br label %{after}"])

    def words(name: str, numbers: Mapping[str, int]) -> list[str]:
        """Load words of a call, by name."""
        made = []
        for key, k in numbers.items():
            made += [f"%{name}_{key}_at = getelementptr i64, ptr %call, i64 {k}"]
            made += [f"%{name}_{key} = load {_TYPES.get(key, 'i64')}, ptr %{name}_{key}_at"]
        return made

    def data(name: str, objects: str, count: int) -> list[str]:
        """Load the addresses of the data of arrays."""
        made = []
        for k in range(count):
            own = f"%{name}_{k}"
            made += [f"{own}_at = getelementptr ptr, ptr {objects}, i64 {k}", f"{own}_object = load ptr, ptr {own}_at"]
            made += [f"{own}_data_at = getelementptr i8, ptr {own}_object, i64 {object.__basicsize__}"]
            made += [f"{own} = load ptr, ptr {own}_data_at"]
        return made

    def integers(name: str, keys: Sequence[str], types: Sequence[str]) -> tuple[list[str], list[str]]:
        """Narrow words, and return the operands."""
        made, operands = [], []
        for key, kind in zip(keys, types, strict=True):
            if kind == "i64":
                operands.append(f"i64 %{name}_{key}")
                continue
            made.append(f"%{name}_{key}_narrow = trunc i64 %{name}_{key} to {kind}")
            operands.append(f"{kind} %{name}_{key}_narrow")
        return made, operands

    number = words("number", {"place": 1, "objects": 2, "wide": 3})
    number += data("number", "%number_objects", 1)
    number += ["%number_is_wide = icmp ne i64 %number_wide, 0"]
    lines += ["number:", *[f"  {line}" for line in number], "  br i1 %number_is_wide, label %wide, label %narrow"]
    block("wide", ["%wide_value = load double, ptr %number_0", "store double %wide_value, ptr %number_place"])
    narrow = ["%narrow_value = load float, ptr %number_0", "%narrow_double = fpext float %narrow_value to double"]
    block("narrow", [*narrow, "store double %narrow_double, ptr %number_place"])

    sizes = ("begin", "end", "rows", "columns")
    given = ", ".join(f"i64 %program_{key}" for key in sizes)
    program = words("program", {"code": 1, "objects": 2, "numbers": 3, **{key: 4 + k for k, key in enumerate(sizes)}})
    block("program", [*program, f"call void %program_code(ptr %program_objects, ptr %program_numbers, {given})"])

    keys = {"code": 1, "objects": 2, "values": 3, "table": 4, "length": 5, "begin": 6, "end": 7}
    lines += ["template:", *[f"  {line}" for line in words("template", keys)], "  br label %template_head"]
    lines += [_TEMPLATE_TEXT.replace("BASIC", str(object.__basicsize__))]

    for dtype, kind in (("float", "32"), ("double", "64")):
        name = f"gemm_{kind}"
        fields: tuple[str, ...] = ("left", "right", "m", "n", "k", "lda", "ldb", "ldc")
        body = words(name, {"code": 1, "objects": 2, **{key: 4 + k for k, key in enumerate(fields)}})
        narrowed, (left, right, m, n, k, lda, ldb, ldc) = integers(name, fields, ("i32", "i32", *[size] * 6))
        matrices = f"ptr %{name}_0, {lda}, ptr %{name}_1, {ldb}, {dtype} 0.0, ptr %{name}_2, {ldc}"
        how = f"i32 {ROW_MAJOR}, {left}, {right}, {m}, {n}, {k}, {dtype} 1.0, {matrices}"
        block(name, [*body, *data(name, f"%{name}_objects", 3), *narrowed, f"call void %{name}_code({how})"])
        name = f"gemv_{kind}"
        fields = ("how", "m", "n", "lda")
        body = words(name, {"code": 1, "objects": 2, **{key: 4 + k for k, key in enumerate(fields)}})
        narrowed, (transposed, m, n, lda) = integers(name, fields, ("i32", *[size] * 3))
        vectors = f"ptr %{name}_1, {size} 1, {dtype} 0.0, ptr %{name}_2, {size} 1"
        how = f"i32 {ROW_MAJOR}, {transposed}, {m}, {n}, {dtype} 1.0, ptr %{name}_0, {lda}, {vectors}"
        block(name, [*body, *data(name, f"%{name}_objects", 3), *narrowed, f"call void %{name}_code({how})"])
        text = _SUM_TEXT.replace("KIND", kind).replace("TYPE", dtype)
        lines.append(text.replace("BASIC", str(object.__basicsize__)))
    zeros = [*words("zeros", {"objects": 2, "bytes": 4}), *data("zeros", "%zeros_objects", 1)]
    block("zeros", [*zeros, "call void @llvm.memset.p0.i64(ptr %zeros_0, i8 0, i64 %zeros_bytes, i1 false)"])
    return "\n".join([*lines, "}", ""])


_TYPES: Mapping[str, str] = dict.fromkeys(("code", "objects", "numbers", "values", "table", "place"), "ptr")
"""The words of a call that are addresses."""
_HEAD_TEXT = f"""
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define ptr @entry(ptr %self, ptr %args, i64 %count) {{
entry:
  %table_object = load ptr, ptr %args
  %table_at = getelementptr i8, ptr %table_object, i64 {object.__basicsize__}
  %words = load ptr, ptr %table_at
  %patches_at = getelementptr i64, ptr %words, i64 1
  %calls_at = getelementptr i64, ptr %words, i64 2
  %releases_word = load i64, ptr %words
  %patches = load i64, ptr %patches_at
  %calls = load i64, ptr %calls_at
  %releases = icmp ne i64 %releases_word, 0
  %first_patch = getelementptr i64, ptr %words, i64 {HEAD}
  %doubled = shl i64 %patches, 1
  %first_call = getelementptr i64, ptr %first_patch, i64 %doubled
  br label %patch_head
patch_head:
  %patch = phi i64 [0, %entry], [%next_patch, %patch_body]
  %more_patches = icmp slt i64 %patch, %patches
  br i1 %more_patches, label %patch_body, label %placed
patch_body:
  %pair = shl i64 %patch, 1
  %patch_at = getelementptr i64, ptr %first_patch, i64 %pair
  %argument_at = getelementptr i64, ptr %patch_at, i64 1
  %slot = load ptr, ptr %patch_at
  %argument = load i64, ptr %argument_at
  %given_at = getelementptr ptr, ptr %args, i64 %argument
  %given = load ptr, ptr %given_at
  store ptr %given, ptr %slot
  %next_patch = add i64 %patch, 1
  br label %patch_head
placed:
  br i1 %releases, label %release, label %start
release:
  %state = call ptr @PyEval_SaveThread()
  br label %start
start:
  %kept_state = phi ptr [null, %placed], [%state, %release]
  %steps_at = getelementptr i64, ptr %words, i64 {STEPS}
  %moved_at = getelementptr i64, ptr %words, i64 {MOVED}
  %steps = load i64, ptr %steps_at
  %moved = load i64, ptr %moved_at
  %moves = icmp sgt i64 %moved, 0
  br i1 %moves, label %find, label %step_head
find:
  %addresses_object_at = getelementptr ptr, ptr %args, i64 1
  %stand_ins_object_at = getelementptr ptr, ptr %args, i64 2
  %addresses_object = load ptr, ptr %addresses_object_at
  %stand_ins_object = load ptr, ptr %stand_ins_object_at
  %addresses_at = getelementptr i8, ptr %addresses_object, i64 {object.__basicsize__}
  %stand_ins_at = getelementptr i8, ptr %stand_ins_object, i64 {object.__basicsize__}
  %found_addresses = load ptr, ptr %addresses_at
  %found_stand_ins = load ptr, ptr %stand_ins_at
  br label %step_head
step_head:
  %addresses = phi ptr [null, %start], [%found_addresses, %find], [%addresses, %step_end]
  %stand_ins = phi ptr [null, %start], [%found_stand_ins, %find], [%stand_ins, %step_end]
  %step = phi i64 [0, %start], [0, %find], [%step_next, %step_end]
  %more_steps = icmp slt i64 %step, %steps
  br i1 %more_steps, label %move_first, label %ended
move_first:
  %skipped_moves = mul i64 %step, %moved
  %own_addresses = getelementptr i64, ptr %addresses, i64 %skipped_moves
  br label %move_head
move_head:
  %move = phi i64 [0, %move_first], [%move_next, %move_body]
  %more_moves = icmp slt i64 %move, %moved
  br i1 %more_moves, label %move_body, label %head
move_body:
  %address_at = getelementptr i64, ptr %own_addresses, i64 %move
  %address = load i64, ptr %address_at
  %skipped_words = mul i64 %move, {STAND_IN}
  %last_word = add i64 %skipped_words, {STAND_IN - 1}
  %stand_in_data = getelementptr i64, ptr %stand_ins, i64 %last_word
  store i64 %address, ptr %stand_in_data
  %move_next = add i64 %move, 1
  br label %move_head
head:
  %k = phi i64 [0, %move_head], [%k_next, %next]
  %more = icmp slt i64 %k, %calls
  br i1 %more, label %body, label %step_end
step_end:
  %step_next = add i64 %step, 1
  br label %step_head
body:
  %skipped = mul i64 %k, {WORDS}
  %call = getelementptr i64, ptr %first_call, i64 %skipped
  %kind = load i64, ptr %call
  switch i64 %kind, label %next [
    i64 {NUMBER}, label %number
    i64 {PROGRAM}, label %program
    i64 {TEMPLATE}, label %template
    i64 {GEMM_32}, label %gemm_32
    i64 {GEMM_64}, label %gemm_64
    i64 {GEMV_32}, label %gemv_32
    i64 {GEMV_64}, label %gemv_64
    i64 {ZEROS}, label %zeros
    i64 {SUM_32}, label %sum_32
    i64 {SUM_64}, label %sum_64
  ]
next:
  %k_next = add i64 %k, 1
  br label %head
ended:
  br i1 %releases, label %restore, label %done
restore:
  call void @PyEval_RestoreThread(ptr %kept_state)
  br label %done
done:
  %result = call ptr @PyLong_FromLongLong(i64 0)
  ret ptr %result"""
_TEMPLATE_TEXT = """template_head:
  %j = phi i64 [0, %template], [%j_next, %template_body]
  %more_arrays = icmp slt i64 %j, %template_length
  br i1 %more_arrays, label %template_body, label %template_run
template_body:
  %array_at = getelementptr ptr, ptr %template_objects, i64 %j
  %array = load ptr, ptr %array_at
  %array_data_at = getelementptr i8, ptr %array, i64 BASIC
  %array_data = load ptr, ptr %array_data_at
  %value_at = getelementptr ptr, ptr %template_values, i64 %j
  store ptr %array_data, ptr %value_at
  %j_next = add i64 %j, 1
  br label %template_head
template_run:
  call void %template_code(ptr %template_values, ptr %template_table, i64 %template_begin, i64 %template_end)
  br label %next"""
_SUM_TEXT = """sum_KIND:
  %sKIND_objects_at = getelementptr i64, ptr %call, i64 2
  %sKIND_rows_at = getelementptr i64, ptr %call, i64 4
  %sKIND_columns_at = getelementptr i64, ptr %call, i64 5
  %sKIND_objects = load ptr, ptr %sKIND_objects_at
  %sKIND_rows = load i64, ptr %sKIND_rows_at
  %sKIND_columns = load i64, ptr %sKIND_columns_at
  %sKIND_out_at = getelementptr ptr, ptr %sKIND_objects, i64 1
  %sKIND_x_object = load ptr, ptr %sKIND_objects
  %sKIND_out_object = load ptr, ptr %sKIND_out_at
  %sKIND_x_at = getelementptr i8, ptr %sKIND_x_object, i64 BASIC
  %sKIND_out_data_at = getelementptr i8, ptr %sKIND_out_object, i64 BASIC
  %sKIND_x = load ptr, ptr %sKIND_x_at
  %sKIND_out = load ptr, ptr %sKIND_out_data_at
  br label %sKIND_row_head
sKIND_row_head:
  %sKIND_row = phi i64 [0, %sum_KIND], [%sKIND_row_next, %sKIND_row_end]
  %sKIND_more_rows = icmp slt i64 %sKIND_row, %sKIND_rows
  br i1 %sKIND_more_rows, label %sKIND_row_body, label %next
sKIND_row_body:
  %sKIND_first = icmp eq i64 %sKIND_row, 0
  %sKIND_start = mul i64 %sKIND_row, %sKIND_columns
  %sKIND_line = getelementptr TYPE, ptr %sKIND_x, i64 %sKIND_start
  br label %sKIND_column_head
sKIND_column_head:
  %sKIND_column = phi i64 [0, %sKIND_row_body], [%sKIND_column_next, %sKIND_column_body]
  %sKIND_more = icmp slt i64 %sKIND_column, %sKIND_columns
  br i1 %sKIND_more, label %sKIND_column_body, label %sKIND_row_end
sKIND_column_body:
  %sKIND_value_at = getelementptr TYPE, ptr %sKIND_line, i64 %sKIND_column
  %sKIND_total_at = getelementptr TYPE, ptr %sKIND_out, i64 %sKIND_column
  %sKIND_value = load TYPE, ptr %sKIND_value_at
  %sKIND_total = load TYPE, ptr %sKIND_total_at
  %sKIND_sum = fadd TYPE %sKIND_total, %sKIND_value
  %sKIND_new = select i1 %sKIND_first, TYPE %sKIND_value, TYPE %sKIND_sum
  store TYPE %sKIND_new, ptr %sKIND_total_at
  %sKIND_column_next = add i64 %sKIND_column, 1
  br label %sKIND_column_head
sKIND_row_end:
  %sKIND_row_next = add i64 %sKIND_row, 1
  br label %sKIND_row_head"""
