"""`python -m cast.figures make table1`, `own mine.jsonl --out DIR`, `compare A B`."""

import argparse
import sys
from pathlib import Path

from cast.config import load_config
from cast.errors import CastError
from cast.figures import ITEMS, make


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 with one line on standard error for bad input."""
    parser = argparse.ArgumentParser(prog="python -m cast.figures", description=__doc__)
    parser.add_argument("--config", default="config/mini.yaml", help="the world's settings")
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("make", help=f"make artefacts: {', '.join(ITEMS)}")
    made.add_argument("items", nargs="+")
    own = commands.add_parser("own", help="generate and score your own prompts")
    own.add_argument("prompts", type=Path, help="a file in GenEval 2's format")
    own.add_argument("--out", type=Path, required=True)
    own.add_argument("--backbone", default="", help="default: the config's first")
    own.add_argument("--adapter", type=Path, help="a folder with an adapter; default: none")
    two = commands.add_parser("compare", help="two evaluated runs side by side")
    two.add_argument("first", type=Path)
    two.add_argument("second", type=Path)
    two.add_argument("--out", type=Path, default=Path("results/compare"))
    chosen = parser.parse_args(arguments)
    try:
        _run(chosen)
    except CastError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _run(chosen: argparse.Namespace) -> None:
    config = load_config(chosen.config)
    if chosen.command == "make":
        for item in chosen.items:
            print(*make(item, config), sep="\n")
    elif chosen.command == "own":
        from cast.figures.own_prompts import own_prompts, summary

        adapter, backbone = chosen.adapter, chosen.backbone
        scores = own_prompts(config, chosen.prompts, chosen.out, backbone, adapter)
        print(summary(scores), f"pictures: {chosen.out / 'own_prompts.pdf'}", sep="\n")
    else:
        from cast.figures.compare import compare

        print(compare(chosen.first, chosen.second, chosen.out))
        print(f"pictures: {chosen.out / 'compare.pdf'}")


if __name__ == "__main__":
    raise SystemExit(main())
