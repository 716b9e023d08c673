"""The acceptance test of a family: our ODE rollout is the pipeline's own `__call__`, bit for bit.

Latents and images in float32, for 1 and 4 prompts of different lengths, a square and a wide
image, with and without guidance.
"""

import pytest
import tiny
import torch

from cast.errors import CastError
from cast.flow import rollout

STEPS = 3
SIZES = [(tiny.SIZE, tiny.SIZE), (24, 40)]


def generators(count: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(100 + i) for i in range(count)]


@pytest.mark.parametrize("guidance", [4.0, None])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("family", tiny.PIPELINES)
def test_the_ode_rollout_is_the_pipeline(family, size, guidance):
    backbone = tiny.backbone(family, guidance, *size)
    for prompts in (tiny.PROMPTS[1:2], tiny.PROMPTS):
        conditioning = backbone.encode(prompts)
        ours = rollout(
            backbone.velocity_for(conditioning),
            backbone.sigmas(STEPS),
            backbone.noise(generators(len(prompts))),
            micro_batch=len(prompts),
        )
        theirs = {
            kind: backbone.pipeline(
                output_type=kind,
                generator=generators(len(prompts)),
                **tiny.call_arguments(family, prompts, size, guidance, STEPS),
            ).images
            for kind in ("latent", "pt")
        }
        latents = theirs["latent"]
        if latents.ndim == 4:
            latents = backbone._pack(latents)
        assert float(latents.std()) > 0.1
        assert torch.equal(ours.latents, latents)
        images = backbone.decode(ours.latents)
        assert images.shape == (len(prompts), 3, *size) and images.dtype == torch.float32
        assert torch.equal(images, theirs["pt"])


@pytest.mark.parametrize("family", tiny.PIPELINES)
def test_guidance_and_prompt_change_the_image(family):
    """Or else the parity above would prove nothing about them."""
    noise = tiny.backbone(family, 4.0).noise(generators(1))
    seen = []
    for guidance, prompt in ((4.0, "a star"), (7.0, "a star"), (4.0, "six hearts")):
        backbone = tiny.backbone(family, guidance)
        x, sigma = noise, torch.tensor([0.5])
        seen.append(backbone.velocity(x, sigma, backbone.encode([prompt])))
    assert float((seen[0] - seen[1]).abs().max()) > 1e-5
    assert float((seen[0] - seen[2]).abs().max()) > 1e-5


@pytest.mark.parametrize("family", tiny.PIPELINES)
def test_tokens_are_row_major_and_decode_where_they_lie(family):
    """A change in one token changes the image most at that token's pixels (or next to them)."""
    height, width = 48, 80
    backbone = tiny.backbone(family, None, height, width)
    rows, columns = backbone.token_grid
    assert (rows, columns) == (6, 10)
    assert backbone.latent_shape[0] == rows * columns
    latents = torch.randn(1, *backbone.latent_shape, generator=generators(1)[0])
    touched = latents.clone()
    touched[0, 4 * columns + 7] += 3.0
    change = (backbone.decode(touched) - backbone.decode(latents)).abs().sum(1)[0]
    side = backbone.token_pixels
    per_token = change.unfold(0, side, side).unfold(1, side, side).sum((-1, -2))
    row, column = divmod(int(per_token.argmax()), columns)
    assert abs(row - 4) <= 1 and abs(column - 7) <= 1


@pytest.mark.parametrize("family", tiny.PIPELINES)
def test_samples_may_lie_at_different_levels(family):
    """As in replay, where each sample has its own step; a row equals the same row elsewhere."""
    backbone = tiny.backbone(family, 4.0)
    conditioning = backbone.encode(["a red circle"]).repeat(3)
    noise = backbone.noise(generators(3))
    mixed = backbone.velocity(noise, torch.tensor([1.0, 0.6, 0.2]), conditioning)
    for i, level in enumerate((1.0, 0.6, 0.2)):
        same = backbone.velocity(noise, torch.full((3,), level), conditioning)
        assert torch.equal(mixed[i], same[i])


@pytest.mark.parametrize("family", tiny.PIPELINES)
def test_encoded_prompts_outlive_the_text_encoder(family):
    backbone = tiny.backbone(family, 4.0)
    first = backbone.encode(["a star"])
    backbone.release_text_encoder()
    again = backbone.encode(["a star"])
    assert all(torch.equal(again.tensors[name], first.tensors[name]) for name in first.tensors)
    with pytest.raises(CastError, match="released before"):
        backbone.encode(["a red circle"])


def test_a_size_that_does_not_fit_the_grid_is_refused():
    with pytest.raises(CastError, match="multiples of 8"):
        tiny.backbone("flux2", None, 32, 36)


def test_a_scale_is_wanted_exactly_where_the_model_embeds_one():
    with pytest.raises(CastError, match="guidance: null is not allowed"):
        tiny.backbone("flux2", None, pipeline=tiny.flux2(guidance=True))
    with pytest.raises(CastError, match=r"guidance: 4\.0 has no effect"):
        tiny.backbone("flux2", 4.0, pipeline=tiny.flux2(guidance=False))
