# Paper 5.2, G: the Hard Case subset, and every arm's images and scores at matched seeds.
def trained(wildcards):
    """What an arm's evaluation waits for: its adapter; the base model has none."""
    if wildcards.method == BASE:
        return []
    return [f"{ARM}/adapter/pytorch_lora_weights.safetensors".format(**wildcards)]


rule hard_case:
    input:
        ancient("notebooks/05a_hard_case.ipynb"),
        f"{WORLD}/prompts/benchmark.parquet",
    output:
        f"{WORLD}/hard_case.json",
    log:
        notebook=f"{WORLD}/hard_case/05a_hard_case.ipynb",
        text=f"{WORLD}/hard_case/05a_hard_case.log",
    resources:
        gpu=GPUS,
    params:
        key=KEYS.hard_case(),
    shell:
        notebook("05a_hard_case", resolved="{CONFIG_JSON:q}")


rule evaluate:
    input:
        ancient("notebooks/05_evaluation.ipynb"),
        f"{WORLD}/prompts/benchmark.parquet",
        trained,
    output:
        f"{ARM}/images.parquet",
        f"{ARM}/scores.parquet",
        f"{ARM}/evaluation.json",
    log:
        notebook=f"{ARM}/05_evaluation.ipynb",
        text=f"{ARM}/05_evaluation.log",
    resources:
        gpu=GPUS,
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
