"""The paper's claims, and six of ours, each with how it is measured.

A claim without `measure` is measured by the step that its command names, which leaves its value in
`results/{world}/claims/{ID}.json` (`cast.evidence`).
"""

from cast.figures.claims import facts as f
from cast.figures.claims import measures as m
from cast.figures.claims.quality import best_quality
from cast.figures.claims.rules import Claim

_ARM = "snakemake results/{world}/{backbone}/{method}/seed0/scores.parquet"
_TABLE1 = "snakemake {figures}/table1.pdf"
_TABLE2 = "snakemake {figures}/table2.pdf"
_FIGURE2 = "snakemake {figures}/figure2.pdf"
_FIGURE7 = "snakemake {figures}/figure7.pdf"
_FIGURE8 = "snakemake {figures}/figure8.pdf"
_PROMPTS = "snakemake results/{world}/prompts/report.json"
_CLAIMS = "snakemake {figures}/claims.pdf"
_CHECK = "snakemake results/{{world}}/claims/{id}.json"
_HARD = "snakemake results/{world}/hard_case.json"

CLAIMS = (
    Claim(
        "C01", "3.1, B, fig 7",
        "Objects and layout form early, at a point that differs between models",
        "tau* 0.11 SD3.5-Large, 0.21 FLUX.2-dev, 0.14 Qwen-Image-2512; all before 0.25",
        "number", _FIGURE7, paper_number=0.21,
    ),
    Claim(
        "C02", "B", "Candidate ranges follow from tau* for N = 50",
        "[0, 11) FLUX.2-dev, [1, 7) Qwen-Image-2512", "fact", _FIGURE7,
    ),
    Claim(
        "C03", "3.1", "The decoded estimate at tau* already shows the main layout",
        "shown in pictures", "direction", _FIGURE7,
    ),
    Claim(
        "C04", "3.2, fig 2", "Preference scores are saturated",
        "PickScore means 0.887 to 0.907, CoV 0.045 to 0.048", "number", _FIGURE2,
        paper_number=0.0465,
    ),
    Claim(
        "C05", "3.2, fig 2", "Atom scores keep their spread: their CoV exceeds preference's",
        "GenEval 2 means 0.734 to 0.829, CoV 0.177 to 0.225", "direction", _FIGURE2,
    ),
    Claim(
        "C06", "3.3, fig 2", "Both rank image pairs alike hardly more often than chance",
        "52.5 to 56.7%, chance 50%", "number", _FIGURE2, paper_number=0.546,
    ),
    Claim(
        "C07", "1, 3.3", "Prompts have so many atoms that a sum barely tells which one failed",
        "3 to 10 atoms, median 6.5", "fact", _PROMPTS, f.atom_counts,
    ),
    Claim(
        "C08", "4.1, D", "Prompts come from graphs, disjoint from the benchmarks",
        "1,024 training, 256 development", "fact", _PROMPTS, f.disjoint_prompts,
    ),
    Claim(
        "C09", "5.1, D", "One budget for all methods",
        "128 collections of 16: 2,048 images, 128 updates", "fact", _TABLE1, f.one_budget,
    ),
    Claim(
        "C10", "5.3, table 1", "CAST's Hard Case gain over Flow-GRPO's, FLUX.2-dev",
        "1.93×", "number", _TABLE1, m.hard_ratio("flux2"), paper_number=1.93,
    ),
    Claim(
        "C11", "5.3, table 1", "The same, Qwen-Image-2512",
        "3.07×", "number", _TABLE1, m.hard_ratio("qwen"), paper_number=3.07,
    ),
    Claim(
        "C12", "5.3, table 1", "CAST beats SFT (3/64) on Hard Case",
        "on both backbones", "direction", _TABLE1, m.hard_lead("sft_3_64", everywhere=True),
    ),
    Claim(
        "C13", "5.3, table 1", "CAST has the best overall quality (Qwen-Image-Bench)",
        "on both backbones", "direction", _TABLE1, best_quality,
    ),
    Claim(
        "C14", "5.3, G", "CAST's full-set average improves, and every skill improves or holds",
        "direction", "direction", _TABLE1, m.holds_or_improves,
    ),
    Claim(
        "C15", "1, G", "Share of prompts that the base scores at 0.95 or more",
        "18.8% FLUX.2-dev, 11.6% Qwen-Image-2512", "number",
        _ARM.replace("{method}", "base"), m.saturated("flux2"), paper_number=0.188,
    ),
    Claim(
        "C16", "G", "Hard Case is fixed before training: of the most varied prompts the lowest",
        "50 of the 100 of highest variance", "fact", _HARD, f.frozen_subset,
    ),
    Claim(
        "C17", "5.2, G", "Matched generation seeds; mean and sample sd over replicates",
        "four replicates", "fact", _TABLE1, f.four_replicates,
    ),
    Claim(
        "C18", "5.3, C", "Per-atom credit beats the sum reward on Hard Case",
        "direction", "direction", _TABLE2, m.hard_lead(m.G2, ahead="per_atom"),
    ),
    Claim(
        "C19", "5.3, C", "CAST beats spatial weighting alone (image advantage, mean map)",
        "direction", "direction", _TABLE2, m.spatial_weighting,
    ),
    Claim(
        "C20", "5.3, C", "CAST beats shuffled atom-to-map pairs: correspondence matters",
        "direction", "direction", _TABLE2, m.hard_lead("shuffled_map"),
    ),
    Claim(
        "C21", "5.3, fig 4", "Training dynamics of supervised and RL runs",
        "figure", "artefact", "snakemake {figures}/figure4.pdf", f.made("figure4"),
    ),
    Claim(
        "C22", "E", "Cost by phase, compared within one backbone",
        "table", "artefact", "snakemake {figures}/table3.pdf", f.cost_ratio,
    ),
    Claim(
        "C23", "F", "Heads' activations differ between correct and incorrect images (FDR)",
        "56 blocks; steps 3, 7, 14, 21; 10 prompts", "artefact", _FIGURE8, f.made("figure8"),
    ),
    Claim(
        "C24", "F", "Spatial relations are most sensitive early, attributes later",
        "direction", "direction", _FIGURE8,
    ),
    Claim(
        "C25", "F", "The most sensitive heads overlap across skills, more than by chance",
        "direction", "direction", _FIGURE8,
    ),
    Claim(
        "C26", "4.3", "Atoms below the scorer's resolution give zero advantage",
        "invariant", "invariant", _CHECK.format(id="C26"),
    ),
    Claim(
        "C27", "2.1", "The SDE keeps the continuous-time marginals (error ratio of halved steps)",
        "invariant", "invariant", _CHECK.format(id="C27"), threshold=0.55,
    ),
    Claim(
        "C28", "A, figs 5, 6", "Qualitative rows with a score each",
        "figures", "artefact", "snakemake {figures}/figure5.pdf {figures}/figure6.pdf",
        f.made("figure5", "figure6"),
    ),
    Claim(
        "X1", "ours", "The verifier answers probes about drawn scenes rightly (more than 0.9)",
        "–", "direction", _CHECK.format(id="X1"), threshold=0.9,
    ),
    Claim(
        "X2", "ours", "Heatmaps peak on the entity they speak of (more than 0.8)",
        "–", "direction", _CHECK.format(id="X2"), threshold=0.8,
    ),
    Claim(
        "X3", "ours", "The oracle sees CAST's full-set gain too, so it isn't reward hacking",
        "–", "direction", _TABLE1, m.oracle_gain,
    ),
    Claim(
        "X4", "ours", "Before an update the replayed log_prob is the stored one",
        "–", "invariant", _CLAIMS, f.replay_error, threshold=1e-5,
    ),
    Claim(
        "X5", "ours", "A killed and resumed run ends with the same bytes",
        "–", "fact", _CHECK.format(id="X5"),
    ),
    Claim(
        "X6", "ours", "One process and two give the same run",
        "–", "fact", _CHECK.format(id="X6"),
    ),
)  # fmt: skip
