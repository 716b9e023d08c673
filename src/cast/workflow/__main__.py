"""`python -m cast.workflow`: the whole workflow, with progress; what `make reproduce` runs.

Ends what a killed run left in this clone, then runs Snakemake in it. Snakemake's own words go to
`results/{world}/workflow.log`. Killed at any moment, the same command goes on where it was.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from cast.config import CastConfig, check_files, count_prompts, load_config
from cast.errors import CastError
from cast.paths import repository_root
from cast.workflow.processes import clear_the_way, end, mark
from cast.workflow.progress import Progress, clock, nominal_seconds

EVERY = 15.0  # seconds between lines of progress
SHOWN = 30  # lines of the log that a failure shows


def main(arguments: list[str] | None = None) -> int:
    """Snakemake's exit code; 2 with one line for bad input."""
    parser = argparse.ArgumentParser(prog="python -m cast.workflow", description=__doc__)
    parser.add_argument("--configfile", default="config/mini.yaml")
    parser.add_argument("--seeds", type=int, help="training seeds a method, from 0 on")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("targets", nargs="*", help="files to make; none makes all")
    chosen = parser.parse_args(arguments)
    root = repository_root()
    os.chdir(root)
    try:
        overrides = {"training_seeds": list(range(chosen.seeds))} if chosen.seeds else {}
        config = load_config(chosen.configfile, overrides)
        check_files(config)
        clear_the_way(root)
        _unlock()
        return _run(config, chosen, root)
    except CastError as error:
        print(error, file=sys.stderr)
        return 2


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", *arguments]


def _unlock() -> None:
    """A killed Snakemake leaves its lock; nobody works here (that was looked at), so it goes."""
    locks = Path(".snakemake/locks")
    if locks.is_dir() and any(locks.iterdir()):
        subprocess.run(_command("--unlock", "--cores", "1"), capture_output=True, check=False)


def _run(config: CastConfig, chosen: argparse.Namespace, root: Path) -> int:
    log = Path(config.results) / config.world / "workflow.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    overrides = ["--config", f"training_seeds={list(range(chosen.seeds))}"] if chosen.seeds else []
    command = _command(
        *chosen.targets,
        f"--configfile={chosen.configfile}",
        f"--cores={chosen.cores}",
        *overrides,
    )
    progress = Progress(nominal_seconds(config, count_prompts(config)), chosen.cores)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", **mark(root)},
    )
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(process, progress, ended), daemon=True)
    watcher.start()
    lines: list[str] = []
    assert process.stdout is not None
    try:
        with log.open("w", encoding="utf-8") as file:
            for line in process.stdout:
                file.write(line)
                file.flush()
                lines.append(line)
                if (said := progress.feed(line)) is not None:
                    _say(progress, said)
        code = process.wait()
    except KeyboardInterrupt:
        print("Stopping; the same command goes on from here.", file=sys.stderr)
        end([*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)])
        return 130
    finally:
        ended.set()
    if code:
        print(progress.reasons() or "".join(lines[-SHOWN:]), file=sys.stderr)
        print(f"Failed after {clock(_elapsed(progress))}; the whole log: {log}", file=sys.stderr)
        return code
    made = " ".join(chosen.targets) or f"every table and figure, in {config.figures},"
    nothing = "" if progress.planned else "nothing to do: "
    print(f"{clock(_elapsed(progress))}  {nothing}{made} is there ({config.world} world)")
    return 0


def _watch(process: subprocess.Popen, progress: Progress, ended: threading.Event) -> None:
    """Print progress; end the run when whoever started it (make, a shell) was killed."""
    parent, shown = os.getppid(), time.monotonic()
    while not ended.wait(1.0):
        if os.getppid() != parent:
            group = psutil.Process(process.pid)
            end([*group.children(recursive=True), group])
            return
        if progress.planned and time.monotonic() - shown >= EVERY:
            shown = time.monotonic()
            _say(progress, None)


def _say(progress: Progress, event: str | None) -> None:
    text = progress.line() if event is None else f"{clock(_elapsed(progress))}  {event}"
    print(text, flush=True)


def _elapsed(progress: Progress) -> float:
    return time.monotonic() - progress.start


if __name__ == "__main__":
    raise SystemExit(main())
