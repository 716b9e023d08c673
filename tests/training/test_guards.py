import pytest
import torch

from cast.training.guards import GuardError, check_finite, check_replay, warnings


def test_nan_and_inf_are_counted_and_placed():
    check_finite(torch.ones(3), "reward", "here")
    bad = [torch.tensor([1.0, float("nan")]), torch.tensor([float("inf")])]
    with pytest.raises(GuardError, match=r"collection 3: 2 of 3 values of the gradient"):
        check_finite(bad, "gradient", "collection 3")


def test_replay_names_image_and_transition():
    errors = torch.zeros(4, 2)
    check_replay(errors, 1e-5, "c")
    errors[2, 1] = 3e-5
    with pytest.raises(GuardError, match=r"image 2, transition 1 differs .* 3e-05"):
        check_replay(errors, 1e-5, "c")
    errors[2, 1] = float("nan")
    with pytest.raises(GuardError):
        check_replay(errors, 1e-5, "c")


def row(collection: int, **changes):
    values = {"zero_advantage": False, "gradient_rms": 1e-3, "score_mean": 0.5, "diversity": 0.1}
    return {"collection": collection, **values, **changes}


def test_warnings():
    assert warnings([row(0)]) == []
    flat = warnings([row(0), row(1, zero_advantage=True, gradient_rms=0.0)])
    assert len(flat) == 1 and "1 of 2" in flat[0]
    assert "Adam" in warnings([row(0, gradient_rms=1e-8)])[0]
    falling = [row(i, score_mean=0.6 if i < 8 else 0.2) for i in range(16)]
    assert "mean score" in warnings(falling)[0] and len(warnings(falling)) == 1
    same = [row(i, diversity=0.1 if i < 8 else 0.01) for i in range(16)]
    assert "image diversity" in warnings(same)[0]
