"""One small product, vectorised by hand: a row of numbers times a matrix whose width is a multiple of four.

Numba's own loops over a dozen numbers spend most of their time on deciding how to vectorise. Here up to sixteen
sums are kept in vector registers over the whole loop.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onsketch.numerics import inlined

LANES = 4


def _block_product(vectors: int) -> Any:
    """The product for a block of ``vectors`` vectors of columns, whose sums stay in registers over the whole loop."""

    @intrinsic
    def product(
        typing_context: Any, source: Any, start: Any, count: Any, matrix: Any, place: Any, width: Any, out: Any, at: Any
    ) -> Any:
        signature = types.void(source, types.intp, types.intp, matrix, types.intp, types.intp, out, types.intp)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            double, index = ir.DoubleType(), ir.IntType(32)
            vector = ir.VectorType(double, LANES)
            start, count, place, width, at = (arguments[i] for i in (1, 2, 4, 5, 7))
            source, matrix, out = (
                context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 3, 6)
            )
            fma = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{LANES}f64"
            )

            def block(address: Any, number: int) -> Any:
                step = ir.Constant(at.type, number * LANES)
                return builder.bitcast(builder.gep(address, [step]), vector.as_pointer())

            sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * LANES)) for _ in range(vectors)]
            undefined = ir.Constant(vector, ir.Undefined)
            everywhere = ir.Constant(ir.VectorType(index, LANES), [0] * LANES)
            with cgutils.for_range(builder, count) as loop:
                number = builder.load(builder.gep(source, [builder.add(start, loop.index)]))
                if signature.args[0].dtype == types.float32:
                    number = builder.fpext(number, double)
                spread = builder.insert_element(undefined, number, ir.Constant(index, 0))
                spread = builder.shuffle_vector(spread, undefined, everywhere)
                row = builder.gep(matrix, [builder.add(place, builder.mul(loop.index, width))])
                for i, total in enumerate(sums):
                    columns = builder.load(block(row, i), align=8)
                    builder.store(builder.call(fma, [spread, columns, builder.load(total)]), total)
            target = builder.gep(out, [at])
            for i, total in enumerate(sums):
                builder.store(builder.load(total), block(target, i), align=8)
            return context.get_dummy_value()

        return signature, generate

    return product


_one, _two, _three, _four = (_block_product(vectors) for vectors in (1, 2, 3, 4))


@inlined
def times(source, start, count, matrix, place, width, out):
    """``out[:width] = s @ M`` for the ``count`` numbers of ``source`` from ``start`` and the (count, width) matrix
    that starts at ``place``; both arrays C-contiguous and seen flat, 4 | width. No views, hence no reference counts.
    """
    at = 0
    while width - at >= 4 * LANES:
        _four(source, start, count, matrix, place + at, width, out, at)
        at += 4 * LANES
    if width - at == 3 * LANES:
        _three(source, start, count, matrix, place + at, width, out, at)
    elif width - at == 2 * LANES:
        _two(source, start, count, matrix, place + at, width, out, at)
    elif width - at == LANES:
        _one(source, start, count, matrix, place + at, width, out, at)
