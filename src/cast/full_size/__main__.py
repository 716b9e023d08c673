"""`python -m cast.full_size preflight CONFIG`, and `count`, which renews counts.json."""

import argparse
import sys
from collections.abc import Sequence

from cast.config import load_config
from cast.errors import CastError
from cast.full_size.cost import SPEED, Assumptions


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 (warnings included), or 2 with one line for bad input."""
    parser = argparse.ArgumentParser(prog="python -m cast.full_size", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser("preflight", help="what a config needs, costs and lacks")
    report.add_argument("config", nargs="?", default="config/paper.yaml")
    report.add_argument("--tflops", type=float, default=SPEED / 1e12, help="a GPU's achieved")
    report.add_argument("--price", type=float, help="of one GPU-hour, in any currency")
    report.add_argument("--memory", type=float, default=141.0, help="GB of one GPU")
    counted = commands.add_parser("count", help="count the full-size models anew")
    counted.add_argument("backbones", nargs="*")
    chosen = parser.parse_args(arguments)
    try:
        _run(chosen)
    except CastError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(chosen: argparse.Namespace) -> None:
    if chosen.command == "count":
        from cast.full_size.tables import write_counts

        write_counts(chosen.backbones)
        return
    config, assumed = load_config(chosen.config), Assumptions(speed=chosen.tflops * 1e12)
    from cast.full_size.report import preflight

    print(preflight(config, assumed, chosen.price, chosen.memory * 1e9).text())


if __name__ == "__main__":
    raise SystemExit(main())
