# Paper 4.3, 5.1: one trainer for every method. A killed run goes on from its last checkpoint, which
# lies beside the declared outputs; a run whose settings, weights or code changed starts anew.
from cast.config import load_backbone_config

COMPUTE = CONFIG.compute
SEVERAL = {}
if COMPUTE.processes > 1:  # srun starts the ranks from within the job: see launch.py
    SEVERAL = {"mpi": "srun", "tasks": COMPUTE.processes, "nodes": COMPUTE.nodes}
    if GPUS:
        SEVERAL["tasks_per_gpu"] = 1


def measured_window(wildcards):
    """The window that the structure-formation study measured, where the backbone's YAML takes it."""
    measured = load_backbone_config(wildcards.backbone).window.high == "measured"
    return [f"{WORLD}/{wildcards.backbone}/window.json"] if measured else []


rule train:
    input:
        ancient("notebooks/04_training.ipynb"),
        f"{WORLD}/prompts/manifest.parquet",
        f"{WORLD}/hard_case.json",  # frozen before any training (paper G)
        measured_window,
    output:
        f"{ARM}/adapter/pytorch_lora_weights.safetensors",
        f"{ARM}/ledger.json",
        f"{ARM}/metrics.parquet",
    log:
        notebook=f"{ARM}/04_training.ipynb",
        text=f"{ARM}/04_training.log",
    wildcard_constraints:
        method=known("methods"),
    resources:
        **SEVERAL,
        gpu=GPUS * COMPUTE.processes,
        mem_mb=lambda wc, attempt: memory_of(wc, attempt) * COMPUTE.processes // COMPUTE.nodes,
    params:
        run=lambda wc: run_config(CONFIG, *arm_of(wc)).model_dump_json(),
        key=lambda wc: KEYS.training(*arm_of(wc)),
    shell:
        notebook(
            "04_training",
            resolved="{params.run:q}",
            processes=COMPUTE.processes,
            nodes=COMPUTE.nodes,
        )
