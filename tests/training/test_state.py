import pytest
import torch
from torch.nn import Parameter

from cast.config import TrainingSection
from cast.errors import CastError
from cast.training.state import EMA_EVERY, TrainingState, learning_rate

GENERATOR = torch.Generator().manual_seed(0)
GRADIENTS = [torch.randn(3, 2, generator=GENERATOR) for _ in range(12)]


def state(**settings) -> TrainingState:
    parameters = {"b": Parameter(torch.zeros(3, 2)), "a": Parameter(torch.ones(2))}
    return TrainingState(parameters, TrainingSection(**settings))


def step(trained: TrainingState, index: int) -> None:
    trained.apply([GRADIENTS[index][0].clone(), GRADIENTS[index].clone()])  # a, then b
    trained.collection += 1
    trained.metrics.append({"x": 0.1 * index, "name": None})


def test_schedule_warms_up_and_stays():
    training = TrainingSection(learning_rate=1.0, warmup=4)
    rates = [learning_rate(update, training) for update in range(6)]
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert learning_rate(0, TrainingSection(learning_rate=0.5, warmup=0)) == 0.5


def test_restored_state_goes_on_bit_for_bit():
    unbroken, first, second = (state(ema=0.9, warmup=3) for _ in range(3))
    for index in range(12):
        step(unbroken, index)
    for index in range(5):
        step(first, index)
    second.restore(first.checkpoint())
    for index in range(5, 12):
        step(second, index)
    for kind in ("parameters", "ema"):
        for name, value in getattr(unbroken, kind).items():
            assert torch.equal(getattr(second, kind)[name], value)
    assert second.metrics == unbroken.metrics
    assert second.learning_rates == unbroken.learning_rates and second.update == 12


def test_a_zero_gradient_from_the_start_moves_only_by_weight_decay():
    trained = state(weight_decay=0.0)
    trained.apply([torch.zeros(2), torch.zeros(3, 2)])
    assert torch.equal(trained.parameters["a"], torch.ones(2)) and trained.update == 1


def test_moving_average_every_fourth_update():
    trained = state(ema=0.5, warmup=0)
    for index in range(EMA_EVERY):
        assert torch.equal(trained.ema["b"], torch.zeros(3, 2))
        step(trained, index)
    current = trained.parameters["b"].detach().clone()
    torch.testing.assert_close(trained.ema["b"], current / 2)
    with trained.averaged():
        assert torch.equal(trained.parameters["b"], trained.ema["b"])
    assert torch.equal(trained.parameters["b"], current)


def test_another_adapter_is_refused():
    other = TrainingState({"c": Parameter(torch.zeros(2))}, TrainingSection())
    with pytest.raises(CastError, match="other parameters"):
        other.restore(state().checkpoint())
