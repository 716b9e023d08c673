"""Score images against a benchmark of GenEval 2's format.

    python -m cast.verifier score --manifest images.json --benchmark geneval2.jsonl \\
        --out scores.parquet

The manifest maps prompts to image paths: GenEval 2's own form {prompt: path}, or several seeds an
image {prompt: {"100": path, ...}}. Run the same command again to resume. Exit code 0 when every
image was scored, 1 when some failed (they are listed), 2 for bad input.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from cast.config.sections import VerifierSection
from cast.errors import CastError
from cast.io import sha256_file
from cast.paths import from_root
from cast.scene_graph import load_vocabulary, read_prompts
from cast.verifier.front import score_manifest
from cast.verifier.manifest import read_manifest
from cast.verifier.soft_tifa import Verifier
from cast.verifier.summary import summary_text


def main(arguments: list[str] | None = None) -> int:
    """Run the command; messages for bad input go to standard error, one a line."""
    try:
        return _score(_parser().parse_args(arguments))
    except CastError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    default = VerifierSection()
    parser = argparse.ArgumentParser(
        prog="python -m cast.verifier",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    score = parser.add_subparsers(dest="command", required=True).add_parser(
        "score", help="score a manifest of images"
    )
    score.add_argument("--manifest", required=True, help="JSON from prompt to image path(s)")
    score.add_argument("--benchmark", required=True, help=".jsonl (GenEval 2) or .parquet prompts")
    score.add_argument("--out", required=True, help="score table to write (.parquet)")
    score.add_argument("--root", help="folder of relative image paths (default: the manifest's)")
    score.add_argument("--vocabulary", help="vocabulary of a .jsonl benchmark (default: found)")
    score.add_argument("--verifier", default=default.path, help="local folder or hub id")
    score.add_argument("--dtype", default=None, choices=["float32", "bfloat16"])
    score.add_argument("--batch", type=int, default=16, help="images that go through together")
    score.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: first GPU, else CPU)")
    score.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


def _score(chosen: argparse.Namespace) -> int:
    if Path(chosen.out).suffix != ".parquet":
        raise CastError(f"--out: {chosen.out!r} must end in .parquet.")
    if chosen.batch < 1:
        raise CastError(f"--batch: {chosen.batch} is not allowed; allowed: 1 or more.")
    vocabulary = load_vocabulary(chosen.vocabulary) if chosen.vocabulary else None
    records = read_prompts(chosen.benchmark, vocabulary)
    entries = read_manifest(chosen.manifest, records, chosen.root)
    local = from_root(chosen.verifier).is_dir()
    dtype = chosen.dtype or ("float32" if local else "bfloat16")
    section = VerifierSection(path=chosen.verifier, dtype=dtype)
    verifier = Verifier.load(section, chosen.device, chosen.batch)
    identity = f"{_weights_identity(chosen.verifier, verifier)} {dtype}"
    table, failures = score_manifest(
        verifier, entries, chosen.out, identity, progress=not chosen.quiet
    )
    if len(table):
        print(summary_text(table))
        print(f"\nwritten: {chosen.out}")
    missing = len(records) - len({entry.record.prompt_id for entry in entries})
    if missing:
        print(f"note: {missing} of the benchmark's {len(records)} prompts have no image here.")
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    if failures:
        print(
            f"error: {len(failures)} of {len(entries)} images were not scored (listed above); "
            "mend them and run the same command again.",
            file=sys.stderr,
        )
    return 1 if failures else 0


def _weights_identity(path: str, verifier: Verifier) -> str:
    """Content hash of local weights, or hub id and revision."""
    place = from_root(path)
    files = sorted(place.glob("*.safetensors")) if place.is_dir() else []
    if files:
        return " ".join(sha256_file(file) for file in files)
    config: Any = verifier.model.config
    return f"{path}@{getattr(config, '_commit_hash', None)}"


if __name__ == "__main__":
    raise SystemExit(main())
