"""`python -m cast.config write` generates the default YAML and the schema; `check FILE` checks."""

import argparse
import sys

from cast.config.loading import check_files, load_config, run_config
from cast.config.writing import default_yaml, schema_json
from cast.errors import CastError
from cast.io import write_text
from cast.paths import from_root


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 with one line on standard error for bad input."""
    parser = argparse.ArgumentParser(prog="python -m cast.config", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write", help="generate config/mini.yaml and config/schema.json")
    check = commands.add_parser("check", help="check a config and the files that it names")
    check.add_argument("file", nargs="+")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "write":
            write_text(from_root("config/mini.yaml"), default_yaml())
            write_text(from_root("config/schema.json"), schema_json())
        else:
            for file in chosen.file:
                _check(file)
                print(f"{file}: good")
    except CastError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _check(file: str) -> None:
    config = load_config(file)
    check_files(config)
    for backbone in config.backbones:
        for method in dict.fromkeys((*config.methods, *config.ablations)):
            run_config(config, backbone, method, config.training_seeds[0])


if __name__ == "__main__":
    raise SystemExit(main())
