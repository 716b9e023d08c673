# Paper App. E: Table 3, what each method's training cost, by phase.
from cast.workflow.digest import code_digest, file_digest, notebook_digest


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


# The paper at full size on 1, 8 and 64 GPUs: an estimate from counts, the same in every world.
rule simulation:
    input:
        ancient("notebooks/07a_full_size.ipynb"),
    output:
        artefact("simulation"),
    log:
        notebook=f"{WORLD}/tables/07a_full_size.ipynb",
        text=f"{WORLD}/tables/07a_full_size.log",
    localrule: True
    params:
        key={
            "paper": file_digest("config/paper.yaml"),
            "counts": file_digest("src/cast/full_size/counts.json"),
            "shapes": file_digest("src/cast/full_size/shapes.yaml"),
            "code": code_digest("cast.figures"),
            "notebook": notebook_digest("notebooks/07a_full_size.ipynb"),
        },
    shell:
        notebook("07a_full_size", resolved="{CONFIG_JSON:q}")
