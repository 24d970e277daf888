"""Delete files that qop never reads from the container image, to make it smaller.

This program runs in the image with Debian's Python. The environment is 730 MB as installed, which
is more than the limit of the whole image. Every rule must match a file, so that no rule outlives
the package version it was written for. A test runs every command in the image, to show that the
remaining files suffice (tests/harness/test_container.py).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

_LIBRARY = re.compile(r"\.so(\.\d+)*$")
SITE = "opt/qop/python/lib/python3.11/site-packages"
#: Patterns below the file system's root, by reason of removal.
RULES: dict[str, tuple[str, ...]] = {
    "packages' own tests": (f"{SITE}/**/tests", f"{SITE}/ansible_test"),
    "sources and headers of compiled modules, and their types": tuple(
        f"{SITE}/**/*.{suffix}" for suffix in ("pyi", "pyx", "pxd", "pxi", "h", "hpp", "a"))
        + (f"{SITE}/pyarrow/include", f"{SITE}/pyarrow/src"),
    "installing: the image is not changed any more": (
        f"{SITE}/pip", f"{SITE}/pip-*", f"{SITE}/setuptools", f"{SITE}/setuptools-*",
        f"{SITE}/pkg_resources", f"{SITE}/_distutils_hack",
        f"{SITE}/distutils-precedence.pth", "usr/share/python-wheels"),
    "plotly but for the script that reports embed": (
        f"{SITE}/plotly/graph_objs", f"{SITE}/plotly/validators", f"{SITE}/plotly/labextension",
        *(f"{SITE}/plotly/{part}" for part in (
            "express", "figure_factory", "matplotlylib", "io", "offline", "basedatatypes.py",
            "_subplots.py")),
        f"{SITE}/plotly/package_data/widgetbundle.js", f"{SITE}/narwhals",
        "opt/qop/python/share/jupyter"),
    "Arrow's network services, foreign stores and formats: tables are written to files": tuple(
        f"{SITE}/pyarrow/{part}*" for part in (
            "*_flight", "libarrow_s3", "_s3fs", "_gcsfs", "_azurefs", "_hdfs", "_orc",
            "_dataset_orc", "_pyarrow_cpp_tests")),
    "second and third copies of one library: the loader wants the first": (
        f"{SITE}/pyarrow/libarrow_python.so", f"{SITE}/pyarrow/libarrow_python.so.*.*.*"),
    "SciPy but for its special functions, all that the analysis takes": tuple(
        f"{SITE}/scipy/{part}" for part in (
            "cluster", "constants", "datasets", "differentiate", "fft", "fftpack", "integrate",
            "interpolate", "io", "linalg", "misc", "ndimage", "odr", "optimize", "signal",
            "sparse", "spatial", "stats", "special/cython_special.*")),
    "NumPy's compilers of modules, and a module of its tests": (
        f"{SITE}/numpy/distutils", f"{SITE}/numpy/_core/_simd.*"),
    "fonts in PDF and PostScript: figures are SVG and PNG": (
        f"{SITE}/fontTools/[!am_]*", f"{SITE}/fontTools/m[!i]*", f"{SITE}/fontTools/misc/*.so",
        f"{SITE}/matplotlib/mpl-data/fonts/afm",
        f"{SITE}/matplotlib/mpl-data/fonts/pdfcorefonts"),
    "fonts but DejaVu Sans, and windows and examples of Matplotlib's": (
        f"{SITE}/matplotlib/mpl-data/fonts/ttf/STIX*",
        f"{SITE}/matplotlib/mpl-data/fonts/ttf/DejaVuSerif*",
        f"{SITE}/matplotlib/mpl-data/fonts/ttf/DejaVuSansMono*",
        f"{SITE}/matplotlib/mpl-data/images",
        f"{SITE}/matplotlib/mpl-data/sample_data"),
    "photographs' formats, and text in pictures but Matplotlib's": (
        *(f"{SITE}/PIL/_{part}*" for part in ("avif", "webp", "imagingft")),
        *(f"{SITE}/pillow.libs/lib{part}*" for part in (
            "avif", "webp", "sharpyuv", "freetype", "harfbuzz", "brotli"))),
    "Ansible's vault, which nothing here is in": (
        f"{SITE}/cryptography", f"{SITE}/cffi", f"{SITE}/_cffi_backend*", f"{SITE}/pycparser"),
    "messages in ASN.1, which only a judge reads that verifies signatures, too": (
        f"{SITE}/asn1tools", f"{SITE}/bitstruct"),
    "time zones: all times are in UTC": (f"{SITE}/tzdata", f"{SITE}/tzdata-*"),
    "highlighting of source code": (f"{SITE}/pygments/lexers", f"{SITE}/pygments/styles"),
    "Python's help, tests and turtles": (
        "usr/lib/python3.11/pydoc_data", "usr/lib/python3.11/test", "usr/lib/python3.11/lib2to3",
        "usr/lib/python3.11/turtle.py"),
    "all of Perl but perl-base, and character sets but UTF-8": (
        "usr/lib/x86_64-linux-gnu/perl", "usr/share/perl", "usr/lib/x86_64-linux-gnu/libperl*",
        "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/python3.11/lib-dynload/_codecs_[chjkt]*"),
}

#: Packages whose compiled modules consist of symbols by a fifth or more. Libraries in *.libs are
#: left out: the tool that made the wheels edited them in a way that strip breaks.
STRIPPED = ("PIL", "kiwisolver", "pyarrow", "yaml")


def _strip_modules(folder: Path) -> None:
    """Remove debugging and linker symbols from compiled modules (`strip`)."""
    for module in (path for path in folder.rglob("*.so*") if _LIBRARY.search(path.name)):
        subprocess.run(["strip", "--strip-unneeded", str(module)], check=True)


def main() -> int:
    """Delete the files that the rules name below a folder, and strip compiled modules."""
    root = Path(sys.argv[1])
    for patterns in RULES.values():
        for pattern in patterns:
            matches = list(root.glob(pattern))
            if not matches:
                print(f"slimming: {pattern} matches nothing any more", file=sys.stderr)
                return 1
            for path in matches:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
    for package in STRIPPED:
        _strip_modules(root / SITE / package)
    return 0


if __name__ == "__main__":
    sys.exit(main())
