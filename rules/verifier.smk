# Design section 2: the verifier against what the mini world knows: drawn scenes with their masks, and
# the oracle's reading of generated images. The tables are evidence; the notebook shows them.
from cast.config import studied_backbones
from cast.workflow.digest import code_digest, notebook_digest
from cast.workflow.keys import weights_digest

_made = [f"{WORLD}/verifier/{name}.parquet" for name in ("accuracy", "agreement", "heatmap_sweep")]
VERIFIER_TABLES = _made if CONFIG.vocabulary == "shapes" else []  # elsewhere no truth is known


rule verifier:
    input:
        ancient("notebooks/11_verifier.ipynb"),
        of_arms([(name, BASE, 0) for name in CONFIG.backbones], "scores.parquet"),
    output:
        _made,
    log:
        notebook=f"{WORLD}/verifier/11_verifier.ipynb",
        text=f"{WORLD}/verifier/11_verifier.log",
    resources:
        gpu=GPUS,
        mem_mb=memory_of,
    params:
        key={
            "settings": CONFIG.diagnostics.verifier.model_dump(mode="json"),
            "verifier": CONFIG.verifier.model_dump(mode="json"),
            "weights": weights_digest(CONFIG.verifier.path),
            "scores": [
                KEYS.evaluation(name, BASE, 0)
                for name in dict.fromkeys([*CONFIG.backbones, *studied_backbones(CONFIG)])
            ],
            "code": code_digest("cast.evaluation.verifier_study", "cast.verifier.sweep"),
            "notebook": notebook_digest("notebooks/11_verifier.ipynb"),
        },
    shell:
        notebook("11_verifier", resolved="{CONFIG_JSON:q}")
