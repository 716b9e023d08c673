# Design section 2: the mini models. They are shipped in models/mini, so nothing depends on these
# rules; `snakemake zoo` trains them anew from nothing, one process a core, and goes on where a
# killed run stopped.
ZOO = ["mini-flux2", "mini-qwen3-vl"]


rule zoo:
    input:
        expand("results/zoo/{name}.trained", name=ZOO),


rule zoo_model:
    output:
        touch("results/zoo/{name}.trained"),
    log:
        "results/zoo/{name}.log",
    wildcard_constraints:
        name="|".join(ZOO),
    threads: 1
    shell:
        "OMP_NUM_THREADS=1 python -m cast.mini.zoo {wildcards.name} > {log} 2>&1"
