"""Definitions for Numba and LLVM of the instructions in ``vectors.py``; only imported to compile."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.core.datamodel.registry import register_default
from numba.extending import intrinsic

_DOUBLE, _INDEX = ir.DoubleType(), ir.IntType(32)
_LINE = 64
"""Bytes that memory gives at a time."""


class Vector(types.Type):
    """The compiled type of a vector of float64."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"Vector({lanes})")


@register_default(Vector)
class _VectorModel(PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.VectorType(_DOUBLE, kind.lanes))


def _address(context: Any, builder: Any, kind: Any, array: Any, at: Any, lanes: int) -> Any:
    """Where ``lanes`` numbers of an array start, as a pointer to a vector of them."""
    data = context.make_array(kind)(context, builder, array).data
    element = ir.FloatType() if kind.dtype == types.float32 else _DOUBLE
    return builder.bitcast(builder.gep(data, [at]), ir.VectorType(element, lanes).as_pointer())


def _size(kind: Any) -> int:
    return 4 if kind.dtype == types.float32 else 8


def _load(typing_context: Any, array: Any, at: Any, lanes: Any) -> Any:
    """``lanes`` numbers of a contiguous array, float64 or float32, from a flat position."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        count, kind = lanes.literal_value, signature.args[0]
        pointer = _address(context, builder, kind, arguments[0], arguments[1], count)
        values = builder.load(pointer, align=_size(kind))
        return builder.fpext(values, ir.VectorType(_DOUBLE, count)) if kind.dtype == types.float32 else values

    return Vector(lanes.literal_value)(array, types.intp, lanes), generate


load: Any = intrinsic(prefer_literal=True)(_load)


def _store(typing_context: Any, array: Any, at: Any, values: Any) -> Any:
    """Write a vector to a flat position of a contiguous array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, vector = signature.args[0], arguments[2]
        if kind.dtype == types.float32:
            vector = builder.fptrunc(vector, ir.VectorType(ir.FloatType(), values.lanes))
        pointer = _address(context, builder, kind, arguments[0], arguments[1], values.lanes)
        builder.store(vector, pointer, align=_size(kind))
        return context.get_dummy_value()

    return types.void(array, types.intp, values), generate


store: Any = intrinsic(_store)


def _spread(typing_context: Any, number: Any, lanes: Any) -> Any:
    """A vector with this number in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        count = lanes.literal_value
        nothing = ir.Constant(ir.VectorType(_DOUBLE, count), ir.Undefined)
        first = builder.insert_element(nothing, arguments[0], ir.Constant(_INDEX, 0))
        return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INDEX, count), [0] * count))

    return Vector(lanes.literal_value)(types.float64, lanes), generate


spread: Any = intrinsic(prefer_literal=True)(_spread)


def _joined(typing_context: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """A vector of these four numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.Constant(ir.VectorType(_DOUBLE, 4), ir.Undefined)
        for lane, number in enumerate(arguments):
            vector = builder.insert_element(vector, number, ir.Constant(_INDEX, lane))
        return vector

    return Vector(4)(*4 * [types.float64]), generate


joined: Any = intrinsic(_joined)


