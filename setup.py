# SPDX-License-Identifier: Apache-2.0
"""Puts the libfanin that has been built in build/ into the package, if there is one.

Everything else is in pyproject.toml.  Without a built library the package is pure Python and uses
the system's libfanin.so.0.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

LIBRARY = Path(__file__).resolve().parent / "build" / "src" / "libfanin.so.0"


class BuildWithLibrary(build_py):
    """The package's files, and the library beside them."""

    def run(self) -> None:
        super().run()
        if LIBRARY.exists() and not self.editable_mode:
            shutil.copyfile(LIBRARY, Path(self.build_lib) / "fanin" / LIBRARY.name)


class WheelForThisMachine(bdist_wheel):
    """A wheel that holds a library is for this kind of machine, whatever Python it has."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = not LIBRARY.exists()

    def get_tag(self) -> tuple[str, str, str]:
        tag = super().get_tag()
        return tag if self.root_is_pure else ("py3", "none", tag[2])


setup(cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelForThisMachine})
