"""Compilation with Numba, from a decorated function to an object file. Only imported when something must be compiled.

A kernel is compiled behind a small function that takes the address of a row of slots (calling.py), checks that the
arrays are of the right types, makes named tuples and arrays of the slots, and writes the results back. The result
is an object file with one symbol, which needs only the C library.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys
from numba.extending import overload
from numba.np.arrayobj import populate_array

from onsketch.jit import instructions
from onsketch.jit.by_type import Choice, choices
from onsketch.jit.calling import MISMATCH, NO_MEMORY, RESULTS, Form
from onsketch.jit.link_only import InnerCompiler
from onsketch.jit.machine_code import processor

_LONG, _BYTE, _WORD = ir.IntType(64), ir.IntType(8), ir.IntType(32)
_context: Any = cpu_target.target_context
_typing: Any = cpu_target.typing_context


def _choose(choice: Choice) -> Any:
    def choose(*args: Any) -> Any:
        for arg in args:
            kind = getattr(arg, "instance_class", None)
            if kind in choice.implementations:
                return choice.implementations[kind]
        if choice.otherwise:
            return choice.function
        raise TypingError(f"{choice.function.__name__}: nothing has been registered for any of {args}.")

    return choose


_WRAPPERS: dict[str, Any] = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": InnerCompiler,
}


_announced: list[bool] = []


def _tell_numba() -> None:
    """Register new functions chosen by type with Numba."""
    if choices or not _announced:
        while choices:
            choice = choices.pop()
            overload(choice.function, jit_options={**choice.options, **_WRAPPERS}, strict=False)(_choose(choice))
        _typing.refresh()
        _context.refresh()
        _announced.append(True)


@cache
def dispatcher_of(marked: Any) -> Any:
    """Numba's own form of a marked function; kept here, so that a compiled function does not hold the compiler."""
    _tell_numba()
    return njit(**marked.targetoptions, **_WRAPPERS)(marked.py_func)


@cache
def type_of(marked: Any) -> Any:
    """Return the Numba type of a decorated function."""
    return types.Dispatcher(dispatcher_of(marked))


def intrinsic_type(name: str) -> Any:
    """Return the Numba type of an intrinsic."""
    _tell_numba()
    return _typing.resolve_value_type(getattr(instructions, name))


def _type_of(form: Form) -> Any:
    """Numba's type for arguments of a form."""
    if not isinstance(form, str):
        return types.BaseTuple.from_types([_type_of(part) for part in form[1:]], None if form[0] is tuple else form[0])
    word, _, layout = form.partition(":")
    number = types.boolean if word == "b1" else numba.from_dtype(np.dtype(word))
    return types.Array(number, int(layout[0]), "A" if layout.endswith("*") else "C") if layout else number


def _at(builder: Any, address: Any, offset: int, kind: Any) -> Any:
    """Emit a load of a value of this type, ``offset`` bytes after an address."""
    place = builder.add(address, ir.Constant(_LONG, offset))
    return builder.load(builder.inttoptr(place, kind.as_pointer()))


