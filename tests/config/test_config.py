"""Settings: what is generated has not drifted, and every bad value gives one line that mends it."""

import json
from pathlib import Path

import pytest
import yaml

from cast.config import (
    CastConfig,
    RunConfig,
    check_files,
    load_config,
    load_method_config,
    run_config,
)
from cast.config.__main__ import main
from cast.config.model import section_of
from cast.config.writing import default_yaml, schema_json
from cast.errors import CastError
from cast.paths import repository_root

ROOT = repository_root()
WORLDS = ("smoke", "mini", "paper")


def keys(section) -> set[str]:
    """Every key of a section, with dots."""
    found = set()
    for name, field in section.model_fields.items():
        inner = section_of(field.annotation)
        found |= {f"{name}.{key}" for key in keys(inner)} if inner else {name}
    return found


def flat(values: dict, place: str = "") -> set[str]:
    found = set()
    for key, value in values.items():
        here = f"{place}{key}"
        found |= flat(value, f"{here}.") if isinstance(value, dict) and value else {here}
    return found


def test_generated_files_are_those_of_the_models():
    mend = "run `python -m cast.config write`"
    assert (ROOT / "config/mini.yaml").read_text() == default_yaml(), mend
    assert (ROOT / "config/schema.json").read_text() == schema_json(), mend


@pytest.mark.parametrize("world", WORLDS)
def test_shipped_configs_say_everything(world):
    """No default of the mini world slips into another world."""
    values = yaml.safe_load((ROOT / f"config/{world}.yaml").read_text())
    assert flat(values) == keys(CastConfig)


@pytest.mark.parametrize("world", WORLDS)
def test_shipped_configs_resolve_every_arm(world):
    config = load_config(f"config/{world}.yaml")
    assert config.world == world
    for backbone in config.backbones:
        hashes = {run_config(config, backbone, name, 0).hash() for name in config.methods}
        assert len(hashes) == len(config.methods)


def test_the_default_yaml_is_the_defaults():
    assert load_config("config/mini.yaml") == CastConfig()


def test_every_method_file_is_good():
    for path in (ROOT / "config/methods").glob("*.yaml"):
        assert load_method_config(path.stem).name == path.stem


def test_nulls_are_resolved_and_a_method_may_try_its_own_rate(tmp_path, monkeypatch):
    config = load_config("config/mini.yaml")
    run = run_config(config, "mini-flux2", "cast", 0)
    assert run.sde.noise_level == run.backbone.noise_level
    assert run.training.learning_rate == config.training.learning_rate
    assert run.manifest == "results/mini/prompts/manifest.parquet"


def test_overrides_reach_nested_keys():
    config = load_config("config/mini.yaml", {"training": {"lora": {"rank": 8}}})
    assert config.training.lora.rank == 8
    assert config.training.lora.alpha == CastConfig().training.lora.alpha


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    return path


BAD = {
    "lerning_rate: 1": ["lerning_rate", "unknown key", "allowed here"],
    "training: {lerning_rate: 1}": ["training.lerning_rate", "Did you mean 'learning_rate'?"],
    "training: {group_size: 1}": ["training.group_size = 1", "a whole number >= 2"],
    "training: {group_size: 2.5}": ["training.group_size = 2.5", "a whole number"],
    "training: {group_size: many}": ['training.group_size = "many"', "a whole number"],
    "training: {group_size: true}": ["training.group_size = true", "a whole number"],
    "training: {learning_rate: 0}": ["training.learning_rate = 0", "a number > 0"],
    "training: {learning_rate: .nan}": ["training.learning_rate = NaN", "a number > 0"],
    "training: {learning_rate: .inf}": ["training.learning_rate = Infinity", "a number > 0"],
    "training: {betas: [0.9]}": ["training.betas[1]", "is missing"],
    "training: {betas: [0.9, 1.0]}": ["training.betas[1] = 1.0", "< 1"],
    "training: {initial_noise: share}": ["initial_noise", "distinct", "Did you mean 'shared'?"],
    "training: 5": ["training = 5", "a section with"],
    "training: {collections: 200}": ["training.collections", "prompts.manifest (128)"],
    "training_seeds: []": ["training_seeds = []", "at least 1 long"],
    "training_seeds: [0, 0]": ["training_seeds", "names one twice"],
    "training_seeds: [-1]": ["training_seeds[0] = -1", ">= 0"],
    "more_seeds: {cost: [1]}": ["more_seeds.cost", "neither methods nor ablations list it"],
    "more_seeds: {cast: [-1]}": ["more_seeds.cast", ">= 0"],
    "sampling: {height: 65}": ["sampling.height = 65", "a multiple of 8"],
    "world: min": ['world = "min"', "smoke, mini, paper", "Did you mean 'mini'?"],
    "backbones: [mini-flux]": ["backbones = mini-flux", "known:", "Did you mean 'mini-flux2'?"],
    "methods: [flow_grpo]": ["methods = flow_grpo", "Did you mean 'flow_grpo_g"],
    "methods: [base]": ["methods must not list base"],
    "vocabulary: shape": ["vocabulary = shape", "Did you mean 'shapes'?"],
    "vocabulary: ../shapes": ["vocabulary", "lower-case letters"],
    "prompts: {atoms_min: 9, atoms_max: 8}": ["prompts", "atoms_max must be at least"],
    "prompts: {manifest: 2000}": ["prompts", "manifest must be at most train"],
    "evaluation: {hard_case: {keep: 101}}": ["evaluation.hard_case", "at most pool (100)"],
    "evaluation: {hard_case: {seeds: [100, 300]}}": ["hard_case.seeds must not share [100]"],
    "evaluation: {hard_case: {backbone: x}}": ["evaluation.hard_case.backbone = x", "known:"],
    "preference: {scale: 0}": ["preference.scale = 0", "a number > 0"],
    "quality: {judge: vlm}": ["quality", "judge vlm needs path"],
    "quality: {prompts: a.jsonl}": ["quality", "prompts are for judge vlm"],
    "vocabulary: geneval2": ["quality.judge = mini", "choose vlm or none"],
    "evaluation: {limit: 10}": ["hard_case.pool must be at most limit (10)"],
    "training: {kl: 1}\ntraining: {kl: 2}": ["training is given twice"],
    "[1, 2]": ["must hold keys and values"],
    "training: {kl: [": ["is not YAML"],
    "training: {kl: !!python/object:os.system x}": ["is not YAML"],
}


