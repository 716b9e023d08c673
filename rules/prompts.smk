# Paper 4.1, D: the prompt sets, sampled from causal scene graphs.
PROMPT_SETS = ["train", "development", "manifest", "benchmark"]


rule prompts:
    input:
        ancient("notebooks/01_prompts.ipynb"),
    output:
        expand(f"{WORLD}/prompts/{{name}}.parquet", name=PROMPT_SETS),
        f"{WORLD}/prompts/report.json",
    log:
        notebook=f"{WORLD}/prompts/01_prompts.ipynb",
        text=f"{WORLD}/prompts/01_prompts.log",
    params:
        key=KEYS.prompts(),
    shell:
        notebook("01_prompts", resolved="{CONFIG_JSON:q}")
