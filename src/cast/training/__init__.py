"""One trainer for every method, its account and its checkpoints (paper 4.3, 5.1, D, E).

`train(run, folder)` trains or goes on; `launch` does it in several processes.
"""

from cast.training.guards import GuardError
from cast.training.launch import launch
from cast.training.ledger import Ledger, PhaseCost
from cast.training.run_folder import Preempted
from cast.training.trainer import train

__all__ = [
    "GuardError",
    "Ledger",
    "PhaseCost",
    "Preempted",
    "launch",
    "train",
]
