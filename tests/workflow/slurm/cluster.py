"""A real SLURM of one node with two pretended GPUs, started in seconds, for tests.

    python tests/workflow/slurm/cluster.py install   # Debian's slurm-wlm and munge
    python tests/workflow/slurm/cluster.py start
    python tests/workflow/slurm/cluster.py stop

It needs root, and a machine that is in no cluster: /etc/slurm/slurm.conf is the only place where
Debian's SLURM looks, so a file there that isn't this script's is left alone and nothing starts.
The GPUs are device nodes that lead to /dev/null: SLURM hands them out and sets
CUDA_VISIBLE_DEVICES as for real ones, while the processes compute on the CPU.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ETC, STATE = Path("/etc/slurm"), Path("/run/cast-slurm")
MUNGE = Path("/run/munge")
GPUS = 2
OURS = "# made by tests/workflow/slurm/cluster.py"

# Two partitions on the one node; a job of `urgent` takes the place of one of `gpu`, which is told
# by SIGTERM, has GraceTime seconds, and is queued again. CPUs are pretended too, so that jobs of
# a second needn't wait for each other.
SLURM_CONF = """{ours}
ClusterName=cast
SlurmctldHost={host}
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
StateSaveLocation={state}/ctld
SlurmdSpoolDir={state}/d
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/slurmd.pid
SlurmctldLogFile={state}/slurmctld.log
SlurmdLogFile={state}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MinJobAge=3600
KillWait=10
OverTimeLimit=0
ReturnToService=2
SchedulerParameters=sched_interval=5,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} CPUs=16 RealMemory=1000000 Gres=gpu:h200:{gpus} State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=120 State=UP
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=2 PreemptMode=OFF State=UP
"""


def missing() -> str | None:
    """Why a cluster can't be started here, or None."""
    conf = ETC / "slurm.conf"
    if sys.platform != "linux" or os.geteuid() != 0:
        return "SLURM's daemons need root on Linux"
    if conf.exists() and not conf.read_text(errors="replace").startswith(OURS):
        return f"{conf} is of a cluster that this machine belongs to"
    if shutil.which("slurmctld") is None and shutil.which("apt-get") is None:
        return "neither slurmctld nor apt-get is here"
    return None


def install() -> None:
    """Debian's packages, unless they are here."""
    if shutil.which("slurmctld") and shutil.which("munged"):
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    packages = ["slurm-wlm", "munge"]
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        subprocess.run(
            ["apt-get", "-qq", *command], env=quiet, check=True, stdout=subprocess.DEVNULL
        )


def start() -> None:
    """Start munge, controller and node; returns when jobs can be submitted."""
    stop()
    host = socket.gethostname()
    ETC.mkdir(parents=True, exist_ok=True)
    for folder in (STATE / "ctld", STATE / "d"):
        folder.mkdir(parents=True)
    devices = [STATE / f"gpu{number}" for number in range(GPUS)]
    for device in devices:
        subprocess.run(["mknod", str(device), "c", "1", "3"], check=True)
    listed = "".join(f"Name=gpu Type=h200 File={device}\n" for device in devices)
    (ETC / "gres.conf").write_text(f"{OURS}\n{listed}")
    conf = SLURM_CONF.format(ours=OURS, host=host, state=STATE, gpus=GPUS)
    (ETC / "slurm.conf").write_text(conf)
    MUNGE.mkdir(exist_ok=True)
    shutil.chown(MUNGE, "munge", "munge")
    if _run("munge", "-n") != 0:
        (STATE / "munged.ours").touch()
        subprocess.run(["runuser", "-u", "munge", "--", "munged", "--force"], check=True)
    _until(lambda: _run("munge", "-n") == 0, "munge")
    subprocess.run(["slurmctld", "-c"], check=True)
    subprocess.run(["slurmd"], check=True)
    _until(lambda: "idle" in _output("sinfo", "-h", "-o", "%T"), "the node")


def is_running() -> bool:
    """Whether a cluster of ours is up."""
    return _pid("slurmctld") is not None and _pid("slurmd") is not None


def stop() -> None:
    """End the daemons that were started here and remove their files; no job survives."""
    if _pid("slurmctld") is not None:
        for job in _output("squeue", "-h", "-o", "%i").split():
            _run("scancel", "--signal=KILL", "--full", job)
            _run("scancel", job)
    own_munge = ["munged"] if (STATE / "munged.ours").exists() else []
    for name in ("slurmd", "slurmctld", *own_munge):
        if (pid := _pid(name)) is not None:
            os.kill(pid, signal.SIGTERM)
            _until(lambda name=name: _pid(name) is None, f"the end of {name}")
    shutil.rmtree(STATE, ignore_errors=True)
    for name in ("slurm.conf", "gres.conf"):
        path = ETC / name
        if path.exists() and path.read_text(errors="replace").startswith(OURS):
            path.unlink()


def _pid(name: str) -> int | None:
    """Of a living daemon of ours."""
    try:
        pid = int(((MUNGE if name == "munged" else STATE) / f"{name}.pid").read_text())
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    return pid


def _run(*command: str) -> int:
    return subprocess.run(command, capture_output=True, check=False).returncode


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            logs = "".join(path.read_text()[-2000:] for path in sorted(STATE.glob("*.log")))
            raise RuntimeError(f"SLURM: waited {seconds:.0f} s for {what}.\n{logs}")
        time.sleep(0.1)


if __name__ == "__main__":
    if (reason := missing()) is not None:
        sys.exit(f"No SLURM here: {reason}.")
    {"install": install, "start": start, "stop": stop}[sys.argv[1]]()
