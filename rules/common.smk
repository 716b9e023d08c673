# The config, and how a rule runs its notebook. A bad config ends here, before any rule.
#
# Every rule has a `key` among its params, which names by content all that it depends on. Notebooks
# are ancient(), since the key covers their code. What another rule makes is not: Snakemake looks no
# further down from a job that it reruns, so behind an ancient() input it would overlook changes.
import atexit
import os
import re
import sys
from pathlib import Path

from cast.config import as_written, check_files, load_config, run_config
from cast.config.loading import EMBEDDINGS_VARIABLE
from cast.errors import CastError
from cast.paths import from_root
from cast.site.listing import origin, shown
from cast.slurm import check_queue
from cast.workflow.keys import BASE, Keys, list_arms, table1_arms, table2_arms

DRY_RUN = any(flag in sys.argv for flag in ("-n", "--dry-run", "--dryrun", "--lint"))
NO_WORK = DRY_RUN or "--unlock" in sys.argv
MAKES_MODELS = any("zoo" in argument for argument in sys.argv[1:])

try:
    _given = workflow.config_settings
    CONFIG = load_config(
        _given.configfiles[-1] if _given.configfiles else "config/mini.yaml",
        overrides=as_written(_given.config),
    )
    if not NO_WORK:  # a plan can be made without weights and data
        check_files(CONFIG, models=not MAKES_MODELS)
    if workflow.is_main_process and not NO_WORK:
        check_queue(Path.cwd())
    for _arm in list_arms(CONFIG):
        if _arm[1] != BASE:
            run_config(CONFIG, *_arm)
except CastError as error:
    print(error, file=sys.stderr)
    sys.exit(2)

if CONFIG.compute.embeddings is not None:  # every job inherits it, as do its ranks
    os.environ[EMBEDDINGS_VARIABLE] = CONFIG.compute.embeddings

KEYS = Keys(CONFIG)
CONFIG_JSON = CONFIG.model_dump_json()
WORLD = f"{CONFIG.results}/{CONFIG.world}"
ARM = f"{WORLD}/{{backbone}}/{{method}}/seed{{seed}}"
GPUS = int(CONFIG.world == "paper")  # of a job that runs a model


def known(kind):
    """The names of config/{kind}, as a pattern."""
    return "|".join(re.escape(file.stem) for file in from_root(f"config/{kind}").glob("*.yaml"))


wildcard_constraints:
    backbone=known("backbones"),
    method=f"{BASE}|{known('methods')}",
    seed=r"\d+",


def arm_of(wildcards):
    """(backbone, method, seed) of a job."""
    return wildcards.backbone, wildcards.method, int(wildcards.seed)


if DRY_RUN and GPUS and "--lint" not in sys.argv:
    from cast.workflow.plan import left_to_do, plan

    atexit.register(lambda: print(plan(CONFIG, left_to_do(workflow))))

# A job of the cluster parses this file too: what it was asked to end, it queues again.
SCHEDULED = "--scheduled " if workflow.remote_exec else ""


def memory_of(wildcards, attempt):
    """Resource `mem_mb` of a process that runs a model, more after a failure: the weights pass
    through the host's memory, 64 GB of FLUX.2-dev."""
    return attempt * (128_000 if GPUS else 4_000)


ARTEFACTS = []  # every table and figure: what `rule all` makes
EVIDENCE = []  # what steps measured for the claims table


report: "../report/workflow.rst"


config["origin"] = origin(CONFIG)  # what captions in report/ end with


def artefact(name, *kinds):
    """The files of a table (pdf, png, tex, csv) or figure, as a rule's outputs."""
    files = [f"{CONFIG.figures}/{name}.{kind}" for kind in kinds or ("pdf", "png", "csv")]
    ARTEFACTS.extend(files)
    return [in_report(name, file) for file in files]


def in_report(name, file):
    """The picture and its numbers stand in `snakemake --report`, by their section of the paper."""
    kind = Path(file).suffix[1:]
    if kind not in ("png", "csv"):
        return file
    place = shown(name)
    return report(
        file,
        caption=f"../report/{name}.rst",
        category=place.section,
        labels={"title": place.title, "world": CONFIG.world, "file": kind},
    )


def evidence(*claims):
    """The files of what a rule measures for some claims, as its outputs."""
    files = [f"{WORLD}/claims/{claim}.json" for claim in claims]
    EVIDENCE.extend(files)
    return files


TABLE = ("pdf", "png", "tex", "csv")


def of_arms(arms, *files):
    """Files of each arm; what training writes only of those that were trained."""
    return [
        f"{WORLD}/{backbone}/{method}/seed{seed}/{file}"
        for backbone, method, seed in arms
        for file in files
        if method != BASE or file not in ("ledger.json", "metrics.parquet")
    ]


def notebook(name, **parameters):
    """Shell command of a notebook step. The executed copy and the text log stand under `log:`, so
    they survive a failure, whose last lines also go to the terminal. The shell outlives SIGTERM,
    so that the step can save its state."""
    passed = " ".join(f"-r {key} {value}" for key, value in parameters.items())
    return (
        "trap : TERM; export OMP_NUM_THREADS={threads} TOKENIZERS_PARALLELISM=false; "
        f"python -m cast.workflow.step {SCHEDULED}"
        f"notebooks/{name}.ipynb {{log.notebook}} {{log.text}} {passed}"
    )
