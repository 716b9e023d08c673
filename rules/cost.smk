# Paper App. E: Table 3, what each method's training cost, by phase.
rule table3:
    input:
        ancient("notebooks/07_cost.ipynb"),
        of_arms(list_arms(CONFIG), "scores.parquet", "ledger.json"),
    output:
        artefact("table3", *TABLE),
    log:
        notebook=f"{WORLD}/tables/07_cost.ipynb",
        text=f"{WORLD}/tables/07_cost.log",
    localrule: True
    params:
        key=KEYS.artefact("07_cost", list_arms(CONFIG)),
    shell:
        notebook("07_cost", resolved="{CONFIG_JSON:q}")
