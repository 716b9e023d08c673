# The claims table: every claim of the paper with our value and a verdict. It comes last, since it
# reads what all other steps left.
rule checks:
    input:
        ancient("notebooks/10a_checks.ipynb"),
        f"{WORLD}/prompts/manifest.parquet",
    output:
        evidence("C26", "C27", "X5", "X6"),
        evidence("X1", "X2") if CONFIG.vocabulary == "shapes" else [],  # where the truth is known
    log:
        notebook=f"{WORLD}/claims/10a_checks.ipynb",
        text=f"{WORLD}/claims/10a_checks.log",
    resources:
        gpu=GPUS,
        mem_mb=memory_of,
    params:
        key=KEYS.checks(),
    shell:
        notebook("10a_checks", resolved="{CONFIG_JSON:q}")


rule claims:
    input:
        ancient("notebooks/10_claims.ipynb"),
        f"{WORLD}/prompts/report.json",
        f"{WORLD}/hard_case.json",
        of_arms(list_arms(CONFIG), "scores.parquet", "ledger.json", "metrics.parquet"),
        list(ARTEFACTS),
        EVIDENCE,
    output:
        artefact("claims", *TABLE),
    log:
        notebook=f"{WORLD}/claims/10_claims.ipynb",
        text=f"{WORLD}/claims/10_claims.log",
    localrule: True
    params:
        key=KEYS.artefact("10_claims", list_arms(CONFIG)),
    shell:
        notebook("10_claims", resolved="{CONFIG_JSON:q}")
