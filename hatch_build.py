"""How wheels are made: with ONSKETCH_BUILD_KERNELS=1 a wheel carries its kernels and needs no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

COMPILER = ["numba>=0.61,<0.69"]
"""What compiles; the extra ``jit`` of a wheel that carries its kernels, a dependency of all others."""

CARRIED = os.environ.get("ONSKETCH_BUILD_KERNELS", "") not in ("", "0")


class Dependencies(MetadataHookInterface):
    """Numba is a dependency where nothing is compiled beforehand."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the dependencies."""
        metadata["dependencies"] = [*self.config["dependencies"], *([] if CARRIED else COMPILER)]


class Kernels(BuildHookInterface[Any]):
    """Puts the libraries of kernels into a wheel, if asked to."""

    def dependencies(self) -> list[str]:
        """What it takes to build them."""
        return [*self.metadata.core.dependencies, *COMPILER] if CARRIED else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile what has changed, and include the libraries."""
        if not CARRIED or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()  # as long as the wheel is being made
        builder = str(Path(self.root, "kernels", "build.py"))
        subprocess.run([sys.executable, builder, self._folder.name], check=True)
        platform = os.environ.get("ONSKETCH_PLATFORM") or sysconfig.get_platform()
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform.replace('-', '_').replace('.', '_')}"
        build_data["force_include"][self._folder.name] = "onsketch/compiled"