def _lane(typing_context: Any, values: Any, place: Any) -> Any:
    """One number of a vector."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.extract_element(arguments[0], ir.Constant(_INDEX, place.literal_value))

    return types.float64(values, place), generate


lane: Any = intrinsic(prefer_literal=True)(_lane)


def _fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """``a·b + c``, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = arguments[0].type
        kind = ir.FunctionType(vector, [vector] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{a.lanes}f64")
        return builder.call(function, arguments)

    return a(a, b, c), generate


fma: Any = intrinsic(_fma)


def _lanewise(operation: str) -> Any:
    """An operation of two vectors, lane by lane."""

    def typed(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, operation)(*arguments)

        return a(a, b), generate

    return intrinsic(typed)


plus, minus, product, quotient = (_lanewise(operation) for operation in ("fadd", "fsub", "fmul", "fdiv"))


def _where_less(typing_context: Any, a: Any, b: Any, then: Any, otherwise: Any) -> Any:
    """``then`` in the lanes where a < b, ``otherwise`` in the others, those with a NaN among them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *arguments[:2]), *arguments[2:])

    return a(a, b, then, otherwise), generate


where_less: Any = intrinsic(_where_less)


def _of_each(function: str) -> Any:
    """A function of LLVM's, of one number, lane by lane."""

    def typed(typing_context: Any, a: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = arguments[0].type
            kind = ir.FunctionType(vector, [vector])
            name = f"llvm.{function}.v{a.lanes}f64"
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

        return a(a), generate

    return intrinsic(typed)


root, magnitude, whole = _of_each("sqrt"), _of_each("fabs"), _of_each("rint")


def _of_bits(change: Any) -> Any:
    """A change of the bits of each number, as whole numbers of 64 bits."""

    def typed(typing_context: Any, a: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.VectorType(ir.IntType(64), a.lanes)
            bits = builder.bitcast(arguments[0], kind)
            changed = change(builder, bits, lambda number: ir.Constant(kind, [number] * a.lanes))
            return builder.bitcast(changed, arguments[0].type)

        return a(a), generate

    return intrinsic(typed)


# 2^n of whole numbers n to which 1.5·2^52 has been added: n is in the last bits, and belongs into the exponent
power = _of_bits(lambda b, bits, all_: b.shl(b.add(bits, all_(1023)), all_(52)))
# of positive numbers: the exponent plus 1023 + 2^52, and the mantissa, from 1 to 2
exponent = _of_bits(lambda b, bits, all_: b.or_(b.lshr(bits, all_(52)), all_(0x4330000000000000)))
mantissa = _of_bits(lambda b, bits, all_: b.or_(b.and_(bits, all_((1 << 52) - 1)), all_(0x3FF0000000000000)))


def _total(typing_context: Any, a: Any) -> Any:
    """The sum over the lanes, a power of two of them: halves added to halves."""
    assert a.lanes & (a.lanes - 1) == 0

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rest, lanes = arguments[0], a.lanes
        while lanes > 1:
            lanes //= 2
            halves = [
                builder.shuffle_vector(
                    rest, rest, ir.Constant(ir.VectorType(_INDEX, lanes), list(range(start, start + lanes)))
                )
                for start in (0, lanes)
            ]
            rest = builder.fadd(*halves)
        return builder.extract_element(rest, ir.Constant(_INDEX, 0))

    return types.float64(a), generate


total: Any = intrinsic(_total)


def _element(typing_context: Any, array: Any, at: Any) -> Any:
    """The number at a flat position of a contiguous array, as float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        data = context.make_array(kind)(context, builder, arguments[0]).data
        number = builder.load(builder.gep(data, [arguments[1]]))
        return builder.fpext(number, _DOUBLE) if kind.dtype == types.float32 else number

    return types.float64(array, types.intp), generate


element: Any = intrinsic(_element)


def _ask_for(typing_context: Any, array: Any, at: Any, lanes: Any) -> Any:
    """Ask the memory for ``lanes`` numbers from a flat position, which will be read and written soon."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        data = context.make_array(kind)(context, builder, arguments[0]).data
        for line in range(0, lanes.literal_value, _LINE // _size(kind)):
            place = builder.gep(data, [builder.add(arguments[1], ir.Constant(arguments[1].type, line))])
            pointer = builder.bitcast(place, ir.IntType(8).as_pointer())
            form = ir.FunctionType(ir.VoidType(), [pointer.type, _INDEX, _INDEX, _INDEX])
            function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], form)
            builder.call(function, [pointer, *(ir.Constant(_INDEX, flag) for flag in (1, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), generate


ask_for: Any = intrinsic(prefer_literal=True)(_ask_for)


_WORD = ir.IntType(64)


def _call(typing_context: Any, function: Any, slots: Any) -> Any:
    """Call a kernel, by its address, with these slots (calling.py)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        form = ir.FunctionType(_WORD, [_WORD])
        return builder.call(builder.inttoptr(arguments[0], form.as_pointer()), [arguments[1]])

    return types.int64(types.int64, types.int64), generate


call: Any = intrinsic(_call)


def _word_at(typing_context: Any, address: Any) -> Any:
    """The eight bytes at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()))

    return types.int64(types.int64), generate


word_at: Any = intrinsic(_word_at)