class _Slots:
    """Reads values out of slots, one after the other."""

    def __init__(self, builder: Any, address: Any) -> None:
        self.builder, self.address = builder, address
        self.head = _at(builder, address, 8 * RESULTS, _LONG)
        self.at = RESULTS

    def _next(self) -> Any:
        self.at += 1
        return _at(self.builder, self.address, 8 * self.at, _LONG)

    def fit(self, kind: Any) -> Any:
        """Return True if the next value can be read as this type: any number, or an array of exactly the type."""
        fits = ir.Constant(ir.IntType(1), 1)
        if isinstance(kind, types.BaseTuple):
            for part in kind:
                fits = self.builder.and_(fits, self.fit(part))
            return fits
        word = self._next()
        if not isinstance(kind, types.Array):
            return fits
        builder, fields = self.builder, self.builder.add(word, self.head)
        description = builder.add(_at(builder, fields, _DESCRIPTION, _LONG), self.head)
        dtype = _dtype(kind)
        wanted = [
            (_at(builder, fields, _DIMENSION, _WORD), kind.ndim),
            (_at(builder, description, 8, _BYTE), ord(dtype.kind)),
            (_at(builder, description, 24, _LONG), dtype.itemsize),
        ]
        if kind.layout == "C":
            wanted.append((builder.and_(_at(builder, fields, _FLAGS, _WORD), ir.Constant(_WORD, 1)), 1))
        for found, number in wanted:
            fits = builder.and_(fits, builder.icmp_unsigned("==", found, ir.Constant(found.type, number)))
        foreign = builder.icmp_unsigned("==", _at(builder, description, 10, _BYTE), ir.Constant(_BYTE, ord(">")))
        return builder.and_(fits, builder.not_(foreign))

    def take(self, kind: Any) -> Any:
        """The next value, of this type."""
        builder = self.builder
        if isinstance(kind, types.BaseTuple):
            return _context.make_tuple(builder, kind, [self.take(part) for part in kind])
        word = self._next()
        if isinstance(kind, types.Array):
            return self._array(kind, builder.add(word, self.head))
        if isinstance(kind, types.Float):
            number = builder.bitcast(word, ir.DoubleType())
            return builder.fptrunc(number, ir.FloatType()) if kind.bitwidth == 32 else number
        if kind == types.boolean:
            return builder.icmp_unsigned("!=", word, ir.Constant(_LONG, 0))
        return builder.trunc(word, ir.IntType(kind.bitwidth)) if kind.bitwidth < 64 else word

    def _array(self, kind: Any, fields: Any) -> Any:
        builder, size = self.builder, ir.Constant(_LONG, _dtype(kind).itemsize)
        dimensions = _at(builder, fields, _SHAPE, _LONG)
        shape = [_at(builder, dimensions, 8 * axis, _LONG) for axis in range(kind.ndim)]
        if kind.layout == "C":
            strides = [size]
            for length in reversed(shape[1:]):
                strides.insert(0, builder.mul(strides[0], length))
        else:
            steps = _at(builder, fields, _STRIDES, _LONG)
            strides = [_at(builder, steps, 8 * axis, _LONG) for axis in range(kind.ndim)]
        array = _context.make_array(kind)(_context, builder)
        data = builder.inttoptr(_at(builder, fields, 0, _LONG), array.data.type)
        populate_array(array, data=data, shape=shape, strides=strides[: kind.ndim], itemsize=size, meminfo=None)
        return array._getvalue()


_DIMENSION, _SHAPE, _STRIDES, _DESCRIPTION, _FLAGS = 8, 16, 24, 40, 48
"""Offsets of NumPy's fields of an array, in bytes after the object header."""


def _dtype(kind: Any) -> Any:
    return np.dtype(bool) if kind.dtype == types.boolean else np.dtype(str(kind.dtype))


def _give(builder: Any, address: Any, kind: Any, value: Any) -> str:
    """Write a result into the first slots; returns its form."""
    kind = types.unliteral(kind)
    if kind == types.none:
        return ""
    parts = list(kind) if isinstance(kind, types.BaseTuple) else [kind]
    if len(parts) > RESULTS:
        raise TypeError(f"a kernel returns at most {RESULTS} numbers, not {kind}.")
    words = []
    for place, part in enumerate(map(types.unliteral, parts)):
        number = builder.extract_value(value, place) if isinstance(kind, types.BaseTuple) else value
        number = _context.cast(builder, number, part, types.float64 if isinstance(part, types.Float) else types.int64)
        slot = builder.add(address, ir.Constant(_LONG, 8 * place))
        builder.store(number, builder.inttoptr(slot, number.type.as_pointer()))
        words.append("b1" if part == types.boolean else "f8" if isinstance(part, types.Float) else "i8")
        if isinstance(part, types.Integer) and not part.signed:
            words[-1] = "u8"
    return f"({' '.join(words)})" if isinstance(kind, types.BaseTuple) else words[0]


