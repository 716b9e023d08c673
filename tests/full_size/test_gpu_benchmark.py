"""benchmarks/gpu.py at toy size: every section runs; one that fails is recorded and no more."""

import importlib.util
import json
import sys

from cast.paths import from_root


def loaded():
    spec = importlib.util.spec_from_file_location("gpu_bench", from_root("benchmarks/gpu.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_bench"] = module
    spec.loader.exec_module(module)
    return module


def test_a_toy_run_measures_every_section(tmp_path, monkeypatch):
    gpu = loaded()

    def once(bench, function, repeats=3) -> float:
        function()
        return 1.0

    monkeypatch.setattr(gpu.Bench, "time", once)
    assert gpu.main(["--tiny", "--output", str(tmp_path / "gpu.json")]) == 0
    results = json.loads((tmp_path / "gpu.json").read_text())
    errors = json.loads((tmp_path / "gpu.errors.json").read_text())
    for family in ("flux2", "qwen_image"):
        for side in (32, 64):
            assert results[f"{family}_{side}px_b4_update_checkpointed_s"] > 0
    assert {"matmul_tflops", "speed_tflops", "verifier_shared_speedup"} <= set(results)
    assert all("attention" in name for name in errors), "backends that a CPU lacks"


def test_no_section_begins_after_the_time_limit(tmp_path):
    gpu = loaded()
    gpu.main(["--tiny", "--seconds", "-1", "--output", str(tmp_path / "gpu.json")])
    assert json.loads((tmp_path / "gpu.json").read_text()) == {}
    errors = json.loads((tmp_path / "gpu.errors.json").read_text())
    assert all("TimeoutError" in error for error in errors.values()) and len(errors) == 4
