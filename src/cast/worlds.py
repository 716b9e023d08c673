"""What must be said beside every number of a world."""

WORLDS = {
    "smoke": "SMOKE RUN: made at a size where no number means anything.",
    "mini": "Mini world: small models trained from scratch on 64x64 scenes; its numbers are its "
    "own, not those of the large models.",
    "paper": "Full size.",
}
