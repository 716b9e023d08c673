"""Questions and captions of an image packed into one sequence, and the losses on their tokens."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from cast.mini.facts import Facts
from cast.mini.world import Scene
from cast.mini.zoo.questions import Question
from cast.scene_graph import PromptRecord
from cast.verifier.attention import rotated
from cast.verifier.segments import Segmenter
from cast.verifier.shared_prefix import ImagePatches

ANSWER, CAPTION, RECALL = 1, 2, 3  # what a turn's last tokens are trained as
MIDDLE = 1  # the layer whose output `QuestionLosses.middle` holds
GROUNDED = 2  # the layer whose attention `QuestionLosses.pointing` reads


@dataclass(frozen=True)
class Asked:
    """A scene, its prompt where it was drawn from one, probes, and open questions."""

    scene: Scene
    record: PromptRecord | None
    questions: list[Question]
    recalls: list[Question]

    @property
    def facts(self) -> Facts:
        """What is true of the scene."""
        return Facts(self.scene.objects, self.scene.touching)


@dataclass(frozen=True)
class Turn:
    """Token ids, how many of the last are targets, and as what they are trained; for captions,
    which rows name something that is to be seen, and the image tokens, bool [64], that show it."""

    ids: list[int]
    targets: int
    kind: int
    named: tuple[tuple[int, Tensor], ...] = ()


@dataclass(frozen=True)
class QuestionLosses:
    """Means over a batch; a kind of turn that it lacks has loss 0.

    `features` [B * 64, 128] are the vision tower's, `middle` [Q, 128] the hidden states behind
    layer MIDDLE at the tokens that answer the Q probes, image by image. `pointing` is the mean of
    -log of the share of layer GROUNDED's attention over the image, heads averaged, that a caption's
    word gives to what it names.
    """

    answer: Tensor
    caption: Tensor
    recall: Tensor
    features: Tensor
    middle: Tensor
    pointing: Tensor
    dense: Tensor = field(default_factory=lambda: torch.zeros(()))


def turns(segmenter: Segmenter, asked: Asked) -> list[Turn]:
    """The turns of one image: probes, open questions, caption; `named` where words are grounded."""
    found = [
        Turn([*segmenter.question(q.probe), segmenter.encode_answer(q.answer)[0]], 1, kind)
        for kind, group in ((ANSWER, asked.questions), (RECALL, asked.recalls))
        for q in group
    ]
    if asked.record is not None:
        segment = segmenter.caption(asked.record.prompt)
        masks = _token_masks(asked.scene, len(asked.record.graph.entities))
        named = tuple(
            (row, masks[list(atom.entities)].any(0))
            for atom in asked.record.atoms
            for row in segment.rows(atom.spans, 0)
        )
        targets = len(segment.ids) - segment.first
        found.append(Turn(list(segment.ids), targets, CAPTION, named))
    return found


def _token_masks(scene: Scene, entities: int) -> Tensor:
    """Bool [E, 64]: image tokens of which an entity covers an eighth or more."""
    shares = scene.entity_masks(entities).reshape(entities, 8, 8, 8, 8).sum((2, 4))
    return torch.from_numpy(shares >= 8).flatten(1)


def answer_losses(
    model: Any,
    segmenter: Segmenter,
    patches: ImagePatches,
    batch: list[list[Turn]],
    grounded: bool = False,
) -> QuestionLosses:
    """One forward pass over images and all their turns; `pointing` is 0 unless `grounded`."""
    prefix, image_start = segmenter.prefix(64)
    start = len(prefix)
    ids, owner, offset, kind = _padded(batch)
    ids = torch.cat([prefix.expand(len(batch), -1), ids], dim=1)
    image = torch.zeros_like(ids)
    image[:, image_start : image_start + 64] = 1
    opening, delta = model.model.get_rope_index(
        ids[:, :start],
        mm_token_type_ids=image[:, :start].int(),
        image_grid_thw=patches.grid_thw,
    )
    follow = (start + delta[:, 0, None] + offset).expand(3, -1, -1)
    middle: list[Tensor] = []
    layers = model.model.language_model.layers
    hook = layers[MIDDLE].register_forward_hook(lambda _, inputs, output: middle.append(output))
    allowed = _mask(owner, start)
    recording = recorded_attention(layers[GROUNDED].self_attn, allowed, image_start)
    with recording if grounded else nullcontext() as attention:
        output = model.model(
            input_ids=ids,
            pixel_values=patches.pixel_values,
            image_grid_thw=patches.grid_thw,
            mm_token_type_ids=image.int(),
            position_ids=torch.cat([opening, follow], dim=2),
            attention_mask=allowed,
            use_cache=False,
        )
    hook.remove()
    # A token is predicted from the one before it.
    hidden = output.last_hidden_state[:, start:][:, :-1]
    target, kind = ids[:, start:][:, 1:], kind[:, 1:]
    answer, caption, recall = (
        cross_entropy(model.lm_head(hidden[kind == k]), target[kind == k])
        if (kind == k).any()
        else torch.zeros(())
        for k in (ANSWER, CAPTION, RECALL)
    )
    features = torch.cat(output.image_outputs.pooler_output)
    before = middle[0][:, start:][:, :-1][kind == ANSWER]
    pointing = torch.zeros(())
    if attention:
        pointing = _pointing_loss(attention[0][:, start:], batch)
    return QuestionLosses(answer, caption, recall, features, before, pointing)


@contextmanager
def recorded_attention(layer: Any, allowed: Tensor, image_start: int) -> Iterator[list[Tensor]]:
    """Collect, with gradients, a layer's attention over the image tokens, [B, T, 64], head mean."""
    found: list[Tensor] = []

    def hook(module: Any, _: Any, inputs: dict[str, Any]) -> None:
        hidden, angles = inputs["hidden_states"], inputs["position_embeddings"]
        query = rotated(module.q_norm, module.q_proj, module, hidden, angles)
        key = rotated(module.k_norm, module.k_proj, module, hidden, angles)
        key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
        logits = query @ key.transpose(2, 3) * module.head_dim**-0.5
        weights = logits.masked_fill(~allowed, -torch.inf).softmax(dim=-1)
        found.append(weights[..., image_start : image_start + 64].mean(dim=1))

    handle = layer.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield found
    finally:
        handle.remove()


