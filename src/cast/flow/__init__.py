"""Rectified-flow sampling with a stochastic window, in pure torch (paper 2.1 and 4.3).

Shapes: B samples, T stochastic transitions, P packed tokens of C channels, N steps.
"""

from cast.flow.rollout import Replay, Rollout, Velocity, micro_batches, replay_log_prob, rollout
from cast.flow.schedule import (
    check_sigmas,
    data_estimate,
    linear_sigmas,
    noise_estimate,
    ode_step,
    shift_sigmas,
)
from cast.flow.transition import (
    Transition,
    TransitionKind,
    check_transition,
    cps,
    flow_sde,
    image_log_prob,
    stochastic_step,
    token_kl,
    token_log_prob,
)
from cast.flow.window import WindowRange, WindowScope, candidate_range, draw_window_starts

__all__ = [
    "Replay",
    "Rollout",
    "Transition",
    "TransitionKind",
    "Velocity",
    "WindowRange",
    "WindowScope",
    "candidate_range",
    "check_sigmas",
    "check_transition",
    "cps",
    "data_estimate",
    "draw_window_starts",
    "flow_sde",
    "image_log_prob",
    "linear_sigmas",
    "micro_batches",
    "noise_estimate",
    "ode_step",
    "replay_log_prob",
    "rollout",
    "shift_sigmas",
    "stochastic_step",
    "token_kl",
    "token_log_prob",
]
