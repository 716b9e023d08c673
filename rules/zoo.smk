# Design section 2: the mini models. They are shipped in models/mini, so nothing depends on these
# rules; `snakemake zoo` trains them anew from nothing, one process a core, and goes on where a
# killed run stopped. Losses: `tensorboard --logdir results/zoo`; sample grids lie beside them.
from cast.workflow.digest import code_digest, file_digest, notebook_digest

TAUGHT = ["mini-qwen-image", "mini-sd3", "mini-zimage"]  # by mini-flux2, on its cached latents
ZOO = ["mini-flux2", *TAUGHT, "mini-qwen3-vl", "mini-clip", "mini-pickscore"]
BUILT_ON = {name: ["mini-flux2"] for name in TAUGHT} | {
    "mini-pickscore": ["mini-clip", "mini-flux2"]
}


rule zoo:
    input:
        expand("results/zoo/{name}.trained", name=ZOO),


rule zoo_model:
    input:
        lambda wc: [f"results/zoo/{name}.trained" for name in BUILT_ON.get(wc.name, [])],
    output:
        touch("results/zoo/{name}.trained"),
    log:
        "results/zoo/{name}.log",
    wildcard_constraints:
        name="|".join(ZOO),
    threads: 1
    shell:
        "OMP_NUM_THREADS=1 python -m cast.mini.zoo {wildcards.name} > {log} 2>&1"


rule zoo_report:
    input:
        ancient("notebooks/00_zoo.ipynb"),
    output:
        f"{CONFIG.results}/zoo/shortfalls.json",
    log:
        notebook=f"{CONFIG.results}/zoo/00_zoo.ipynb",
        text=f"{CONFIG.results}/zoo/00_zoo.log",
    localrule: True
    params:
        key={
            "models": file_digest("models/mini/MANIFEST.json"),
            "code": code_digest("cast.mini.zoo.report"),
            "notebook": notebook_digest("notebooks/00_zoo.ipynb"),
        },
    shell:
        notebook("00_zoo", output="{output}")
