"""`python -m cast.full_size preflight CONFIG`, and `count`, which renews counts.json."""

import argparse
import sys
from collections.abc import Sequence

from cast.config import load_config
from cast.errors import CastError
from cast.full_size.operations import Assumptions


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 (warnings included), or 2 with one line for bad input."""
    parser = argparse.ArgumentParser(prog="python -m cast.full_size", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser("preflight", help="what a config needs, costs and lacks")
    report.add_argument("config", nargs="?", default="config/paper.yaml")
    report.add_argument("--tflops", type=float, help="achieved by one GPU (mini: by one core)")
    report.add_argument("--price", type=float, help="of a GPU-hour (core-hour), in any currency")
    report.add_argument("--memory", type=float, help="GB of one GPU, 141 by default (of the cores)")
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
    config = load_config(chosen.config)
    speed = None if chosen.tflops is None else chosen.tflops * 1e12
    memory = None if chosen.memory is None else chosen.memory * 1e9
    from cast.full_size.report import preflight

    print(preflight(config, Assumptions(speed=speed), chosen.price, memory).text())


if __name__ == "__main__":
    raise SystemExit(main())
