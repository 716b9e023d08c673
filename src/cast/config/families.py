"""Which model families there are: the files of `cast/backbones` that define a `BACKBONE`.

Their text is looked at and nothing is imported, so a config is checked without a model library.
"""

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_DEFINES = re.compile(r"^BACKBONE\b", re.MULTILINE)


def families() -> tuple[str, ...]:
    """Names that a backbone's `family` may have, in order."""
    spec = find_spec("cast.backbones")
    folders = spec.submodule_search_locations if spec is not None else None
    files = [path for folder in folders or () for path in sorted(Path(folder).glob("*.py"))]
    return tuple(sorted(path.stem for path in files if _is_family(path)))


@cache
def _is_family(path: Path) -> bool:
    return _DEFINES.search(path.read_text(encoding="utf-8")) is not None
