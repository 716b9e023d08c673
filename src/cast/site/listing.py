"""Every artefact's section of the paper, title and caption, for the report and the site."""

from dataclasses import dataclass
from types import SimpleNamespace

from cast.config import CastConfig
from cast.errors import CastError, nearest
from cast.paths import from_root
from cast.worlds import WORLDS

FOLDER = "report"  # captions, one .rst an artefact, and the templates


@dataclass(frozen=True)
class Shown:
    """Where an artefact stands in the paper. A section's first word sorts the report."""

    section: str
    title: str


CLAIMS = "0 Claims of the paper"
SHOWN = {
    "claims": Shown(CLAIMS, "Every claim, our value, and the verdict"),
    "figure1": Shown("1 and 4 The method", "Figure 1. The method on one prompt"),
    "figure7": Shown("3.1 Structure formation, B", "Figure 7. When the layout is decided"),
    "figure2": Shown("3.2 and 3.3 Saturation, agreement", "Figure 2. Preference and atom scores"),
    "table1": Shown("5.3 Main results", "Table 1. All methods"),
    "figure4": Shown("5.3 Main results", "Figure 4. Training dynamics"),
    "table2": Shown("5.3 Ablations, C", "Table 2. Which part does the work"),
    "figure5": Shown("A Qualitative rows", "Figure 5. Images of Hard Case prompts"),
    "figure6": Shown("A Qualitative rows", "Figure 6. More of them"),
    "table3": Shown("E Cost", "Table 3. Cost of training by phase"),
    "simulation": Shown("E Cost", "Estimate: the paper at full size on 1, 8 and 64 GPUs"),
    "figure8": Shown("F Head sensitivity", "Figure 8. Which heads react to which skill"),
}


def shown(name: str) -> Shown:
    """An artefact's place; `CastError` for one that isn't listed."""
    if name not in SHOWN:
        raise CastError(
            f"{name!r} has no section in the report: list it in src/cast/site/listing.py and write "
            f"{FOLDER}/{name}.rst.{nearest(name, SHOWN)}"
        )
    return SHOWN[name]


def command(config: CastConfig, name: str) -> str:
    """What a person types to make an artefact of this world."""
    if config.world == "mini":
        return f"snakemake {config.figures}/{name}.pdf"
    return f"snakemake {config.figures}/{name}.pdf --configfile config/{config.world}.yaml"


def origin(config: CastConfig) -> str:
    """A caption's last sentences, with `{}` for the artefact's name (reStructuredText)."""
    made = command(config, "{}")
    return f"Made by ``{made}``. {WORLDS[config.world]}"


def caption(config: CastConfig, name: str) -> str:
    """HTML of `report/{name}.rst`, filled in as Snakemake's report does it."""
    import jinja2  # late: every job of the workflow imports this module
    from docutils.core import publish_parts

    path = from_root(FOLDER) / f"{name}.rst"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CastError(f"{path}: the caption of {name} can't be read ({error}).") from error
    snakemake = SimpleNamespace(config={"origin": origin(config)})
    filled = jinja2.Template(text).render(snakemake=snakemake)
    return str(publish_parts(filled, writer="html").get("fragment"))
