# Paper 5.3: the tables, from light notebooks that need no model: redrawn without training.
ARMS = list_arms(CONFIG)


def of_arms(file, arms):
    """A file of every arm."""
    return [f"{WORLD}/{backbone}/{method}/seed{seed}/{file}" for backbone, method, seed in arms]


rule table1:
    input:
        ancient("notebooks/11_table1.ipynb"),
        f"{WORLD}/hard_case.json",
        of_arms("scores.parquet", ARMS),
        of_arms("ledger.json", [arm for arm in ARMS if arm[1] != BASE]),
    output:
        expand(f"{CONFIG.figures}/table1.{{kind}}", kind=["pdf", "tex", "csv"]),
    log:
        notebook=f"{WORLD}/tables/11_table1.ipynb",
        text=f"{WORLD}/tables/11_table1.log",
    localrule: True
    params:
        key=KEYS.table1(),
    shell:
        notebook("11_table1", resolved="{CONFIG_JSON:q}")
