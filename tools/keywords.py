"""Write ``src/onsketch/learners/keywords.py`` from the declaration of the options.

Editors and type checkers read the keywords of a function, they do not run it: so these are written out, and a test
says when they have fallen behind. Run it from anywhere: ``python tools/keywords.py``.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"
TARGET = SOURCES / "onsketch/learners/keywords.py"

HEAD = '''\
"""The keyword arguments of learners and estimators, for editors and type checkers.

Written by ``tools/keywords.py`` from the declaration in ``options.py``; do not edit it by hand. None leaves an option
to the method, except for ``clip``, where it means no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict
'''


def text() -> str:
    """The module, as it should be."""
    sys.path.insert(0, str(SOURCES))
    from onsketch.learners.options import OF_THE_LEARNER_ALONE, Options

    lines = {}
    for field in dataclasses.fields(Options):
        option = field.metadata["option"]
        given = f"{field.type} | {option.words}" if option.words else str(field.type)
        kind = given if "None" in given else f"{given} | None"
        lines[field.name] = f'    {field.name}: {kind}\n    """{field.metadata["option"].sentence}"""\n'
    shared = "".join(line for name, line in lines.items() if name not in OF_THE_LEARNER_ALONE)
    alone = "".join(line for name, line in lines.items() if name in OF_THE_LEARNER_ALONE)
    return (
        f'{HEAD}\n\nclass EstimatorOptions(TypedDict, total=False):\n    """Options passed to learners."""\n\n'
        f'{shared}\n\nclass LearnerOptions(EstimatorOptions, total=False):\n    """Options of a learner."""\n\n{alone}'
    )


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