@pytest.mark.parametrize("text", BAD)
def test_bad_values_give_one_line(text, tmp_path):
    path = written(tmp_path, text)
    with pytest.raises(CastError) as caught:
        load_config(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message
    for part in BAD[text]:
        assert part in message


def test_unreadable_files_give_one_line(tmp_path):
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("results: é".encode("latin-1"))
    for path, part in (
        (tmp_path / "no.yaml", "can't be read"),
        (tmp_path, "can't be read"),
        (latin, "not UTF-8"),
    ):
        with pytest.raises(CastError, match=part):
            load_config(path)


def test_missing_files_are_named(tmp_path):
    config = load_config(
        "config/mini.yaml", {"evaluation": {"benchmark": "data/mini/benchmak.jsonl"}}
    )
    with pytest.raises(CastError, match=r"benchmak.jsonl: no such file.*'benchmark.jsonl'"):
        check_files(config)
    config = load_config("config/mini.yaml", {"verifier": {"path": "models/mini/none"}})
    with pytest.raises(CastError, match=r"verifier.path = models/mini/none: no such folder"):
        check_files(config)


def test_models_and_prompts_of_the_other_judges_are_looked_for(monkeypatch):
    gone = {"preference": {"path": "models/mini/none"}}
    check_files(load_config("config/mini.yaml", {**gone, "methods": ["cast"]}))
    with pytest.raises(CastError, match=r"preference.path = models/mini/none: .*snakemake zoo"):
        check_files(load_config("config/mini.yaml", {**gone, "methods": ["flow_grpo_g1"]}))
    asked = {"quality": {"judge": "vlm", "path": "models/mini/mini-qwen3-vl"}}
    monkeypatch.delenv("CAST_QWEN_IMAGE_BENCH", raising=False)
    with pytest.raises(CastError, match=r"quality.prompts = null: .*CAST_QWEN_IMAGE_BENCH"):
        check_files(load_config("config/mini.yaml", asked))
    monkeypatch.setenv("CAST_QWEN_IMAGE_BENCH", "none.jsonl")
    with pytest.raises(CastError, match=r"quality.prompts = none.jsonl: no such file"):
        check_files(load_config("config/mini.yaml", asked))


def test_only_a_preference_run_has_the_preference_model():
    config = load_config("config/mini.yaml")
    runs = {name: run_config(config, "mini-flux2", name, 0) for name in ("flow_grpo_g1", "cast")}
    assert runs["flow_grpo_g1"].preference == config.preference and runs["cast"].preference is None
    with pytest.raises(ValueError, match="preference belongs to methods with reward preference"):
        RunConfig(**{**dict(runs["flow_grpo_g1"]), "preference": None})


def test_a_benchmark_of_null_needs_the_variable(monkeypatch):
    monkeypatch.delenv("CAST_GENEVAL2", raising=False)
    with pytest.raises(CastError, match="CAST_GENEVAL2"):
        check_files(load_config("config/paper.yaml"), models=False)


def test_a_window_for_other_steps_is_refused():
    config = load_config("config/mini.yaml", {"sampling": {"steps": 10}})
    with pytest.raises(CastError, match=r"window.steps = 20: must be .* \(10\)"):
        run_config(config, "mini-flux2", "cast", 0)


def test_numbers_are_read_as_people_write_them(tmp_path):
    """YAML 1.1 reads 3e-4 as text; here it is a number."""
    path = written(tmp_path, "training: {learning_rate: 3e-4}")
    assert load_config(path).training.learning_rate == 3e-4


def test_the_front_exits_with_2(tmp_path, capsys):
    assert main(["check", str(written(tmp_path, "world: min"))]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_schema_describes_every_key():
    schema = json.loads(schema_json())
    for definition in [schema, *schema["$defs"].values()]:
        for name, field in definition["properties"].items():
            assert field.get("description") or "$ref" in str(field), name
