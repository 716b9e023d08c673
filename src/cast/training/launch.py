"""One process or several: who does which images, and how their results meet.

A group is split over ranks by whole micro-batches, so every image is computed in the same shape
wherever it runs. Gathered rows come back in the group's order, gradients meet in a fixed tree
(`gradients.PairwiseSum`); nothing is derived from the rank.

    python -m cast.training.launch run.json FOLDER --processes 2

starts two, one device each (gloo on CPUs, NCCL on GPUs). `launch` does the same from Python, and
calls `train` in this process when there is one. In a job of SLURM, srun starts them, on one
machine or several, and SLURM's signals reach each of them; elsewhere torchrun does, on this
machine. Accelerate reads each one's rank from the environment.
"""

import argparse
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from accelerate import PartialState
from torch import Tensor

from cast.config import RunConfig
from cast.config.reading import parse
from cast.errors import CastError
from cast.io import read_json, write_json
from cast.training.gradients import Gradients, PairwiseSum
from cast.training.ledger import Device
from cast.training.run_folder import Preempted, StopRequest


class Processes:
    """The ranks of a run. A single process never opens a process group."""

    def __init__(self) -> None:
        self._state = PartialState(cpu=not torch.cuda.is_available())
        self.rank, self.count = self._state.process_index, self._state.num_processes
        self.device = torch.device(self._state.device or "cpu")

    @property
    def is_main(self) -> bool:
        """Whether this rank writes files and shows progress."""
        return self.rank == 0

    def describe(self) -> Device:
        """What the ledger counts: one device a process."""
        if self.device.type == "cuda":
            return Device("gpu", torch.cuda.get_device_name(self.device), self.count)
        return Device("cpu", _cpu_name(), self.count)

    def rows(self, images: int, micro_batch: int) -> range:
        """This rank's images of a group: a contiguous run of whole micro-batches.

        Raises `CastError` when the group isn't made of whole micro-batches, or has fewer of them
        than there are processes.
        """
        count, rest = divmod(images, micro_batch)
        if rest:
            raise CastError(
                f"training.micro_batch = {micro_batch}: a group of {images} images must be made "
                "of whole micro-batches; choose a divisor of the group's size."
            )
        if count < self.count:
            raise CastError(
                f"{self.count} processes for {count} micro-batches of {micro_batch} images: some "
                "would have nothing to do. Use fewer processes or a smaller training.micro_batch."
            )
        first, last = (rank * count // self.count for rank in (self.rank, self.rank + 1))
        return range(first * micro_batch, last * micro_batch)

    def gather(self, rows: Tensor) -> Tensor:
        """All ranks' rows in the group's order, on every rank. Ranks may hold different counts."""
        if self.count == 1:
            return rows
        rows = rows.to(self.device).contiguous()
        counts = [torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(self.count)]
        dist.all_gather(counts, torch.tensor([len(rows)], device=self.device))
        largest = max(int(count) for count in counts)
        padded = rows.new_zeros(largest, *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in range(self.count)]
        dist.all_gather(parts, padded)
        return torch.cat([part[: int(n)] for part, n in zip(parts, counts, strict=True)])

    def add_up(self, gradients: Gradients) -> Gradients:
        """Sum of the ranks' gradients in the order of the ranks, tensor by tensor."""
        if self.count == 1:
            return gradients
        return [self._added(gradient) for gradient in gradients]

    def _added(self, gradient: Tensor) -> Tensor:
        parts = [torch.empty_like(gradient) for _ in range(self.count)]
        dist.all_gather(parts, gradient.contiguous())
        tree = PairwiseSum()
        for part in parts:
            tree.add([part])
        return tree.total()[0]

    def wait(self) -> None:
        """Let every rank come this far."""
        self._state.wait_for_everyone()


def _cpu_name() -> str:
    """The processor's model, from /proc where there is one."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"CPU core ({names[0]})" if names else "CPU core"


def launch(run: RunConfig, folder: Path, processes: int = 1, nodes: int = 1) -> None:
    """Train in this process, or in several; resumes like `train`.

    Raises `CastError` when a process failed (its own message stands above, on stderr), and
    `Preempted` when the processes were asked to end, which saved their state first.
    """
    from cast.training.trainer import train  # here, since the trainer needs Processes

    if processes == 1:
        train(run, folder)
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "launch.json"
    write_json(path, run.model_dump(mode="json"))
    by_srun = _has_tasks(processes)
    starter = _srun(processes, nodes) if by_srun else _torchrun(processes, nodes)
    command = [*starter, "-m", "cast.training.launch", str(path), str(folder)]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    if by_srun:
        command.append("--step")
        environment |= {"MASTER_PORT": str(_free_port())}
    with StopRequest().listening() as stop:
        code = _wait(subprocess.Popen(command, env=environment), stop, told=by_srun)
    if code == 0:
        return
    if stop.asked or code == Preempted.exit_code:
        raise Preempted(f"{folder}: the run was asked to end (SIGTERM); the same command goes on.")
    raise CastError(
        f"{folder}: training in {processes} processes ended with code {code}; the cause stands "
        "above. The same command goes on from the last checkpoint."
    )


def _has_tasks(processes: int) -> bool:
    """Whether this is a job of SLURM that was given a task a process, as the training rule asks. In
    a job of one task, such as the checks', srun has nothing to start the others with."""
    return "SLURM_JOB_ID" in os.environ and int(os.environ.get("SLURM_NTASKS", 1)) >= processes


def _torchrun(processes: int, nodes: int) -> list[str]:
    """The command that starts Python once a process on this machine."""
    if nodes > 1:
        raise CastError(
            f"compute.nodes = {nodes}: only SLURM starts processes on several machines, in a job "
            f"of {processes} tasks; run `snakemake --profile slurm`, or set it to 1."
        )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*torchrun, f"--nproc-per-node={processes}"]


