# Paper 5.3: Table 1 and the training dynamics (figure 4), from a light notebook that needs no model:
# redrawn without training.
rule table1:
    input:
        ancient("notebooks/05b_table1.ipynb"),
        f"{WORLD}/hard_case.json",
        of_arms(table1_arms(CONFIG), "scores.parquet", "ledger.json", "metrics.parquet", *QUALITY),
    output:
        artefact("table1", *TABLE),
        artefact("figure4"),
    log:
        notebook=f"{WORLD}/tables/05b_table1.ipynb",
        text=f"{WORLD}/tables/05b_table1.log",
    localrule: True
    params:
        key=KEYS.artefact("05b_table1", table1_arms(CONFIG)),
    shell:
        notebook("05b_table1", resolved="{CONFIG_JSON:q}")
