"""Operations of a CLIP's vision tower in closed form, from its config dict alone.

PickScore is a CLIP. A linear layer costs two operations a weight and token, attention of S tokens
4 S^2 h a layer of width h. The text tower is left out: it runs once a prompt.
"""

from cast.full_size.verifier_counts import model_shape


def clip_image_operations(path: str, key: str) -> float:
    """One image through the CLIP at `path`, which the config names under `key`.

    Raises `CastError` for a model without a shape.
    """
    shape = model_shape(path, key)
    vision = shape["vision_config"]
    patch, hidden = vision["patch_size"], vision["hidden_size"]
    patches = (vision.get("image_size", 224) // patch) ** 2
    tokens = patches + 1  # the class token
    layer = 4 * hidden**2 + 2 * hidden * vision["intermediate_size"]
    blocks = vision["num_hidden_layers"] * (2 * tokens * layer + 4 * tokens**2 * hidden)
    projection = hidden * shape["projection_dim"]
    return float(blocks + 2 * patches * 3 * patch**2 * hidden + 2 * projection)