def _memory(module: Any) -> None:
    """Numba's memory manager, as far as arrays made by kernels need it: a head of 40 bytes, then numbers, aligned."""
    byte = _BYTE.as_pointer()
    malloc = ir.Function(module, ir.FunctionType(byte, [_LONG]), "malloc")
    free = ir.Function(module, ir.FunctionType(ir.VoidType(), [byte]), "free")
    for name in ("NRT_MemInfo_alloc_aligned", "NRT_MemInfo_alloc_safe_aligned"):
        function = ir.Function(module, ir.FunctionType(byte, [_LONG, _WORD]), name)
        function.attributes.add("noinline")
        builder = ir.IRBuilder(function.append_basic_block())
        raw = builder.call(malloc, [builder.add(function.args[0], ir.Constant(_LONG, 128))])
        with builder.if_then(cgutils.is_not_null(builder, raw), likely=True):
            address = builder.ptrtoint(raw, _LONG)
            data = builder.and_(builder.add(address, ir.Constant(_LONG, 127)), ir.Constant(_LONG, -64))
            for offset, number in ((0, ir.Constant(_LONG, 1)), (24, data), (32, function.args[0])):
                place = builder.add(address, ir.Constant(_LONG, offset))
                builder.store(number, builder.inttoptr(place, _LONG.as_pointer()))
        builder.ret(raw)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [byte]), "NRT_MemInfo_call_dtor")
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.call(free, [function.args[0]])
    builder.ret_void()


class _Codegen(JITCPUCodegen):
    """Numba's code generation for the requested processor."""

    def _get_host_cpu_name(self) -> str:
        return processor()[1]

    def _get_host_cpu_features(self) -> str:
        return processor()[2]


_codegen = cache(_Codegen)


class _Object(CPUCodeLibrary):
    """Code that becomes an object file, not part of this process."""

    symbol = ""
    machine_code = b""

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.name.startswith("NRT_MemInfo") and not function.is_declaration:
                function.linkage = "internal"
        super()._optimize_final_module()
        for thing in (*self._final_module.functions, *self._final_module.global_variables):
            if not thing.is_declaration and thing.name != self.symbol:
                thing.linkage = "internal"  # only now, because it changes inlining, and so the last digits

    def _finalize_final_module(self) -> None:
        system, name, features = processor()
        machine = llvm.Target.from_triple(system).create_target_machine(
            cpu=name, features=features, opt=3, reloc="pic", codemodel="default"
        )
        self.machine_code = machine.emit_object(self._final_module)
        self._finalized = True


def compile_kernel(kernel: Any, forms: tuple[Form, ...], symbol: str) -> tuple[str, bytes]:
    """The form of what a kernel returns for arguments of these forms, and an object file with the kernel."""
    with global_compiler_lock:
        _tell_numba()
        kinds = [_type_of(form) for form in forms]
        dispatcher = dispatcher_of(kernel)
        dispatcher.compile(tuple(kinds))
        compiled = dispatcher.overloads[tuple(kinds)]
        library = _Object(_codegen("onsketch"), symbol)
        library.symbol = symbol
        module: Any = library.create_ir_module(symbol)
        results = _front(module, compiled, kinds, symbol)
        _memory(module)
        library.add_ir_module(module)
        library.add_linking_library(compiled.library)
        library.add_linking_library(rtsys.library)
        library.finalize()
    return results, library.machine_code


def _front(module: Any, compiled: Any, kinds: list[Any], symbol: str) -> str:
    """The function called from Python: slots to arguments, the kernel, results to slots."""
    described, convention = compiled.fndesc, _context.call_conv
    form = convention.get_function_type(described.restype, described.argtypes)
    kernel = ir.Function(module, form, described.llvm_func_name)
    front = ir.Function(module, ir.FunctionType(_LONG, [_LONG]), symbol)
    builder = ir.IRBuilder(front.append_basic_block())
    address = front.args[0]
    slots, fits = _Slots(builder, address), ir.Constant(ir.IntType(1), 1)
    for kind in kinds:
        fits = builder.and_(fits, slots.fit(kind))
    with builder.if_then(builder.not_(fits), likely=False):
        builder.ret(ir.Constant(_LONG, MISMATCH))
    slots = _Slots(builder, address)
    arguments = [slots.take(kind) for kind in kinds]
    status, value = convention.call_function(builder, kernel, described.restype, described.argtypes, arguments)
    with builder.if_then(status.is_error, likely=False):
        builder.ret(ir.Constant(_LONG, NO_MEMORY))
    results = _give(builder, address, described.restype, value)
    builder.ret(ir.Constant(_LONG, 0))
    return results
