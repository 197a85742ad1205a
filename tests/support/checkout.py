"""Folders of this checkout, and of the data sets next to it."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"
DATA = Path(os.environ.get("ONSKETCH_DATA", ROOT.parent / "shared" / "data"))
