"""`python -m cast.site --config config/mini.yaml --out site`: the static site of a world."""

import argparse
import sys
from pathlib import Path

from cast.config import load_config
from cast.errors import CastError
from cast.site.build import build_site


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 with one line on standard error for bad input."""
    parser = argparse.ArgumentParser(prog="python -m cast.site", description=__doc__)
    parser.add_argument("--config", default="config/mini.yaml", help="the world's settings")
    parser.add_argument("--out", type=Path, default=Path("site"))
    chosen = parser.parse_args(arguments)
    try:
        pages = build_site(load_config(chosen.config), chosen.out)
    except CastError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(pages)} pages: open {pages[0]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