def _srun(processes: int, nodes: int) -> list[str]:
    """The command that starts Python once a process on the job's machines."""
    # --wait: a rank that ends lets the others finish what they write; a hung one isn't waited for.
    srun = ["srun", f"--nodes={nodes}", f"--ntasks={processes}", "--wait=120", "--cpu-bind=none"]
    return [*srun, f"--ntasks-per-node={processes // nodes}", sys.executable]


def _free_port() -> int:
    """A port of this machine, the first of the job's, where rank 0 runs too."""
    with socket.socket() as found:
        found.bind(("", 0))
        return found.getsockname()[1]


def _join_step() -> None:
    """Name this process's rank, as accelerate reads it, by what srun says of its task."""
    own = os.environ
    own["RANK"], own["LOCAL_RANK"] = own["SLURM_PROCID"], own["SLURM_LOCALID"]
    own["WORLD_SIZE"], own["MASTER_ADDR"] = own["SLURM_NTASKS"], own["SLURM_LAUNCH_NODE_IPADDR"]


def _wait(child: subprocess.Popen[bytes], stop: StopRequest, told: bool) -> int:
    """The child's exit code. SIGTERM is passed on, once, unless the processes are `told` without
    us, as SLURM does with the tasks of srun."""
    while True:
        try:
            return child.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            if stop.asked and not told:
                child.terminate()
                told = True


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: train the run of a `run.json`; 2 for bad input, 75 when preempted."""
    parser = argparse.ArgumentParser(prog="python -m cast.training.launch", description=__doc__)
    parser.add_argument("run", type=Path, help="JSON of a RunConfig")
    parser.add_argument("folder", type=Path, help="folder of the run")
    parser.add_argument("--processes", type=int, default=1, help="processes on this machine")
    parser.add_argument("--step", action="store_true", help="this is one task of an srun")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.step:
            _join_step()
        run = parse(RunConfig, read_json(chosen.run), str(chosen.run))
        launch(run, chosen.folder, chosen.processes)
    except Preempted as stop:
        print(stop, file=sys.stderr)
        return stop.exit_code
    except CastError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
