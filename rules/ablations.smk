# Paper 5.3, App. C: Table 2, which part of CAST does the work. One ablation alone:
#   snakemake results/mini/mini-flux2/per_atom/seed0/scores.parquet
if CONFIG.ablations:

    rule table2:
        input:
            ancient("notebooks/06_ablations.ipynb"),
            f"{WORLD}/hard_case.json",
            of_arms(table2_arms(CONFIG), "scores.parquet", "ledger.json"),
        output:
            artefact("table2", *TABLE),
        log:
            notebook=f"{WORLD}/tables/06_ablations.ipynb",
            text=f"{WORLD}/tables/06_ablations.log",
        localrule: True
        params:
            key=KEYS.artefact("06_ablations", table2_arms(CONFIG)),
        shell:
            notebook("06_ablations", resolved="{CONFIG_JSON:q}")
