# Paper 5.2, G: the Hard Case subset, and every arm's images and scores at matched seeds.
#
# With compute.chunks above 1 that many jobs share the images of an arm (and of the Hard Case), and
# its own job gathers their tables, without a model, beside Snakemake itself.
from cast.workflow.digest import notebook_digest

CHUNKS = CONFIG.compute.chunks
CHUNK = f"chunks/{{index}}-of-{CHUNKS}"
CHUNK_NOTEBOOK = "notebooks/05c_chunk.ipynb"
GATHERS = GPUS if CHUNKS == 1 else 0


def chunks_of(folder):
    """The chunks that a job gathers; none where it does all by itself."""
    return expand(f"{folder}/{CHUNK}/chunk.json", index=range(CHUNKS)) if CHUNKS > 1 else []


def trained(wildcards):
    """What an arm's evaluation waits for: its adapter; the base model has none."""
    if wildcards.method == BASE:
        return []
    return [f"{ARM}/adapter/pytorch_lora_weights.safetensors".format(**wildcards)]


rule hard_case:
    input:
        ancient("notebooks/05a_hard_case.ipynb"),
        f"{WORLD}/prompts/benchmark.parquet",
        chunks_of(f"{WORLD}/hard_case"),
    output:
        f"{WORLD}/hard_case.json",
    log:
        notebook=f"{WORLD}/hard_case/05a_hard_case.ipynb",
        text=f"{WORLD}/hard_case/05a_hard_case.log",
    localrule: CHUNKS > 1
    resources:
        gpu=GATHERS,
        mem_mb=memory_of,
    params:
        key=KEYS.hard_case(),
    shell:
        notebook("05a_hard_case", resolved="{CONFIG_JSON:q}")


rule evaluate:
    input:
        ancient("notebooks/05_evaluation.ipynb"),
        f"{WORLD}/prompts/benchmark.parquet",
        trained,
        lambda wc: chunks_of(ARM.format(**wc)),
    output:
        f"{ARM}/images.parquet",
        f"{ARM}/scores.parquet",
        f"{ARM}/evaluation.json",
    log:
        notebook=f"{ARM}/05_evaluation.ipynb",
        text=f"{ARM}/05_evaluation.log",
    localrule: CHUNKS > 1
    resources:
        gpu=GATHERS,
        mem_mb=memory_of,
    params:
        key=lambda wc: KEYS.evaluation(*arm_of(wc)),
    shell:
        notebook(
            "05_evaluation",
            resolved="{CONFIG_JSON:q}",
            backbone="{wildcards.backbone}",
            method="{wildcards.method}",
            seed="{wildcards.seed}",
        )


rule chunk_of_hard_case:
    input:
        ancient(CHUNK_NOTEBOOK),
        f"{WORLD}/prompts/benchmark.parquet",
    output:
        f"{WORLD}/hard_case/{CHUNK}/chunk.json",
    log:
        notebook=f"{WORLD}/hard_case/{CHUNK}/05c_chunk.ipynb",
        text=f"{WORLD}/hard_case/{CHUNK}/05c_chunk.log",
    wildcard_constraints:
        index=r"\d+",
    resources:
        gpu=GPUS,
        mem_mb=memory_of,
    params:
        key=KEYS.hard_case(),
        notebook=notebook_digest(CHUNK_NOTEBOOK),
    shell:
        notebook(
            "05c_chunk",
            resolved="{CONFIG_JSON:q}",
            method="hard_case",
            index="{wildcards.index}",
        )


rule chunk_of_evaluation:
    input:
        ancient(CHUNK_NOTEBOOK),
        f"{WORLD}/prompts/benchmark.parquet",
        trained,
    output:
        f"{ARM}/{CHUNK}/chunk.json",
    log:
        notebook=f"{ARM}/{CHUNK}/05c_chunk.ipynb",
        text=f"{ARM}/{CHUNK}/05c_chunk.log",
    wildcard_constraints:
        index=r"\d+",
    resources:
        gpu=GPUS,
        mem_mb=memory_of,
    params:
        key=lambda wc: KEYS.evaluation(*arm_of(wc)),
        notebook=notebook_digest(CHUNK_NOTEBOOK),
    shell:
        notebook(
            "05c_chunk",
            resolved="{CONFIG_JSON:q}",
            backbone="{wildcards.backbone}",
            method="{wildcards.method}",
            seed="{wildcards.seed}",
            index="{wildcards.index}",
        )
