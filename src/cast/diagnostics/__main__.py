"""`python -m cast.diagnostics structure mini-flux2 --seed 0`: one study, or one backbone's window.

    python -m cast.diagnostics structure|saturation|heads BACKBONE [--seed S] [--prompts FILE]
    python -m cast.diagnostics window BACKBONE

`--resolved` takes the workflow's settings as JSON. A killed study goes on by the same command.
"""

import argparse
import sys
from collections.abc import Sequence

from cast.config.diagnostics import STUDIES
from cast.diagnostics.studies import run_study, with_prompts
from cast.errors import CastError
from cast.workflow.notebook import open_config


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 2 with one line on standard error for bad input."""
    parser = argparse.ArgumentParser(prog="python -m cast.diagnostics", description=__doc__)
    parser.add_argument("what", choices=[*STUDIES, "window"])
    parser.add_argument("backbone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prompts", default="", help="a prompt file instead of the config's")
    parser.add_argument("--config", default="config/mini.yaml")
    parser.add_argument("--resolved", default="")
    chosen = parser.parse_args(arguments)
    try:
        config = with_prompts(open_config(chosen.config, chosen.resolved), chosen.prompts)
        if chosen.what == "window":
            from cast.diagnostics.structure_formation import measure_window

            window = measure_window(config, chosen.backbone)
            print(
                f"{window.backbone}: tau* {window.tau_star:.3f} [{window.tau_low:.3f}, "
                f"{window.tau_high:.3f}], range [{window.low}, {window.high}) of {window.steps}"
            )
        else:
            run_study(config, chosen.what, chosen.backbone, chosen.seed)
    except CastError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