def _pointing_loss(attention: Tensor, batch: list[list[Turn]]) -> Tensor:
    """See `QuestionLosses`; attention [B, T, 64] of the rows behind the prefix."""
    losses = []
    for image, row in zip(attention, batch, strict=True):
        first = 0
        for turn in row:
            for place, mask in turn.named:
                weights = image[first + place]
                losses.append(-torch.log(weights[mask].sum() / weights.sum() + 1e-6))
            first += len(turn.ids)
    return torch.stack(losses).mean() if losses else torch.zeros(())


def _padded(batch: list[list[Turn]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Int [B, T] each: ids, turn number (-1 is padding), place in the turn, kind (0 for none)."""
    rows = [_row(row) for row in batch]
    size = max(len(ids) for ids, _, _, _ in rows)
    ids, owner, offset, kind = (
        torch.tensor([[*row[i], *[fill] * (size - len(row[i]))] for row in rows])
        for i, fill in enumerate((0, -1, 0, 0))
    )
    return ids, owner, offset, kind


def _row(row: list[Turn]) -> tuple[list[int], list[int], list[int], list[int]]:
    ids, owner, offset, kind = [], [], [], []
    for number, turn in enumerate(row):
        ids += turn.ids
        owner += [number] * len(turn.ids)
        offset += range(len(turn.ids))
        kind += [0] * (len(turn.ids) - turn.targets) + [turn.kind] * turn.targets
    return ids, owner, offset, kind


def _mask(owner: Tensor, prefix: int) -> Tensor:
    """Bool [B, 1, T, T]: the prefix is causal; a turn sees the prefix and its own past."""
    owner = torch.cat([torch.full((len(owner), prefix), -2), owner], dim=1)
    size = owner.shape[1]
    same = owner[:, :, None] == owner[:, None, :]
    sees = same | (owner == -2)[:, None, :]
    causal = torch.ones(size, size, dtype=torch.bool).tril()
    return (sees & causal)[:, None]
