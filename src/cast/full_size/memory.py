"""What lies on the GPU of a training job, by count (paper App. E: one 141 GB GPU a run)."""

from dataclasses import dataclass

from cast.config import RunConfig
from cast.full_size.counts import backbone_counts
from cast.full_size.verifier_counts import verifier_counts

GB = 1e9
BYTES = {"float32": 4, "bfloat16": 2}
H200 = 141 * GB
CONTEXT = {"paper": 2 * GB, "mini": 0.7 * GB, "smoke": 0.7 * GB}
"""Of a GPU: CUDA's context, cuBLAS workspaces and the allocator's fragments. Of a world without
one: Python and its libraries. Ours, guesses."""


@dataclass(frozen=True)
class Memory:
    """Bytes by part, at the two moments that can be the largest."""

    encoding: dict[str, float]
    updating: dict[str, float]

    @property
    def peak(self) -> float:
        """The larger of the two sums."""
        return max(sum(self.encoding.values()), sum(self.updating.values()))

    def fits(self, available: float = H200) -> bool:
        """Whether both moments fit into `available` bytes."""
        return self.peak <= available


def adapter_bytes(parameters: int, leaves: int) -> dict[str, float]:
    """A float32 adapter: weights, Adam's two moments, gradients.

    Gradients of `leaves` backward passes are summed in a tree (`PairwiseSum`), which holds one
    more copy for every binary digit of their number.
    """
    copies = leaves.bit_length() + 1
    return {
        "adapter": 4.0 * parameters,
        "optimizer": 8.0 * parameters,
        "gradients": 4.0 * parameters * copies,
    }


def training_memory(run: RunConfig) -> Memory:
    """Of one process that trains `run`.

    Everything is loaded at once: transformer, VAE, verifier, and until the prompts are encoded the
    text encoder (unless `text_encoder: cpu` lets it wait elsewhere, and it still passes by).
    """
    counts = backbone_counts(run.backbone, run.sampling.height, run.sampling.width)
    number = BYTES[run.backbone.dtype]
    verifier = verifier_counts(run.verifier)
    training = run.training
    weights = {
        "transformer": number * float(counts.parameters["transformer"]),
        "VAE": number * float(counts.parameters["vae"]),
        "verifier": BYTES[run.verifier.dtype] * float(verifier.parameters),
        "context": CONTEXT[run.world],
    }
    leaves = training.group_size // training.micro_batch * run.sde.window_length
    adapter = adapter_bytes(training.lora.rank * counts.lora_parameters_per_rank, leaves)
    states = training.group_size * (run.sde.window_length + 2) * counts.tokens * counts.channels * 4
    text = {"text encoder": number * float(counts.parameters["text_encoder"])}
    updating = {
        "activations": training.micro_batch * counts.activations,
        "states": float(states),
        "embeddings": float(training.micro_batch * counts.conditioning_bytes),
    }
    return Memory({**weights, **text, "adapter": adapter["adapter"]}, weights | adapter | updating)


def mend(run: RunConfig, memory: Memory) -> str:
    """The setting that would make a run fit, in words."""
    name = run.backbone.name
    if sum(memory.encoding.values()) >= sum(memory.updating.values()):
        return (
            f"the text encoder doesn't fit beside the rest: set text_encoder: cpu in "
            f"config/backbones/{name}.yaml, or spread the transformer with device_map: auto"
        )
    if run.training.micro_batch > 1:
        return f"lower training.micro_batch ({run.training.micro_batch})"
    if memory.updating["gradients"] > 0.1 * memory.peak:
        return f"lower training.lora.rank ({run.training.lora.rank})"
    return (
        f"lower sampling.height and width, or set device_map: auto in config/backbones/{name}.yaml"
    )
