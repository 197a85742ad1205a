"""Compiling, caching and calling loops. Numerics are in ``core``.

Use. Mark a function in ``decorators.py``: ``@kernel`` is called from Python, ``@inner`` and ``@inlined`` only from
compiled functions (``exact`` forms do not reorder sums). A kernel takes numbers, arrays and (named) tuples of them by
position, and returns None, a number or up to four. Marking compiles nothing and imports no compiler.

A call, from Python to machine code:

1. ``calling.py`` describes the arguments by their *form* (numbers, dtypes and dimensions of arrays, classes of tuples)
   and finds the machine code for it. The arguments are written into a row of 8-byte slots, and the code is called with
   its address. It reads the address of an array's data from the array object, and returns ``MISMATCH`` for another
   dtype. ``Bound`` writes a state once and reuses its slots, ``Prepared`` all arguments, and ``chain.py`` runs several
   prepared calls without Python between them.
2. ``machine_code.py`` takes code from the wheel's library (``library.py``), from the disk cache, or from the compiler.
   Files in the cache are named by a stamp (``stamp.py``) of all code and constants that the kernel can reach, so that a
   changed constant causes a recompilation.
3. ``compiling.py`` runs Numba. ``instructions.py`` adds vector instructions (``vectors.py`` names them), and
   ``link_only.py`` keeps inner functions from being optimised on their own. Only these three files import Numba, when
   something must be compiled. ``by_type.py`` selects an implementation by the class of an argument when the caller
   is compiled.

``NUMBA_DISABLE_JIT=1`` runs the functions as plain Python, ``NUMBA_BOUNDSCHECK=1`` checks every index, and
``ONSKETCH_KERNELS`` is ``auto``, ``library`` or ``jit``.
"""
