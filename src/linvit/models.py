"""timm VisionTransformers with a linear operator, by configuration and by registered name."""

from collections.abc import Callable, Mapping
from typing import Any

from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from timm.models.vision_transformer import VisionTransformer, checkpoint_filter_fn

from linvit.catalog import SIZES
from linvit.errors import LinvitError
from linvit.operators import OPERATORS, bind


def create(
    operator: str,
    *,
    img_size: int,
    in_chans: int,
    patch_size: int,
    embed_dim: int,
    depth: int,
    num_heads: int,
    num_classes: int,
    drop_path: float = 0.0,
    operator_options: Mapping[str, Any] = {},
) -> VisionTransformer:
    """A pre-norm ViT with class token, DeiT's layout; raises LinvitError where sizes disagree."""
    return VisionTransformer(
        img_size=img_size,
        in_chans=in_chans,
        patch_size=patch_size,
        embed_dim=embed_dim,
        depth=depth,
        num_heads=num_heads,
        num_classes=num_classes,
        drop_path_rate=drop_path,
        attn_layer=bind(operator, grid=patch_grid(img_size, patch_size), **operator_options),
    )


def patch_grid(img_size: int | tuple[int, int], patch_size: int) -> tuple[int, int]:
    """Patches (down, across); raises LinvitError when the patch does not divide the image."""
    height, width = (img_size, img_size) if isinstance(img_size, int) else img_size
    if height % patch_size or width % patch_size:
        raise LinvitError(f"img_size {img_size} is not divisible by patch_size {patch_size}")
    return height // patch_size, width // patch_size


def _entrypoint(size: str, operator: str) -> Callable[..., VisionTransformer]:
    name = f"linvit_{size}_patch16_224_{operator}"

    def entrypoint(
        pretrained: bool = False, operator_options: Mapping[str, Any] = {}, **kwargs: Any
    ) -> VisionTransformer:
        if pretrained:
            raise LinvitError(f"{name} has no weights of its own; copy them with linvit.transfer")
        arguments = SIZES[size] | kwargs
        grid = patch_grid(arguments["img_size"], arguments["patch_size"])
        prefix_tokens = int(arguments.get("class_token", True)) + arguments.get("reg_tokens", 0)
        layer = bind(operator, grid=grid, prefix_tokens=prefix_tokens, **operator_options)
        return build_model_with_cfg(
            VisionTransformer,
            name,
            pretrained,
            pretrained_filter_fn=checkpoint_filter_fn,
            feature_cfg={"out_indices": arguments.pop("out_indices", 3), "feature_cls": "getter"},
            attn_layer=layer,
            **arguments,
        )

    entrypoint.__name__ = entrypoint.__qualname__ = name
    entrypoint.__doc__ = f"DeiT-{size} (patch 16, 224 px) with operator {operator}."
    return entrypoint


_CFG = {
    "num_classes": 1000,
    "input_size": (3, 224, 224),
    "crop_pct": 0.875,
    "interpolation": "bicubic",
    "fixed_input_size": True,
    "mean": IMAGENET_DEFAULT_MEAN,
    "std": IMAGENET_DEFAULT_STD,
    "first_conv": "patch_embed.proj",
    "classifier": "head",
}
_ENTRYPOINTS = [_entrypoint(size, operator) for size in SIZES for operator in OPERATORS]
__all__ = ["create", "patch_grid"]
default_cfgs = generate_default_cfgs({function.__name__: _CFG for function in _ENTRYPOINTS})
for _function in _ENTRYPOINTS:
    globals()[_function.__name__] = register_model(_function)
